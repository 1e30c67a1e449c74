"""Options that are numbers, with a unit or without, as `trnsim.quantities` reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import typer

from trnsim import quantities

_METAVARS_BY_UNIT: Final = {"": "NUMBER", "s": "SECONDS", "requests/s": "PER_SECOND"}
"""Names of units in a help text that are not the unit in capitals."""
_Value = TypeVar("_Value", int, float, tuple[int, ...])


def number(
    text: str,
    *names: str,
    unit: str = "",
    example: str = "",
    default: str | bool = True,
    least: float | None = None,
    above: float | None = None,
) -> Any:
    """An option that takes a number.

    Args:
        text: the option's help.
        names: the option's names; without, the name of its parameter.
        unit: the unit of a number that states none.
        example: a value that the help shows.
        default: the default as the help shows it.
        least: inclusive lower limit.
        above: exclusive lower limit.
    """
    has_no_limit = least is None and above is None
    read = quantities.number if has_no_limit else partial(_number_from, least, above)
    return _option(read, text, names, unit, example, default)


def whole(
    text: str,
    *names: str,
    unit: str = "",
    example: str = "",
    default: str | bool = True,
    least: int | None = None,
    most: int | None = None,
    metavar: str = "",
) -> Any:
    """An option that takes a whole number from `least` to `most`; other arguments: `number`.

    `metavar` is for options of AWS's commands, whose help has other words.
    """
    read = quantities.whole if least is None else partial(_whole_from, least, most)
    return _option(read, text, names, unit, example, default, metavar=metavar)


def wholes(text: str, *names: str, unit: str = "", example: str, is_list: bool = False) -> Any:
    """An option that takes whole numbers with commas between; one number is a list if `is_list`."""
    return _option(partial(quantities.wholes, is_list=is_list), text, names, unit, example)


def _whole_from(least: int, most: int | None, text: str, unit: str) -> int:
    value = quantities.whole(text, unit)
    legal = f"from {least} on" if most is None else f"from {least} to {most}"
    if value < least:
        raise ValueError(f"{text!r} is below {least}; legal: whole numbers {legal}")
    if most is not None and value > most:
        raise ValueError(f"{text!r} is above {most}; legal: whole numbers {legal}")
    return value


def _number_from(least: float | None, above: float | None, text: str, unit: str) -> float:
    value = quantities.number(text, unit)
    if least is not None and value < least:
        raise ValueError(f"{text!r} is below {least:g}; legal: numbers from {least:g} on")
    if above is not None and value <= above:
        raise ValueError(f"{text!r} is not above {above:g}; legal: numbers above {above:g}")
    return value


def _option(
    read: Callable[[str, str], _Value],
    text: str,
    names: tuple[str, ...],
    unit: str,
    example: str,
    default: str | bool = True,
    *,
    metavar: str = "",
) -> Any:
    example = example or (quantities.example(unit) if unit else "")
    return typer.Option(
        *names,
        parser=_parser(read, unit),
        help=text,
        show_default=default,
        metavar=metavar
        or f"{_METAVARS_BY_UNIT.get(unit, unit.upper())}{example and f'|{example}'}",
    )


def _parser(read: Callable[[str, str], _Value], unit: str) -> Callable[[Any], Any]:
    """A parser of an option's text; a default, which is no text, stays as it is."""

    def parse(stated: Any) -> Any:
        if not isinstance(stated, str):
            return stated
        try:
            return read(stated, unit)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse
