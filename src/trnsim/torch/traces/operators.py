"""`torch.ops.neuron`: the operators that load and run traced programs.

TorchScript finds an operator by its schema, so they are registered with the device; what they call
is imported when a program is there. A module calls them with its program, whatever instance of it
is loaded: a frozen or copied module finds its own again.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from torch import Tensor

from trnsim.torch import pytorch

_SCHEMAS: Final = (
    "load(Tensor program, bool is_lazy, bool is_async) -> int",
    (
        "forward(Tensor program, Tensor[] weights, Tensor[] inputs, bool is_batched, int instance) "
        "-> Tensor[]"
    ),
    "check_savable(Tensor program) -> ()",
)
_libraries: Final[list[Any]] = []
# A library removes its operators when it is freed, so this one lives as long as the process.


def register() -> None:
    """Register the operators; a second call does nothing."""
    if _libraries:
        return
    library = pytorch.new_library("neuron", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("load", _load, "CompositeExplicitAutograd")
    library.impl("forward", _forward, "CompositeExplicitAutograd")
    library.impl("check_savable", _check_savable, "CompositeExplicitAutograd")
    _libraries.append(library)


def _instances() -> Any:
    """The module of loaded programs, which needs the compiler; most processes never do."""
    return import_module("trnsim.torch.traces.instances")


def _load(program: Tensor, is_lazy: bool, is_async: bool) -> int:
    """The number of a new instance of a program."""
    number: int = _instances().load(program, is_lazy=is_lazy, is_async=is_async)
    return number


def _forward(
    program: Tensor, weights: list[Tensor], inputs: list[Tensor], is_batched: bool, instance: int
) -> list[Tensor]:
    """The outputs of an instance."""
    found = _instances().instance_of(instance, program)
    outputs: list[Tensor] = found.run(weights, inputs, is_batched=is_batched)
    return outputs


def _check_savable(program: Tensor) -> None:
    """Nothing: a stored program is data."""
    del program
