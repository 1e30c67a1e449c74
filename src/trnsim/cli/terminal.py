"""Printing for people: text that others wrote cannot command their terminal."""

from __future__ import annotations

import typer

from trnsim.foreign_text import terminal_text


def echo(text: str = "", *, is_error: bool = False, ends_line: bool = True) -> None:
    """Print lines on stdout, or on stderr, with control characters spelled out."""
    typer.echo(terminal_text(text), err=is_error, nl=ends_line)
