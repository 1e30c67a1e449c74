"""Type checks of an instruction's fields other than operands.

Operands are checked by `Instruction.verify`, the meaning of well-typed values by
`Instruction.check`. Without this check, wrong types would end in Python's own errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args, get_origin, get_type_hints

import numpy as np

from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.isa.language.instruction import Instruction

_GREATEST_FLOAT64 = int(np.finfo(np.float64).max)
_TYPE_WORDS: dict[Any, str] = {
    str: "an operator such as nl.add",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    NoneType: "None",
    Tile: "a tensor",
}


def wrong_field(instruction: Instruction) -> tuple[str, str, str] | None:
    """(name, value, legal type) of a field whose value has the wrong type; None if all fit."""
    for name, hint, plain in _hints(type(instruction)):
        value = getattr(instruction, name)
        if plain.contains(value):
            continue
        # None for an operator passes here: `check` knows which instructions accept it.
        if not _fits(value, hint) and not (hint is str and value is None):
            if isinstance(value, int) and is_too_large(value):
                return name, f"an integer of {value.bit_length()} bits", "a number of float64"
            return name, repr(value), _describe_type(hint)
    return None


def converted_fields(instruction: Instruction) -> dict[str, Any]:
    """Field -> value converted to the declared type, for values of another legal type.

    `check` and `execute` then see only False and True where 0, 1 and numpy's booleans are legal
    too, and only plain integers where numpy's integers are legal too.
    """
    conversions: dict[str, Any] = {}
    for name, hint, plain in _hints(type(instruction)):
        value = getattr(instruction, name)
        if not plain.contains(value) and _fits(value, hint):
            new_value = _as_its_type(value, hint)
            if new_value is not value:
                conversions[name] = new_value
    return conversions


def are_tiles(*values: object) -> bool:
    """True if each value is a tile: for code that runs before `verify` has checked operands."""
    return all(isinstance(value, Tile) for value in values)


def tensor_fix(value: object, default: str) -> str:
    """The advice for a `value` that should be a tensor; `default` if none is more specific."""
    if hasattr(value, "__array__") and getattr(value, "shape", ()) != ():
        return (
            "pass the array as an argument of the kernel, or make a tensor of it with "
            "nl.shared_constant(array): an array of the host lies in no memory of the chip"
        )
    return str(getattr(value, "operand_fix", default))


def is_whole(value: object) -> bool:
    """True for an integer or boolean of Python or numpy: known when the kernel is compiled."""
    return isinstance(value, int | np.bool_ | np.integer)


def is_too_large(value: object) -> bool:
    """True for an integer beyond the range of float64."""
    return isinstance(value, int) and abs(value) > _GREATEST_FLOAT64


def _hints(instruction_class: type[Instruction]) -> tuple[_Hint, ...]:
    """Name, type hint and plain values of each field that is no operand."""
    if instruction_class not in _hints_of:
        hints = get_type_hints(instruction_class)
        names = [
            f.name for f in fields(instruction_class) if f.name not in instruction_class.operands
        ]
        _hints_of[instruction_class] = tuple(
            (name, hints[name], _plain_types(hints[name])) for name in names
        )
    return _hints_of[instruction_class]


class _PlainValues(NamedTuple):
    """Values that fit a hint and have exactly its type, so that no further check is needed.

    Attributes:
        classes: classes of the values.
        items: classes of the items, for values that are tuples.
    """

    classes: frozenset[type]
    items: frozenset[type]

    def contains(self, value: object) -> bool:
        """True for a plain value; False may only mean that a slower check is needed."""
        if value.__class__ in self.classes:
            return True
        is_tuple = value.__class__ is tuple and bool(self.items)
        return is_tuple and self.items.issuperset(map(type, cast("Any", value)))


_Hint = tuple[str, Any, _PlainValues]
_hints_of: dict[type[Instruction], tuple[_Hint, ...]] = {}


def _plain_types(hint: Any) -> _PlainValues:
    """The plain values of a hint; without numbers if the hint has both booleans and numbers."""
    options = (hint,) if get_origin(hint) is tuple else (hint, *get_args(hint))
    classes = {option for option in options if isinstance(option, type)}
    tuples = [option for option in options if get_origin(option) is tuple]
    items = {item for option in tuples for item in get_args(option) if isinstance(item, type)}
    if {bool, int} <= classes:
        classes -= {bool, int}
    return _PlainValues(frozenset(classes), frozenset(items if len(tuples) == 1 else ()))


def _fits(value: object, hint: Any) -> bool:
    """True if a value is legal for a type hint; 0 and 1 are legal for bool."""
    if hint is bool:
        return is_whole(value) and value in {0, 1}
    if hint is int:
        return is_whole(value) and not isinstance(value, bool | np.bool_)
    if hint is float:
        return isinstance(value, int | float) and not is_too_large(value)
    if isinstance(hint, type):
        return isinstance(value, hint)
    if get_origin(hint) is tuple:
        return is_iterable(value) and all(_fits(x, get_args(hint)[0]) for x in cast("Any", value))
    return any(_fits(value, option) for option in get_args(hint))


def is_iterable(value: object) -> bool:
    """True for a value that Python can loop over: no tile, and no array without dimensions."""
    return (
        isinstance(value, Iterable)
        and not isinstance(value, Tile)
        and getattr(value, "ndim", None) != 0
    )


def _as_its_type(value: Any, hint: Any) -> Any:
    """A legal value in the declared type; the value itself if it has that type."""
    options = get_args(hint) if get_origin(hint) is not tuple else ()
    if bool in (hint, *options) and value.__class__ is not bool and is_whole(value):
        return bool(value)
    if int in (hint, *options) and value.__class__ is not int and is_whole(value):
        return int(value)
    tuple_hint = next((h for h in (hint, *options) if get_origin(h) is tuple), None)
    if tuple_hint is None or not isinstance(value, tuple):
        return value
    items = tuple(_as_its_type(item, get_args(tuple_hint)[0]) for item in value)
    is_same = all(item is original for item, original in zip(items, value, strict=True))
    return value if is_same else items


def _describe_type(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is tuple:
        return f"a tuple, each item {_describe_type(get_args(hint)[0])}"
    if hint in _TYPE_WORDS:
        return _TYPE_WORDS[hint]
    if isinstance(hint, type):
        members = ", ".join(member.name for member in hint) if issubclass(hint, Enum) else ""
        return f"one of {members}" if members else f"a {hint.__name__}"
    return " or ".join(_describe_type(option) for option in get_args(hint))
