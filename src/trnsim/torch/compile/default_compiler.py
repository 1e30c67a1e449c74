"""`torch.compile(model)` without a backend, for a model on the device.

PyTorch's default backend is inductor, which writes C++ and Triton. A device can bring a scheduler
and a code generator for inductor's own loops, but no other kind of compiler.
`torch.compiler.set_default_backend` chooses for the whole process, before a model's device is
known, drops `mode` and `options`, and costs the import of the tracer. So the call of the inductor
backend is wrapped: a graph with a neuron tensor is compiled here, and any other goes to inductor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

from torch import Tensor

from trnsim.torch import pytorch
from trnsim.torch.device_name import is_neuron


def register() -> None:
    """Make this backend compile the graphs with tensors on the device from now on."""
    pytorch.replace_inductor(_wrap_inductor)


def _wrap_inductor(inductor: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(inductor)
    def compile_graph(backend: Any, module: Any, inputs: Sequence[Any], **options: Any) -> Any:
        if not _is_on_device(module, inputs):
            return inductor(backend, module, inputs, **options)
        return import_module("trnsim.torch.compile.compiler").compile_graph(module, inputs)

    return compile_graph


def _is_on_device(module: Any, inputs: Sequence[Any]) -> bool:
    """True if a graph has an input on the device, or creates a tensor there."""
    created_values = (node.meta.get("example_value") for node in module.graph.nodes)
    return any(is_neuron(tensor.device) for tensor in _tensors([*inputs, *created_values]))


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
