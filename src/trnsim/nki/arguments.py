"""Checks of arguments: whole numbers, booleans and tensors, or an error with the legal values."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from trnsim.errors import IllegalInstruction
from trnsim.isa import VirtualRegister
from trnsim.memory import Tile

SOURCE = "nki.language.NkiTensor"


def integers(label: str, *values: Any, source: str = SOURCE) -> tuple[int, ...]:
    """Integers that are constant when the kernel is compiled.

    Raises:
        IllegalInstruction: for a register, a fraction, or no number at all.
    """
    if all(value.__class__ is int for value in values):  # the usual case
        return values
    try:
        if not any(isinstance(value, VirtualRegister) for value in values):
            return tuple(operator.index(value) for value in values)
    except TypeError:
        pass
    shown = ", ".join(map(repr, values))
    raise IllegalInstruction(
        f"{label}({shown}); legal: whole numbers known when the kernel is compiled",
        fix="pass integers; a register indexes between brackets: tensor[register]",
        source=source,
    )


def lengths(label: str, values: Any, source: str = SOURCE) -> tuple[int, ...]:
    """A sequence of integers that are constant when the kernel is compiled.

    Raises:
        IllegalInstruction: for any other value.
    """
    if not isinstance(values, Iterable) or isinstance(values, Tile):
        _refuse_sequence(label, values, source)
    return integers(label, *values, source=source)


def boolean(label: str, value: Any, source: str = SOURCE) -> bool:
    """`value` as True or False.

    Raises:
        IllegalInstruction: for any value but these, 0 and 1.
    """
    if not isinstance(value, bool | int | np.bool_) or value not in {0, 1}:
        raise IllegalInstruction(
            f"{label}({value!r}); legal: True or False", fix="pass a boolean", source=source
        )
    return bool(value)


def check_tensor(label: str, value: Any, source: str = SOURCE) -> Tile:
    """`value`, checked to be a tensor.

    Raises:
        IllegalInstruction: for any other value.
    """
    if not isinstance(value, Tile):
        raise IllegalInstruction(
            f"{label} of {type(value).__name__}; legal: a tensor",
            fix=getattr(value, "operand_fix", "pass a tensor made by nl.ndarray, or a view of one"),
            source=source,
        )
    return value


def _refuse_sequence(label: str, values: Any, source: str) -> NoReturn:
    raise IllegalInstruction(
        f"{label}({values!r}); legal: a sequence of whole numbers",
        fix="pass a tuple, such as (128, 512)",
        source=source,
    )
