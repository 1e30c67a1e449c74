"""The graphs of a model's forward and backward pass, as torch.compile splits them.

PyTorch traces the model once, without values. Where a value decides what runs, that fails; then
torch.compile breaks the model into several graphs there.
"""

import copy
from dataclasses import dataclass, field

import numpy as np
import tiny
import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition

from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import is_lowered
from trnsim.torch.compile.program_run import graph_ordered_array


@dataclass
class Captured:
    """A graph of PyTorch's.

    Attributes:
        kind: "forward" or "backward".
        module: the graph.
        weights: how many of its first inputs do not change from call to call.
        given: what it was called with.
    """

    kind: str
    module: fx.GraphModule
    weights: int
    given: list = field(default_factory=list)

    def arrays(self, imported):
        """The inputs of the graph as it was imported, zeros where it was made empty; None if it
        was not called.
        """
        if not self.given:
            return None
        graph = imported.graph
        read = {value.number for node in graph.nodes for value in node.values}
        read |= {value.number for value in graph.outputs}
        nodes = [node.name for node in self.module.graph.nodes if node.op == "placeholder"]
        given = dict(zip(nodes, self.given, strict=False))
        kept = {node.name: node for node in self.module.graph.nodes if node.op == "get_attr"}
        found = []
        for value in graph.inputs:
            name = imported.names[value.number]
            if value.number in read and name in given:
                found.append(graph_ordered_array(given[name], imported.specs[value.number]))
            elif value.number in read and name in kept:
                tensor = getattr(self.module, str(kept[name].target))
                found.append(graph_ordered_array(tensor, imported.specs[value.number]))
            else:
                found.append(np.zeros(value.shape, value.type.numpy_dtype()))
        kinds = [value.type.numpy_dtype() for value in graph.inputs]
        return [
            a.view(np.bool_) if kind == np.bool_ else a
            for a, kind in zip(found, kinds, strict=True)
        ]


@dataclass
class _Capture:
    """The graphs so far."""

    weights: int
    found: list

    def compiler(self, kind):
        def compiled(module, _):
            one = Captured(kind, module, self.weights if kind == "forward" else 0)
            self.found.append(one)

            def run(*args):
                one.given = list(args)
                return module.forward(*args)

            return pytorch.boxed_function(run)

        return compiled

    def is_whole(self):
        """Whether there is a forward graph, and the backward graph if one was asked for."""
        return {one.kind for one in self.found} >= {"forward", "backward"}

    def rules(self):
        return {
            "fw_compiler": self.compiler("forward"),
            "bw_compiler": self.compiler("backward"),
            "decompositions": pytorch.decompositions(is_lowered),
            "partition_fn": min_cut_rematerialization_partition,
        }


def whole(built):
    """The forward and the backward graph of a model, each in one piece, and what ended it early.

    A value that decides what runs is such an error. One that computing them raised, on the host,
    is none.
    """
    model = copy.deepcopy(built.model).to("neuron")
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    inputs = {name: value.to("neuron") for name, value in built.inputs.items()}

    def call(trained, kept, given):
        values = dict(zip((*parameters, *buffers), (*trained, *kept), strict=True))
        found = torch.func.functional_call(model, values, (), given)
        return [tensor for _, tensor in tiny.tensors("", found)]

    capture = _Capture(len(parameters) + len(buffers), [])
    traced = aot_function(call, **capture.rules())
    try:
        with pytorch.tracing_context():
            outputs = traced(list(parameters.values()), list(buffers.values()), inputs)
        _backward(outputs)
    except Exception as error:  # noqa: BLE001  whatever it is
        return capture.found, None if capture.is_whole() else error
    return capture.found, None


def pieces(built):
    """The forward and backward graphs of a model as torch.compile breaks it, and an error."""
    model = copy.deepcopy(built.model).to("neuron")
    capture = _Capture(0, [])
    compiled = torch.compile(model, backend=aot_autograd(**capture.rules()), dynamic=False)
    inputs = {name: value.to("neuron") for name, value in built.inputs.items()}
    try:
        _backward([tensor for _, tensor in tiny.tensors("", compiled(**inputs))])
    except Exception as error:  # noqa: BLE001  whatever it is stands on the page
        return capture.found, error
    return capture.found, None


def _backward(outputs):
    loss = sum(one.float().square().mean() for one in outputs if one.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
