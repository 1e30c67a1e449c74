"""Printing for people: text that others wrote cannot command their terminal."""

from __future__ import annotations

import shutil

import typer

from trnsim.cli.options import leave_output
from trnsim.document.text import WIDTH
from trnsim.foreign_text import terminal_text


def echo(text: str = "", *, is_error: bool = False, ends_line: bool = True) -> None:
    """Print lines on stdout, or on stderr, with control characters spelled out.

    A reader that leaves, as `head` does, ends the printing and not the command: its files are
    written all the same.
    """
    try:
        typer.echo(terminal_text(text), err=is_error, nl=ends_line)
    except BrokenPipeError:
        if is_error:
            raise
        leave_output()


def width() -> int:
    """Columns of a text: those that COLUMNS says, else of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns
