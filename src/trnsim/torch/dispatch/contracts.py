"""The contract of an operator, from its schema: new results, and results that are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from torch._ops import OpOverload

_TENSOR_TYPES: Final = ("Tensor", "Optional[Tensor]")

Slot = tuple[int, str]
"""Position and name of an argument."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The part of a schema that decides how a kernel returns results to the device.

    Attributes:
        name: the operator's full name ("aten::add.Tensor").
        arguments: the names of its arguments, by position.
        tensors: the names of arguments that are a tensor or None.
        outs: the arguments to which an `out=` form writes its results.
        returned_arguments: for each result the written argument that it is, or None for another.
        generator: the argument for a random generator, if any.
        is_seeded: true if it draws random numbers, with or without a generator argument.
        takes_device: true if it has an argument for the device of its result.
        is_view: true if a result shares memory with an argument that is not written.
    """

    name: str
    arguments: tuple[str, ...]
    tensors: frozenset[str]
    outs: tuple[str, ...]
    returned_arguments: tuple[Slot | None, ...]
    generator: Slot | None
    is_seeded: bool
    takes_device: bool
    is_view: bool


@cache
def read_contract(operator: OpOverload[..., Any]) -> Contract:
    """The contract of an operator, from its schema."""
    schema = operator._schema  # noqa: SLF001  PyTorch's way to ask
    arguments = schema.arguments
    slot_by_label: dict[str, Slot] = {}
    for position, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for label in argument.alias_info.before_set:
                slot_by_label[label] = (position, argument.name)
    generators = [slot for slot in enumerate(a.name for a in arguments) if slot[1] == "generator"]
    return Contract(
        name=schema.name + (f".{schema.overload_name}" if schema.overload_name else ""),
        arguments=tuple(argument.name for argument in arguments),
        tensors=frozenset(a.name for a in arguments if str(a.type) in _TENSOR_TYPES),
        outs=tuple(argument.name for argument in arguments if argument.is_out),
        returned_arguments=tuple(
            _argument_returned(result, slot_by_label) for result in schema.returns
        ),
        generator=generators[0] if generators else None,
        is_seeded=torch.Tag.nondeterministic_seeded in operator.tags,
        takes_device=any(argument.name == "device" for argument in arguments),
        is_view=_has_view(schema),
    )


def is_view(name: str) -> bool:
    """True if an operator makes a view, by its full name alone: its object is not made."""
    packet, _, variant = name.partition(".")
    return _has_view(torch._C._get_schema(packet, variant))  # noqa: SLF001  as above


def _has_view(schema: Any) -> bool:
    """True if a result shares memory with an argument that is not written."""
    return any(
        result.alias_info is not None and not result.alias_info.is_write
        for result in schema.returns
    )


def _argument_returned(result: Any, slot_by_label: dict[str, Slot]) -> Slot | None:
    """The written argument that a result is, by their common alias set in the schema."""
    if result.alias_info is None or not result.alias_info.is_write:
        return None
    return next(
        (slot_by_label[label] for label in result.alias_info.before_set if label in slot_by_label),
        None,
    )
