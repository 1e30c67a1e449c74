"""`torch_neuronx.analyze`: which operators of a function the chip's compiler takes.

Each operator that the function calls is traced alone, with the shapes of its operands. An operator
without a lowering fails at "Lowering to HLO", an operator that neuronx-cc refuses at "neuronx-cc".

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Analyze API for Inference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from trnsim.compiler.compile_cache.settings import compiler_version
from trnsim.compiler.flags import Flags
from trnsim.device.device_core import target
from trnsim.device.program_line import program_line
from trnsim.document.values import compact_json
from trnsim.errors import BadInput, EmulatorError
from trnsim.files import write
from trnsim.torch.compile.fx_import import import_graph
from trnsim.torch.compile.origins import line_of
from trnsim.torch.compile.refused import refusals_of_graph
from trnsim.torch.models.traced import trace_module
from trnsim.torch.traces.example_runs import example_run
from trnsim.torch.traces.tracing import example_arguments, module_of, title_of
from trnsim.xla.neuronx.by_name import __version__
from trnsim.xla.neuronx.workdir import check_workdir

LOWERING: Final = "Lowering to HLO"
COMPILER: Final = "neuronx-cc"
_NO_CORE_DTYPE: Final = "which a NeuronCore does not have"
"""End of the reason of a refusal: HLO has the operator, but no NeuronCore has its dtype."""


class Failure(NamedTuple):
    """A failure of an operator: its place and its reason."""

    place: str
    reason: str


def analyze(
    func: Any,
    example_inputs: Any,
    compiler_workdir: str | Path | None = None,
    *,
    additional_ignored_ops: Collection[str] = (),
    max_workers: int = 4,
    is_hf_transformers: bool = False,
    cleanup: bool = False,
) -> dict[str, Any]:
    """The operators of `func` with their counts, and the operators that the compiler refuses.

    Args:
        func: a module or a function.
        example_inputs: as for `torch_neuronx.trace`.
        compiler_workdir: a folder for the answer, `report.json`.
        additional_ignored_ops: operators that are left out ("aten::linear").
        max_workers: ignored, as one process answers in seconds.
        is_hf_transformers: ignored, as there are no workers to block.
        cleanup: ignored, as no other file is written.

    Raises:
        BadInput: for example inputs, operators or a folder that are not legal.
    """
    del max_workers, is_hf_transformers, cleanup
    _check_names(additional_ignored_ops)
    workdir = None if compiler_workdir is None else check_workdir(compiler_workdir)
    arguments, _ = example_arguments(func, example_inputs)
    supported_counts, unsupported_operators = Counter[str](), list[dict[str, str]]()
    failures: dict[Hashable, Failure | None] = {}
    module = module_of(func)
    with example_run(title_of(func), arguments):
        calls = _calls(module, arguments)
    for node in calls:
        kind = str(node.target.name()).partition(".")[0]
        if kind in additional_ignored_ops:
            continue
        key = call_key(node)
        if key not in failures:
            failures[key] = failure_of(node)
        failure = failures[key]
        if failure is None:
            supported_counts[kind] += 1
        else:
            unsupported_operators.append(_row(node, kind, failure))
    count = sum(supported_counts.values())
    share = count / (count + len(unsupported_operators)) if count or unsupported_operators else 1.0
    report = {
        "torch_neuronx_version": __version__,
        "neuronx_cc_version": compiler_version(),
        "support_percentage": f"{share:.2%}",
        "supported_operators": dict(supported_counts.most_common()),
        "unsupported_operators": unsupported_operators,
    }
    if workdir is not None:
        write(workdir / "report.json", compact_json(report) + "\n", parents=True)
    return report


def _check_names(names: Any) -> None:
    """Refuse ignored operators that are no list of names."""
    if not is_list_of_names(names):
        raise BadInput(
            f"additional_ignored_ops={names!r:.60}; legal: names in a list",
            fix='additional_ignored_ops=["aten::sort"]',
            line=program_line(),
        )


def is_list_of_names(names: Any) -> bool:
    """True for a list, a tuple or a set of texts, but for a text, whose items are characters."""
    is_list = isinstance(names, list | tuple | set | frozenset)
    return is_list and all(isinstance(name, str) for name in names)


def _row(node: fx.Node, kind: str, failure: Failure) -> dict[str, str]:
    """An operator that fails, as AWS's report has it; `reason` is ours."""
    line = line_of(node)
    return {
        "kind": kind,
        "failureAt": failure.place,
        "call": str(line) if line is not None else "",
        "opGraph": str(node.format_node()),
        "reason": failure.reason,
    }


def _calls(module: nn.Module, arguments: tuple[Any, ...]) -> list[Any]:
    """The calls of PyTorch's operators in a module, before any is decomposed."""
    leaves = _FlatResults(module)
    graph = trace_module(leaves, arguments, is_decomposed=False).module.graph
    return [node for node in graph.nodes if isinstance(node.target, OpOverload)]


class _FlatResults(nn.Module):
    """A module that returns the tensors of its results in a list."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> list[Tensor]:
        """The tensors of the results."""
        results = pytree.tree_leaves(self.module(*args))
        return [leaf for leaf in results if isinstance(leaf, Tensor)]


def _form(value: Any) -> Hashable:
    """The form of an argument: shapes and dtypes of its tensors, and constants with their types.

    1, 1.0 and 1 + 0j are equal, but the result of an operator has a dtype of each.
    """
    if isinstance(value, fx.Node):
        return tuple(
            (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf
            for leaf in pytree.tree_leaves(value.meta.get("val"))
        )
    if isinstance(value, list | tuple):
        return tuple(map(_form, value))
    return type(value), value if isinstance(value, Hashable) else str(value)


def call_key(node: fx.Node) -> Hashable:
    """Key that equal calls share: operator, shapes, dtypes and constants."""
    options = tuple((name, _form(value)) for name, value in node.kwargs.items())
    return node.target, _form(node.args), options


def failure_of(node: fx.Node) -> Failure | None:
    """The failure of an operator alone; None if the chip computes it."""
    operands = list(node.all_input_nodes)
    tensors = [operand.meta.get("val") for operand in operands]
    try:
        traced_module = trace_module(
            _SingleCall(node, operands), tuple(map(_meta_tensors, tensors))
        )
        imported_graph = import_graph(traced_module.module)
    except EmulatorError as error:
        return Failure(COMPILER, error.reason)
    except Exception as error:  # noqa: BLE001  PyTorch refuses in many ways
        return Failure(LOWERING, (str(error).splitlines() or [type(error).__name__])[0])
    if imported_graph.missing:
        place = COMPILER if _NO_CORE_DTYPE in imported_graph.missing[0] else LOWERING
        return Failure(place, imported_graph.missing[0])
    refusals = refusals_of_graph(imported_graph, target().name, Flags())
    return Failure(COMPILER, str(refusals[0])) if refusals else None


def _meta_tensors(value: Any) -> Any:
    """Tensors on the meta device with the forms of a trace's tensors."""

    def meta_tensor(tensor: Tensor) -> Tensor:
        return torch.empty_strided(
            tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype, device="meta"
        )

    return pytree.tree_map_only(Tensor, meta_tensor, value)


class _SingleCall(nn.Module):
    """One call of an operator."""

    def __init__(self, node: fx.Node, operands: list[fx.Node]) -> None:
        super().__init__()
        target: Any = node.target
        self._target: Callable[..., Any] = target
        self._args, self._kwargs, self._operands = node.args, node.kwargs, operands

    def forward(self, *values: Any) -> Any:
        """The results of the call."""
        by_node = dict(zip(self._operands, values, strict=True))
        args: Any = fx.map_arg(self._args, by_node.__getitem__)
        options: Any = fx.map_arg(self._kwargs, by_node.__getitem__)
        results = pytree.tree_leaves(self._target(*args, **options))
        return [leaf for leaf in results if isinstance(leaf, Tensor)]
