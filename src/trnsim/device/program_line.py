"""The line of the user's program that caused a call, past the frames of trnsim and frameworks."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Final

from trnsim.errors import SourceLine, exclude_folder, is_program_file, user_line

_program_file_cache: Final[dict[str, bool]] = {}
"""The results of `is_program_file` by file."""


def exclude_frames(framework: ModuleType) -> None:
    """Count frames in the files of a framework as outside the user's program from now on."""
    exclude_folder(str(Path(str(framework.__file__)).parent))
    _program_file_cache.clear()


def is_program(file: str) -> bool:
    """True if a file belongs neither to trnsim, to Python's own library nor to a framework."""
    return is_program_file(file)


def program_line() -> SourceLine | None:
    """The innermost line of the user's program on the stack; None if there is none.

    In a thread that runs only framework code, it is the line that gave the thread its work.
    """
    return user_line(2)


def program_place() -> tuple[str, int] | None:
    """The file and number of `program_line`, in less time; None in a thread of a framework."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the documented way to walk a stack
    while frame is not None:
        file = frame.f_code.co_filename
        is_of_program = _program_file_cache.get(file)
        if is_of_program is None:
            is_of_program = _program_file_cache[file] = is_program_file(file)
        if is_of_program:
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def program_frame(depth: int) -> tuple[list[CodeType], int | None]:
    """The code of the frames up to the innermost one of the program, and the instruction there.

    `depth` is the number of innermost frames to leave out. In a thread that runs only framework
    code, the result is the code of all frames, and None.
    """
    frame: FrameType | None = sys._getframe(depth)  # noqa: SLF001  as above
    codes: list[CodeType] = []
    while frame is not None:
        codes.append(frame.f_code)
        if is_program_file(frame.f_code.co_filename):
            return codes, frame.f_lasti
        frame = frame.f_back
    return codes, None
