"""A module traced on arguments as a graph of PyTorch's, without values.

It is several times as fast as `torch.export`, which traces twice and guards dynamic properties; a
graph on the chip has static shapes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import is_lowered
from trnsim.torch.models.places import PlaceRecorder

Tensors = list[Tensor]


@dataclass(frozen=True)
class TracedModule:
    """A module as a graph of PyTorch's.

    Attributes:
        module: the graph.
        names: names of its inputs by those in the graph: weights by their names in the module,
            tensors of the arguments by their positions.
        weights: names of parameters, buffers, and other tensors that the module keeps.
    """

    module: fx.GraphModule
    names: dict[str, str]
    weights: frozenset[str]


class _Flat:
    """A module as a function of lists of tensors: its parameters, its buffers, its arguments."""

    def __init__(self, module: nn.Module, args: Sequence[Any]) -> None:
        self.module, self.places = module, PlaceRecorder()
        self.parameters = dict(module.named_parameters())
        self.buffers = dict(module.named_buffers())
        self.args, self.form = pytree.tree_flatten(tuple(args))

    def results(self, trained: Tensors, buffers: Tensors, arguments: Tensors) -> Tensors:
        """The tensors that the module returns."""
        values = dict(zip((*self.parameters, *self.buffers), (*trained, *buffers), strict=True))
        nested: Any = pytree.tree_unflatten(arguments, self.form)
        with self.places.record_forward(self.module):
            outputs = torch.func.functional_call(self.module, values, nested)
        leaves: Tensors = pytree.tree_leaves(outputs)
        return leaves

    def step(self, trained: Tensors, buffers: Tensors, arguments: Tensors) -> Tensors:
        """The loss that the module returns, and its gradient by each parameter it depends on."""
        (loss,) = self.results(trained, buffers, arguments)
        with self.places.annotate_backward():
            grads: Any = torch.autograd.grad(loss, trained, allow_unused=True)  # None where unused
        return [loss, *(grad for grad in grads if grad is not None)]


def trace_module(
    module: nn.Module, args: Sequence[Any], *, is_trained: bool = False
) -> TracedModule:
    """The graph of a module; if it is trained, that of its loss and the gradient by its parameters.

    `args` are tensors in lists and dictionaries, of any device.
    """
    flat = _Flat(module, args)

    def call(trained: Tensors, buffers: Tensors, arguments: Tensors) -> Tensors:
        return (flat.step if is_trained else flat.results)(trained, buffers, arguments)

    # Under functionalization PyTorch has no gradients; what autograd runs writes to no argument.
    pure = call if is_trained else torch.func.functionalize(call, remove="mutations")
    table = pytorch.decompositions(is_lowered)
    tracer: Any = make_fx(
        pure,
        decomposition_table=table,
        tracing_mode="fake",
        _allow_non_fake_inputs=True,  # tensors that a module keeps beside its buffers
    )
    with pytorch.while_traced(), torch.set_grad_enabled(is_trained):
        graph = tracer(list(flat.parameters.values()), list(flat.buffers.values()), flat.args)
    inputs = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    constants = [node.name for node in graph.graph.nodes if node.op == "get_attr"]
    weights = (*flat.parameters, *flat.buffers)
    names = dict(zip(inputs, (*weights, *map(str, range(len(flat.args)))), strict=True))
    return TracedModule(graph, names, frozenset({*weights, *constants}))
