"""Printing for people: lines as wide as their terminal, control characters of others spelled out.

Colour is for terminals: there is none where the output is a file or a pipe, where NO_COLOR is set
(no-color.org), or where TERM is dumb.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from typing import Final

import typer

from trnsim.document.wrapping import WIDTH, wrapped
from trnsim.foreign_text import terminal_text

_ERROR_PREFIX: Final = "trnsim: error: "
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


def leave_output() -> None:
    """Write nothing more to the standard output, also on leaving Python."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def echo(
    text: str = "", *, is_error: bool = False, ends_line: bool = True, is_safe: bool = False
) -> None:
    """Print lines on stdout, or on stderr, with control characters spelled out.

    Control characters of an `is_safe` text, such as a document's, stay: they are its colours.
    A reader that leaves, as `head` does, ends the printing and not the command: its files are
    written all the same.
    """
    try:
        typer.echo(text if is_safe else terminal_text(text), err=is_error, nl=ends_line)
    except BrokenPipeError:
        if is_error:
            raise
        leave_output()


def width() -> int:
    """Columns of a text: those that COLUMNS says, else of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def is_coloured(*, is_error: bool = False) -> bool:
    """True if stdout, or stderr, is a terminal that shows colours and no variable forbids them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return _is_terminal(is_error=is_error)


def _is_terminal(*, is_error: bool) -> bool:
    stream = sys.stderr if is_error else sys.stdout
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # None or closed
        return False


def emphasised(line: str) -> str:
    """A heading on stdout, in bold letters where they are wanted."""
    return f"{_BOLD}{line}{_PLAIN}" if is_coloured() else line


def complain(text: str) -> None:
    """Print an error on stderr: lines that fit a terminal, and whole ones where it is none."""
    message = terminal_text(f"{_ERROR_PREFIX}{text}")
    if _is_terminal(is_error=True):
        message = "\n".join(_fitted(line) for line in message.splitlines())
    if is_coloured(is_error=True):
        message = (
            f"{_BOLD}{_RED}{_ERROR_PREFIX.rstrip()}{_PLAIN} {message.removeprefix(_ERROR_PREFIX)}"
        )
    with suppress(AttributeError, OSError):  # None where it was closed
        sys.stderr.write(f"{message}\n")


def _fitted(line: str) -> str:
    """A line in lines of the terminal's width, behind its own indent."""
    words = line.lstrip(" ")
    return "\n".join(wrapped(words, width(), len(line) - len(words), 2))
