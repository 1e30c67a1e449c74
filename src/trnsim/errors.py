"""The exceptions of trnsim: one class for each kind of fault, grouped by whose fault it is.

    EmulatorError
      your program:  IllegalInstruction   the hardware or the compiler rejects it
                     OutOfMemory          SBUF, PSUM or HBM capacity
                     UndefinedBehavior    the documentation says that the result is undefined
                     UninitializedRead    reads bytes that nothing wrote
                     DataRace             two accesses to the same bytes, unordered
                     Deadlock             cores that wait for each other for ever
                     BadInput             a file, a name or a value that a command cannot use
      our side:      NotModelled          legal, not emulated yet
                     Unspecified          AWS documents nothing, and we refuse to guess
                     InternalError        a bug here; please report it

A message has the given value, the legal ones with their core, the source of the rule, and the fix.
Raised from inside a kernel it ends with the line of the kernel that caused it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

_PACKAGE = str(Path(__file__).parent) + os.sep
_EXAMPLES = _PACKAGE + "examples" + os.sep
"""The folder of the examples in a wheel, which count as programs of the user."""
_COMMANDS = _PACKAGE + "cli" + os.sep
"""The folder of the commands, which are called by typer and a script, and not by a program."""
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120  as frames spell it
_WRAPPER_FILES = (f"{os.sep}typing_extensions.py", f"{os.sep}_trnsim_finder.py")
"""Files of functions that wrap a call of trnsim: of deprecated functions, and of imports."""
_INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages, which may lie inside that of the standard library."""

_CELLS: tuple[str, ...] = ("<ipython-input", "ipykernel_")
"""Marks in names of the files of IPython's cells. Source: IPython, CachingCompiler.get_code_name;
ipykernel.compiler, get_file_name."""


class SourceLine(NamedTuple):
    """A line of the user's own program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{shown_file(self.file)}:{self.line}"


def shown_file(file: str) -> str:
    """The name of a file in messages: its path, or `In[3]` for the cell of a notebook."""
    if not any(mark in file for mark in _CELLS):
        return file
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    label = shell.compile.format_code_name(file) if shell is not None else None
    return file if label is None else str(label[1])


def user_line(depth: int = 1) -> SourceLine | None:
    """The innermost line of the user's program (`is_program_file`) on the call stack.

    Where the stack has no such line within the innermost command of trnsim, it is the line for
    which the thread works (`working_for`), or None. Within `without_user_code` the stack is not
    searched.

    Args:
        depth: number of innermost frames, the caller's included, that are known to be trnsim's and
            are skipped.
    """
    if _requester.is_alone:
        return _requester.line
    frame: FrameType | None = sys._getframe(depth)  # noqa: SLF001  documented, to walk a stack
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        is_user = _is_user_file.get(file)
        if is_user is None:
            is_user = _is_user_file[file] = is_program_file(file)
            if file.startswith(_COMMANDS):
                _command_files.add(file)
        if is_user:
            place_line = _lines_by_place.get((id(code), frame.f_lasti))
            if place_line is not None and place_line[0] is code:
                return place_line[1]
            return _line_at(frame)
        if file in _command_files:
            break
        frame = frame.f_back
    return _requester.line


def _line_at(frame: FrameType) -> SourceLine:
    """The line at which a frame of the user is, which is kept by its place in the bytecode."""
    key = frame.f_code.co_filename, frame.f_lineno
    line = _lines.get(key)
    if line is None:
        line = _lines[key] = SourceLine(*key)
    if len(_lines_by_place) == _PLACES_KEPT:
        _lines_by_place.clear()
    _lines_by_place[id(frame.f_code), frame.f_lasti] = frame.f_code, line
    return line


@contextmanager
def working_for(line: SourceLine | None) -> Generator[None]:
    """Context in which this thread works for `line`, a line of a program in another thread."""
    earlier_line, _requester.line = _requester.line, line
    try:
        yield
    finally:
        _requester.line = earlier_line


@contextmanager
def without_user_code() -> Generator[None]:
    """Context in which this thread calls no function of the user: `user_line` is as at its entry.

    A graph's instructions are issued from some thirty frames of trnsim below the user's line.
    """
    earlier_state = _requester.line, _requester.is_alone
    _requester.line, _requester.is_alone = user_line(), True
    try:
        yield
    finally:
        _requester.line, _requester.is_alone = earlier_state


def exclude_folder(folder: str) -> None:
    """Count the files in a framework's folder as outside the user's program from now on."""
    if folder not in _frameworks:
        _frameworks.append(folder)
        _is_user_file.clear()


def is_of_user(code: CodeType) -> bool:
    """True for code in a file of the user's program (`is_program_file`); the answer is cached."""
    file = code.co_filename
    is_user = _is_user_file.get(file)
    if is_user is None:
        is_user = _is_user_file[file] = is_program_file(file)
    return is_user


def is_program_file(file: str) -> bool:
    """True for a user's file (`is_users_file`) outside the folders of frameworks."""
    return not file.startswith(tuple(_frameworks)) and is_users_file(file)


def is_users_file(file: str) -> bool:
    """True for a file of neither trnsim nor Python's standard library; installed packages count."""
    if file.endswith(_WRAPPER_FILES) or is_of_trnsim(file):
        return file.startswith(_EXAMPLES)
    if file.startswith(_STANDARD_LIBRARY):
        return file.removeprefix(_STANDARD_LIBRARY).startswith(_INSTALLED)
    return not file.startswith("<") or file.startswith(_CELLS)


def is_of_trnsim(file: str) -> bool:
    """True for a file of trnsim, its examples included."""
    return file.startswith(_PACKAGE)


class _Requester(threading.local):
    """For what line of a program a thread works.

    Attributes:
        line: the line of another thread's program, or the one at the entry of `without_user_code`.
        is_alone: True if the stack below that entry has no function of the user.
    """

    line: SourceLine | None = None
    is_alone: bool = False


_requester = _Requester()
_frameworks: list[str] = []
"""Folders of frameworks that call the user's program, and are called by it."""
_is_user_file: dict[str, bool] = {}
_command_files: set[str] = set()
_lines: dict[tuple[str, int], SourceLine] = {}
_PLACES_KEPT = 4096
_lines_by_place: dict[tuple[int, int], tuple[CodeType, SourceLine]] = {}
"""By the number of a code object and an offset in its bytecode: that object, which therefore keeps
its number, and the line there. Python decodes a line from a table, which takes longer."""


class _Watches(threading.local):
    """The lists of errors of each `watched_errors` that runs in this thread."""

    def __init__(self) -> None:
        self.values: list[list[EmulatorError]] = []


_watches = _Watches()


@contextmanager
def watched_errors() -> Generator[list[EmulatorError]]:
    """A context whose value is a list of all errors that were made inside."""
    errors: list[EmulatorError] = []
    _watches.values.append(errors)
    try:
        yield errors
    finally:
        _watches.values = [other for other in _watches.values if other is not errors]


def is_handled_by_program(error: EmulatorError) -> bool:
    """True for an error that was raised and that code of the user's has caught.

    Its traceback begins at the frame that caught it. Errors by which Python says that a name is
    absent do not count: programs look for names of other versions.
    """
    traceback = error.__traceback__
    if traceback is None or isinstance(error, AttributeError | ImportError):
        return False
    return is_program_file(traceback.tb_frame.f_code.co_filename)


class EmulatorError(Exception):
    """Base of every error that trnsim raises on purpose.

    Attributes:
        reason: the given value, and the legal ones.
        source: the document that states the rule, or "".
        fix: the advice, or "".
        line: the line of the user's program, where there is one.
    """

    def __init__(
        self, reason: str, *, source: str = "", fix: str = "", line: SourceLine | None = None
    ) -> None:
        self.reason = reason
        self.source = source
        self.fix = fix
        self.line = line if line is not None else user_line()
        super().__init__(reason)
        for errors in _watches.values:
            errors.append(self)

    def __str__(self) -> str:
        parts = [self.reason]
        if self.fix:
            parts.append(f"fix: {self.fix}")
        if self.source:
            parts.append(f"source: {self.source}")
        if self.line is not None:
            parts.append(f"at {self.line}")
        return "\n  ".join(parts)

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows; after an error here it shows its own traceback.

        Source: IPython, InteractiveShell.showtraceback.

        Raises:
            LookupError: IPython's traceback, with all frames, is the right one.
        """
        from trnsim.user_traceback import traceback_lines  # noqa: PLC0415  in IPython alone

        lines = traceback_lines(self)
        if lines is None:
            raise LookupError("IPython shows all frames")
        return lines

    def __repr__(self) -> str:
        # PyTorch's compiler shows only the repr of an error that it wraps: it must have the line.
        return f"{type(self).__name__}({str(self)!r})"


class IllegalInstruction(EmulatorError):
    """The hardware or the compiler rejects it."""


class OutOfMemory(EmulatorError):
    """SBUF, PSUM or HBM has no room for it."""


class UndefinedBehavior(EmulatorError):
    """The documentation says that the result is undefined on hardware."""


class UninitializedRead(EmulatorError):
    """A read of bytes that nothing wrote."""


class DataRace(EmulatorError):
    """Two accesses to the same bytes, one a write, that nothing orders."""


class Deadlock(EmulatorError):
    """Cores that wait for each other for ever."""


class BadInput(EmulatorError):
    """A file, a name or a value that a command cannot use."""


class NotModelled(EmulatorError):
    """Legal on hardware; not emulated yet."""


class Unspecified(EmulatorError):
    """AWS documents no behaviour, and we refuse to guess."""


class InternalError(EmulatorError):
    """A bug in trnsim; please report it."""
