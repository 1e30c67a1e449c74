"""Printing on a terminal: lines of its width, control characters of foreign text spelled out.

Colour is for terminals: there is none where the output is a file or a pipe, where NO_COLOR is set
(no-color.org), or where TERM is dumb.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

from trnsim.document.wrapping import WIDTH, Emphasis, wrapped
from trnsim.foreign_text import terminal_text

_ERROR_PREFIX: Final = "trnsim: error: "
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


def open_missing_streams() -> None:
    """Open /dev/null as each standard stream that this process was started without.

    Otherwise the stream is None, and the next file that is opened gets the stream's number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  for this process


def leave_output() -> None:
    """Redirect the standard output to /dev/null, so that no later write fails, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def echo(
    text: str = "", *, is_error: bool = False, ends_line: bool = True, is_safe: bool = False
) -> None:
    """Print lines on stdout, or on stderr, with control characters spelled out.

    Control characters of an `is_safe` text stay, such as the colours of a document.
    If the reader of a pipe leaves, as `head` does, nothing more is printed, but the command goes on
    and writes its files.
    """
    try:
        typer.echo(text if is_safe else terminal_text(text), err=is_error, nl=ends_line)
    except BrokenPipeError:
        if is_error:
            raise
        leave_output()


def width() -> int:
    """Columns of a line: the variable COLUMNS, else those of the terminal, else 100."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def is_coloured(*, is_error: bool = False) -> bool:
    """True if stdout, or stderr, is a terminal that shows colours and no variable forbids them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return _is_terminal(is_error=is_error)


def _is_terminal(*, is_error: bool) -> bool:
    stream = sys.stderr if is_error else sys.stdout
    return not stream.closed and stream.isatty()


def emphasis() -> Emphasis:
    """The codes of a heading on stdout: bold letters on a terminal that shows them."""
    return Emphasis(_BOLD, _PLAIN) if is_coloured() else Emphasis()


def complain(text: str) -> None:
    """Print an error on stderr; on a terminal, its lines are wrapped to the width."""
    message = terminal_text(f"{_ERROR_PREFIX}{text}")
    if _is_terminal(is_error=True):
        message = "\n".join(_wrapped_line(line) for line in message.splitlines())
    if is_coloured(is_error=True):
        message = (
            f"{_BOLD}{_RED}{_ERROR_PREFIX.rstrip()}{_PLAIN} {message.removeprefix(_ERROR_PREFIX)}"
        )
    with suppress(OSError):  # as of a full disk
        sys.stderr.write(f"{message}\n")


def _wrapped_line(line: str) -> str:
    """A line, wrapped to the terminal's width; further lines are indented by two columns more."""
    words = line.lstrip(" ")
    return "\n".join(wrapped(words, width(), len(line) - len(words), 2))
