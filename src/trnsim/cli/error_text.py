"""Errors as text: trnsim's in a few lines, the user's program's with its traceback."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException, format_exception
from typing import Final

from trnsim.cli.terminal import complain
from trnsim.errors import EmulatorError, SourceLine, is_of_trnsim
from trnsim.foreign_text import terminal_text
from trnsim.user_traceback import keeps_all_frames

INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C ended, as shells count it."""
_INSTALLS_BY_MODULE: Final = {"torch": "pip install 'trnsim[torch]'"}
_PARSER_PACKAGES: Final = frozenset({"typer", "click"})
"""Recent releases of typer carry click inside them; older ones need it as a package."""


def message(error: EmulatorError) -> str:
    """The error as text, with its line if that is of the user's program."""
    parts = [error.reason]
    if error.fix:
        parts.append(f"fix: {error.fix}")
    if error.source:
        parts.append(f"source: {error.source}")
    if error.line is not None and _is_users_line(error.line):
        parts.append(f"at {error.line}")
    return "\n  ".join(parts)


def show(error: BaseException, script: Path, prefix: str = "") -> int:
    """Print the error that ended `script` to stderr; returns the exit status.

    An error of trnsim is printed as `prefix` and its text, below all of its frames if
    TRNSIM_FULL_TRACEBACK is 1; another error as its traceback.
    """
    if isinstance(error, EmulatorError):
        if keeps_all_frames():
            sys.stderr.write(terminal_text("".join(format_exception(error))))
        complain(f"{prefix}{message(error)}")
        return 2
    sys.stderr.write(terminal_text(users_traceback(error, script)))
    if isinstance(error, ModuleNotFoundError) and error.name in _INSTALLS_BY_MODULE:
        sys.stderr.write(f"trnsim: {error.name} is an extra: {_INSTALLS_BY_MODULE[error.name]}\n")
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def users_traceback(error: BaseException, script: Path) -> str:
    """The traceback as Python prints it, from the script on, without trnsim's frames.

    Where trnsim itself raised the error, its frames stay: a bug report needs them.
    """
    summary = TracebackException.from_exception(error)
    summaries: list[TracebackException | None] = [summary]
    while summaries:
        part = summaries.pop()
        if part is not None:
            part.stack = StackSummary.from_list(_users_frames(part.stack, script))
            summaries += [part.__cause__, part.__context__]
    return "".join(summary.format())


def _users_frames(frames: list[FrameSummary], script: Path) -> list[FrameSummary]:
    """The frames from the script on; of trnsim's frames, only those after the last user's frame."""
    starts = [i for i, frame in enumerate(frames) if Path(frame.filename) == script]
    starts += [i for i, frame in enumerate(frames) if not _is_machinery(frame.filename)]
    from_script = frames[starts[0] :] if starts else frames
    users_frames = [i for i, frame in enumerate(from_script) if not is_of_trnsim(frame.filename)]
    last_users_frame = max(users_frames, default=-1)
    return [
        frame for i, frame in enumerate(from_script) if i > last_users_frame or i in users_frames
    ]


def _is_users_line(line: SourceLine) -> bool:
    """True if a line belongs to the user's program and not to the machinery that runs it."""
    is_argument = line.file in sys.argv[1:]
    return not _is_machinery(line.file) and (is_argument or line.file.endswith(".py"))


def _is_machinery(file: str) -> bool:
    """True if a file only runs other programs: trnsim, the parser, the launcher, Python."""
    path = Path(file)
    return (
        is_of_trnsim(file)
        or file.startswith("<")
        or path == Path(sys.argv[0])
        or not _PARSER_PACKAGES.isdisjoint(parent.name for parent in path.parents)
    )
