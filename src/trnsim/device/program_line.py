"""The line of the user's program that caused a call, past the frames of trnsim and frameworks."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final

from trnsim.errors import SourceLine

_not_the_program: Final = [str(Path(__file__).parents[1]), "<"]
_answers: Final[dict[str, bool]] = {}
"""Whether a file is the program's, for `program_place`."""


def exclude_frames(framework: ModuleType) -> None:
    """Count frames in the files of a framework as outside the user's program from now on."""
    folder = str(Path(str(framework.__file__)).parent)
    if folder not in _not_the_program:
        _not_the_program.append(folder)
        _answers.clear()


def is_program(file: str) -> bool:
    """True if a file belongs neither to trnsim nor to a framework."""
    return not file.startswith(tuple(_not_the_program))


def program_line() -> SourceLine | None:
    """The innermost line on the stack that belongs neither to trnsim nor to a framework.

    None in a thread that runs only framework code.
    """
    skipped = tuple(_not_the_program)
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the documented way to walk a stack
    while frame is not None:
        if not frame.f_code.co_filename.startswith(skipped):
            return SourceLine(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def program_place() -> tuple[str, int] | None:
    """`program_line` as file and line; it is several times as fast, for every call on the device.

    None in a thread that runs only framework code.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  as above
    while frame is not None:
        file = frame.f_code.co_filename
        is_the_programs = _answers.get(file)
        if is_the_programs is None:
            is_the_programs = _answers[file] = is_program(file)
        if is_the_programs:
            return file, frame.f_lineno
        frame = frame.f_back
    return None
