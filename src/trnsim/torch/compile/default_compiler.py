"""`torch.compile(model)` without a backend, where the model is on the device.

PyTorch's default backend is inductor, which writes C++ and Triton and has no hook for a compiler of
another kind: a device may bring a scheduler and a code generator for inductor's own loops alone.
`torch.compiler.set_default_backend` chooses for the whole process, before anybody knows where a
model lives, forgets `mode` and `options`, and costs the import of the tracer. So the call of the
inductor backend asks first where the tensors of the graph are. A graph without a neuron tensor goes
to inductor as it did, and so does all that PyTorch asks of that backend.
"""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnsim.torch import pytorch
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def register() -> None:
    """From now on, a graph on the device is compiled for it."""
    pytorch.replace_inductor(_choosing)


def _choosing(inductor: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(inductor)
    def compile_graph(backend: Any, module: Any, inputs: Sequence[Any], **options: Any) -> Any:
        if not _is_on_device(module, inputs):
            return inductor(backend, module, inputs, **options)
        return import_module("trnsim.torch.compile.compiler").compile_graph(module, inputs)

    return compile_graph


def _is_on_device(module: Any, inputs: Sequence[Any]) -> bool:
    """Whether a graph takes a tensor of the device, or makes one."""
    made = (node.meta.get("example_value") for node in module.graph.nodes)
    return any(tensor.device.type == DEVICE_TYPE for tensor in _tensors([*inputs, *made]))


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
