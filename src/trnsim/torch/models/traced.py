"""A module traced on arguments as a graph of PyTorch's, without values.

It is several times as fast as `torch.export`, which traces twice and guards dynamic properties; a
graph on the chip has static shapes only.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import is_lowered
from trnsim.torch.models.host_reads import RefusedHostReads
from trnsim.torch.models.onednn import without_onednn
from trnsim.torch.models.places import PlaceRecorder

Tensors = list[Tensor]


@dataclass(frozen=True)
class TracedModule:
    """A module as a graph of PyTorch's.

    Attributes:
        module: the graph.
        names: input of the graph -> its name: a weight's name in the module, or the position of
            an argument's tensor.
        weights: names of parameters, buffers, and other tensors that the module keeps.
    """

    module: fx.GraphModule
    names: dict[str, str]
    weights: frozenset[str]


class _FlatModule:
    """A module as a function of lists of tensors: its parameters, its buffers, its arguments."""

    def __init__(self, module: nn.Module, args: Sequence[Any]) -> None:
        self.module, self.places = module, PlaceRecorder()
        self.parameters = dict(module.named_parameters())
        self.buffers = dict(module.named_buffers())
        self.args, self.structure = pytree.tree_flatten(tuple(args))
        self._names = _names_of_tensors(module, [*self.parameters.items(), *self.buffers.items()])

    def results(self, parameters: Tensors, buffers: Tensors, arguments: Tensors) -> Tensors:
        """The tensors that the module returns."""
        values = dict(zip((*self.parameters, *self.buffers), (*parameters, *buffers), strict=True))
        args: Any = pytree.tree_unflatten(arguments, self.structure)
        with self.places.record_forward(self.module):
            tensors = {place: values[name] for place, name in self._names.items()}
            outputs = torch.func.functional_call(self.module, tensors, args, tie_weights=False)
        leaves: Tensors = pytree.tree_leaves(outputs)
        return leaves

    def step(self, parameters: Tensors, buffers: Tensors, arguments: Tensors) -> Tensors:
        """The loss that the module returns, and its gradient by each parameter it depends on."""
        (loss,) = self.results(parameters, buffers, arguments)
        with self.places.annotate_backward():
            grads: Any = torch.autograd.grad(
                loss, parameters, allow_unused=True
            )  # None where unused
        return [loss, *(grad for grad in grads if grad is not None)]


@contextmanager
def _without_custom_gradients() -> Generator[None]:
    """Context in which `torch.autograd.Function.apply` is its `forward` where gradients are off.

    PyTorch's functionalization refuses functions without `setup_context`.
    """
    function: Any = torch.autograd.Function
    original_apply = function.__dict__["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            return original_apply.__get__(None, cls)(*args, **kwargs)
        if cls.setup_context is not function.setup_context:
            return cls.forward(*args, **kwargs)
        return cls.forward(torch.autograd.function.FunctionCtx(), *args, **kwargs)

    function.apply = classmethod(apply)
    try:
        yield
    finally:
        function.apply = original_apply


def _names_of_tensors(
    module: nn.Module, named_tensors: Sequence[tuple[str, Tensor]]
) -> dict[str, str]:
    """The name of each tensor in a module, by path; tied tensors have the same name.

    PyTorch ties tensors by name, and so misses tensors of a module that is registered at two paths.
    """
    names = {id(tensor): name for name, tensor in reversed(named_tensors)}
    places = {
        f"{path}.{key}" if path else key: tensor
        for path, part in module.named_modules()
        for key, tensor in (
            *part.named_parameters(recurse=False, remove_duplicate=False),
            *part.named_buffers(recurse=False, remove_duplicate=False),
        )
    }
    return {place: names[id(tensor)] for place, tensor in places.items()}


def trace_module(
    module: nn.Module,
    args: Sequence[Any],
    *,
    is_trained: bool = False,
    read_mode: AbstractContextManager[Any] | None = None,
    is_decomposed: bool = True,
    is_compiling: bool = True,
) -> TracedModule:
    """The graph of a module on arguments.

    Args:
        module: the module.
        args: tensors in lists and dictionaries, of any device.
        is_trained: whether it returns a loss, whose gradient by its parameters is an output too.
        read_mode: a mode that answers reads of values; operators are then computed while they
            are traced.
        is_decomposed: whether operators are decomposed into lowered ones; otherwise the graph has
            the operators that the module calls.
        is_compiling: whether `torch.compiler.is_compiling()` is true while the module is traced.
    """
    flat_module = _FlatModule(module, args)

    def call(parameters: Tensors, buffers: Tensors, arguments: Tensors) -> Tensors:
        with read_mode or nullcontext(), RefusedHostReads():
            return (flat_module.step if is_trained else flat_module.results)(
                parameters, buffers, arguments
            )

    # Functionalization excludes gradients; a function with gradients writes to no argument.
    is_pure = is_trained or not is_decomposed
    function = call if is_pure else torch.func.functionalize(call, remove="mutations")
    table = pytorch.decompositions(is_lowered) if is_decomposed else None
    tracer: Any = make_fx(
        function,
        decomposition_table=table,
        tracing_mode="fake" if read_mode is None else "real",
        pre_dispatch=not is_decomposed,
        _allow_non_fake_inputs=True,  # tensors that a module keeps beside its buffers
    )
    function_context = nullcontext() if is_trained else _without_custom_gradients()
    compile_context = pytorch.tracing_context() if is_compiling else nullcontext()
    gradient_context = torch.set_grad_enabled(is_trained)
    with compile_context, gradient_context, function_context, without_onednn():
        graph = tracer(
            list(flat_module.parameters.values()),
            list(flat_module.buffers.values()),
            flat_module.args,
        )
    inputs = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    constants = [node.name for node in graph.graph.nodes if node.op == "get_attr"]
    weights = (*flat_module.parameters, *flat_module.buffers)
    names = dict(zip(inputs, (*weights, *map(str, range(len(flat_module.args)))), strict=True))
    return TracedModule(graph, names, frozenset({*weights, *constants}))
