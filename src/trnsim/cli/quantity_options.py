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
    minimum: float | None = None,
    exclusive_minimum: float | None = None,
) -> Any:
    """An option that takes a number.

    Args:
        text: the option's help.
        names: the option's names; without, the name of its parameter.
        unit: the unit of a number that states none.
        example: a value that the help shows.
        default: the default as the help shows it.
        minimum: inclusive lower limit.
        exclusive_minimum: exclusive lower limit.
    """
    has_no_limit = minimum is None and exclusive_minimum is None
    conversion = (
        quantities.number if has_no_limit else partial(_number_from, minimum, exclusive_minimum)
    )
    return _option(conversion, text, names, unit, example, default)


def whole(
    text: str,
    *names: str,
    unit: str = "",
    example: str = "",
    default: str | bool = True,
    minimum: int | None = None,
    maximum: int | None = None,
    metavar: str = "",
) -> Any:
    """An option that takes a whole number from `minimum` to `maximum`; other arguments: `number`.

    `metavar` is for options of AWS's commands, whose help has other words.
    """
    conversion = quantities.whole if minimum is None else partial(_whole_from, minimum, maximum)
    return _option(conversion, text, names, unit, example, default, metavar=metavar)


def wholes(text: str, *names: str, unit: str = "", example: str, is_list: bool = False) -> Any:
    """An option that takes whole numbers with commas between; one number is a list if `is_list`."""
    return _option(partial(quantities.wholes, is_list=is_list), text, names, unit, example)


def _whole_from(minimum: int, maximum: int | None, text: str, unit: str) -> int:
    value = quantities.whole(text, unit)
    legal = f"from {minimum} on" if maximum is None else f"from {minimum} to {maximum}"
    if value < minimum:
        raise ValueError(f"{text!r} is below {minimum}; legal: whole numbers {legal}")
    if maximum is not None and value > maximum:
        raise ValueError(f"{text!r} is above {maximum}; legal: whole numbers {legal}")
    return value


def _number_from(
    minimum: float | None, exclusive_minimum: float | None, text: str, unit: str
) -> float:
    value = quantities.number(text, unit)
    if minimum is not None and value < minimum:
        raise ValueError(f"{text!r} is below {minimum:g}; legal: numbers from {minimum:g} on")
    if exclusive_minimum is not None and value <= exclusive_minimum:
        raise ValueError(
            f"{text!r} is not above {exclusive_minimum:g}; "
            f"legal: numbers above {exclusive_minimum:g}"
        )
    return value


def _option(
    conversion: Callable[[str, str], _Value],
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
        parser=_parser(conversion, unit),
        help=text,
        show_default=default,
        metavar=metavar
        or f"{_METAVARS_BY_UNIT.get(unit, unit.upper())}{example and f'|{example}'}",
    )


def _parser(conversion: Callable[[str, str], _Value], unit: str) -> Callable[[Any], Any]:
    """A parser of an option's text; a default, which is no text, stays as it is."""

    def parse(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return conversion(value, unit)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse
