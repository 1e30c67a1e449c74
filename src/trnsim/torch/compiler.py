"""`torch.compile(backend="neuron")`: forward and backward graphs, fused, with one time each.

PyTorch traces the program and splits it into a forward and a backward graph of core ATen operators.
Each becomes one graph of ours, so that chains of operators share kernels. Values are computed
operator by operator as in eager mode. `graphs()` says what was compiled and why anew: a new shape
compiles everything again, which is what AWS's compiler takes minutes for.

Shapes are fixed: a graph traced with symbolic sizes is compiled for those at hand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from trnsim.graph import Graph, Value
from trnsim.torch import pytorch
from trnsim.torch.importer import IMPORTERS
from trnsim.torch.importer.build import Build, Spec, Unlowered, spec_of
from trnsim.torch.importer.calls import plain_name, tensors_in, values_in
from trnsim.torch.recording import recordings, without_recording


@dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A graph that was compiled.

    Attributes:
        name: "forward-0", "backward-0" ...
        inputs: the shapes and dtypes that it was compiled for.
        graph: what it does.
        operators: how many operators PyTorch's graph has.
        missing: operators without a lowering, which run on the host, with the reason for each.
        reason: why it was compiled.
    """

    name: str
    inputs: tuple[Spec, ...]
    graph: Graph = field(repr=False)
    operators: int
    missing: tuple[str, ...]
    reason: str

    @property
    def operation(self) -> str:
        """Its name."""
        return self.name


_graphs: list[CompiledGraph] = []
_operators: dict[str, tuple[str, ...]] = {}


def graphs() -> tuple[CompiledGraph, ...]:
    """What was compiled in this process, in order."""
    return tuple(_graphs)


def report() -> str:
    """The compiled graphs in words: sizes, what is missing, and why each was made."""
    lines: list[str] = []
    for one in _graphs:
        shapes = ", ".join(str(list(spec.shape)) for spec in one.inputs)
        lines.append(f"{one.name}: {one.operators} operators; {one.reason}")
        lines.append(f"  inputs   {shapes}")
        lines += [f"  on host  {why}" for why in one.missing]
    return "\n".join(lines) or "nothing was compiled"


def compile_graph(module: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    """What `torch.compile(backend="neuron")` calls; PyTorch finds it by its entry point."""
    split: Any = pytorch.split_by_autograd(
        partial(_compiled, kind="forward"), partial(_compiled, kind="backward")
    )
    compiled: Callable[..., Any] = split(module, inputs)
    return compiled


def _compiled(module: fx.GraphModule, inputs: Sequence[Any], kind: str) -> Callable[..., Any]:
    del inputs
    builder = _Import(module)
    number = sum(one.name.startswith(kind) for one in _graphs)
    one = CompiledGraph(
        f"{kind}-{number}",
        tuple(builder.b.specs),
        builder.b.graph,
        len(builder.operators),
        tuple(dict.fromkeys(builder.missing)),
        _reason(kind, tuple(builder.operators), tuple(builder.b.specs)),
    )
    _graphs.append(one)
    _operators[one.name] = tuple(builder.operators)

    def run(*args: Any) -> Any:
        with without_recording():
            found = module(*args)
        for recording in recordings:
            recording.note_call(one)
        return found

    return pytorch.boxed(run)


def _reason(kind: str, operators: tuple[str, ...], inputs: tuple[Spec, ...]) -> str:
    """Why a graph is new: the same operators were compiled for other inputs, or never."""
    for one in reversed(_graphs):
        if one.name.startswith(kind) and _operators[one.name] == operators:
            for place, (old, new) in enumerate(zip(one.inputs, inputs, strict=False)):
                if old != new:
                    return (
                        f"input {place} was {_words(old)} in {one.name} and is {_words(new)} here"
                    )
            return f"as {one.name}, for another function"
    return "the first of its kind"


def _words(spec: Spec) -> str:
    return f"{str(spec.dtype).removeprefix('torch.')}{list(spec.shape)}"


class _Import:
    """PyTorch's graph as ours; an operator without a lowering gives what is then an input."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.b = Build()
        self.missing: list[str] = []
        self.operators: list[str] = []
        self._made: dict[fx.Node, Any] = {}
        for node in module.graph.nodes:
            self._add(node)
        self.b.graph.prune()

    def _add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self._made[node] = self._fresh(node)
        elif node.op == "output":
            # A transposed result is handed back as a view of what was computed.
            found = values_in(self._value(node.args[0]))
            self.b.graph.outputs = [self.b.graph.origin(value)[0] for value in found]
        elif node.target is operator.getitem:
            place: Any = node.args[1]
            parts: Any = self._value(node.args[0])
            self._made[node] = parts[place] if place < len(parts) else None
        elif node.op == "call_function":
            self._made[node] = self._call(node)

    def _call(self, node: fx.Node) -> Any:
        name = str(getattr(node.target, "name", lambda: str(node.target))())
        self.operators.append(name)
        importer = IMPORTERS.get(plain_name(name))
        specs = [spec_of(tensor) for tensor in tensors_in(node.meta.get("val"))]
        before = len(self.b.graph.nodes)
        try:
            if importer is None:
                raise Unlowered("its arguments: there is no lowering of it")  # noqa: TRY301
            self.b.results = [spec.type for spec in specs]
            args = [self._value(value) for value in node.args]
            return importer(self.b, *args, **{k: self._value(v) for k, v in node.kwargs.items()})
        except (Unlowered, TypeError) as error:
            del self.b.graph.nodes[before:]
            self.missing.append(f"{name}: {error}".splitlines()[0])
            return self._fresh(node)

    def _fresh(self, node: fx.Node) -> Any:
        """The tensors that a node gives, as inputs."""
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            return self._input(value)
        if isinstance(value, list | tuple):
            return [self._input(part) if isinstance(part, Tensor) else part for part in value]
        return value

    def _input(self, tensor: Tensor) -> Value | None:
        try:
            return self.b.input(spec_of(tensor))
        except Unlowered as error:
            self.missing.append(error.reason)
            return None

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return self._made[argument]
        if isinstance(argument, list | tuple):
            return [self._value(part) for part in argument]
        return int(argument) if isinstance(argument, torch.SymInt) else argument
