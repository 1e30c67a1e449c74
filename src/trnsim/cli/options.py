"""Shared by all commands: the parser's settings, options that are numbers, the names of chips."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import typer

HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}

parser: Final = partial(
    typer.Typer, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
"""A Typer application that prints plain text and passes errors on."""

_Number = TypeVar("_Number", int, float)


def chip_names() -> str:
    """The chips that `--on` may name, in a sentence."""
    # Imported late, as `trnsim --help` needs the parser alone.
    from trnsim.arch import TARGETS  # noqa: PLC0415
    from trnsim.formatting import enumerated  # noqa: PLC0415

    return enumerated(list(TARGETS), "or")


def as_number(read: Callable[[str], _Number]) -> Callable[[Any], _Number]:
    """`read` as the parser of an option; a default, which is no string, passes unchanged."""

    def parse(given: Any) -> _Number:
        return read(given) if isinstance(given, str) else given

    return parse
