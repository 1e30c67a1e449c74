"""A command in a process of its own, within bounds of folder, time, memory and text."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

from trnsim.document.html import inline
from trnsim.errors import BadInput

__all__ = ["Answer", "BoundExceeded", "Bounds", "answer", "end"]

_MIB: Final = 2**20
_SHOWN_CHARS: Final = 8_000
"""Number of characters, from the end of a command's stderr, that an answer keeps."""
_MARKS_VARIABLE: Final = "TRNSIM_CALLS"
"""Environment variable with a mark of each call that a process runs in, outermost first."""
_TITLE: Final = re.compile(r"<h1>(.*?)</h1>")
_running_commands: Final[dict[subprocess.Popen[bytes], Bounds]] = {}


class BoundExceeded(BadInput):
    """Error of a command that took too long, or whose answer is too long."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The bounds of a call.

    Attributes:
        folder: the folder that holds all files; relative paths start there.
        time_s: seconds after which the command is ended.
        memory_bytes: maximum bytes of data of each process, where the system keeps such a limit
            (Linux).
        answer_bytes: maximum bytes of the answer's JSON.
    """

    folder: Path = field(default_factory=Path.cwd)
    time_s: float = 120.0
    memory_bytes: int = 8 * 2**30
    answer_bytes: int = _MIB

    def __post_init__(self) -> None:
        folder: Any = self.folder
        if not isinstance(folder, str | Path) or not Path(folder).is_dir():
            raise BadInput(f"{folder!s} is no folder", fix="name a folder that exists")
        object.__setattr__(self, "folder", Path(folder))
        for name in ("time_s", "memory_bytes", "answer_bytes"):
            number = getattr(self, name)
            if not isinstance(number, int | float) or not number > 0:
                raise BadInput(f"{name} is {number!r}; legal: a number above 0")
            if name != "time_s" and not float(number).is_integer():
                raise BadInput(f"{name} is {number!r}; legal: a whole number of bytes")

    def path(self, file: str | Path) -> str:
        """A path of a file below the folder, whether it exists or not; links are followed.

        Raises:
            BadInput: it leads out of the folder, or is no path.
        """
        root = self.folder.resolve()
        if not isinstance(file, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
            raise BadInput(f"{file!r}; legal: a path of a file", fix=f"name a file below {root}")
        if "\0" in str(file):
            raise BadInput(f"{file!r} has a NUL character, which no path has")
        try:
            full_path = (root / file).resolve()
        except (OSError, RuntimeError) as error:  # a loop of links
            raise BadInput(f"{file}: {error}", fix=f"name a file below {root}") from error
        if not full_path.is_relative_to(root):
            raise BadInput(
                f"{file} leads to {full_path}, outside of {root}", fix=f"name a file below {root}"
            )
        relative = str(full_path.relative_to(root))
        # What begins with a dash, also ./-a or a link to it, would be read as an option.
        return str(full_path) if relative.startswith("-") else relative


@dataclass(frozen=True)
class Answer:
    """The answer of a command.

    Attributes:
        values: the JSON that the command prints with `--json`.
        status: the command's exit status: 0, or 1 if a check or the user's program failed.
        messages: the end of the stderr of the command and the user's program.
        command: the command, without trnsim.
        page: the answer of a plan as an HTML page; "" for other commands.
    """

    values: Any
    status: int
    messages: str
    command: str = ""
    page: str = field(default="", repr=False)

    def __str__(self) -> str:
        title = _TITLE.search(self.page)
        return unescape(title[1]) if title else f"trnsim {self.command}, status {self.status}"

    def _repr_html_(self) -> str | None:
        """The page, embedded in a notebook; None if there is no page."""
        return inline(str(self), self.page) if self.page else None


def answer(words: Sequence[str], bounds: Bounds, *, has_page: bool = False) -> Answer:
    """The answer of `trnsim WORDS`, which have --json; with `has_page` also its page.

    Raises:
        BoundExceeded: the command took too long, or its answer is too long.
        BadInput: the command refuses its words, or gives no answer.
    """
    for word in words:
        if "\0" in word:
            raise BadInput(f"{word!r} has a NUL character, which no argument of a command has")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "answer.html"
        page_words = ["--output", str(page)] if has_page else []
        command_answer = _command_answer([*words, *page_words], bounds)
        content = page.read_text(encoding="utf-8") if page.exists() else ""
    return replace(command_answer, command=shlex.join(words), page=content)


def _command_answer(words: Sequence[str], bounds: Bounds) -> Answer:
    """The answer of a command, without its page.

    Raises:
        BoundExceeded: as `answer`.
        BadInput: as `answer`.
    """
    command = [sys.executable, "-m", "trnsim.api.child", str(int(bounds.memory_bytes)), *words]
    with tempfile.TemporaryFile() as stdout_file, tempfile.TemporaryFile() as stderr_file:
        status = _exit_status(command, bounds, stdout_file, stderr_file)
        messages = _tail(stderr_file)
        size = stdout_file.seek(0, os.SEEK_END)
        stdout_file.seek(0)
        if status is None:
            raise BoundExceeded(
                f"trnsim {words[0]} took longer than {bounds.time_s:g} s and was ended",
                fix="make the work smaller, or raise time_s",
            )
        if size > bounds.answer_bytes:
            raise BoundExceeded(
                f"the answer of trnsim {words[0]} has {size:,} bytes; at most "
                f"{bounds.answer_bytes:,}",
                fix="ask for less, or raise answer_bytes",
            )
        try:
            return Answer(json.loads(stdout_file.read()), status, messages)
        except ValueError as error:
            reason = messages or f"trnsim {words[0]} ended with status {status} and no answer"
            if "MemoryError" in messages:
                reason += f"\nmemory_bytes is {bounds.memory_bytes:,}"
            raise BadInput(reason.removeprefix("trnsim: error: ")) from error


def _exit_status(
    command: Sequence[str], bounds: Bounds, stdout_file: IO[bytes], stderr_file: IO[bytes]
) -> int | None:
    """Run a command, and return its exit status; None if its time was over."""
    mark = uuid4().hex
    marks = f"{os.environ.get(_MARKS_VARIABLE, '')} {mark}"
    process = subprocess.Popen(  # noqa: S603  this Python, with checked words
        command,
        cwd=bounds.folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout_file,
        stderr=stderr_file,
        start_new_session=os.name == "posix",
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", _MARKS_VARIABLE: marks},
    )
    _running_commands[process] = bounds
    try:
        return process.wait(bounds.time_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # Processes that the command left behind end with it, also if the caller is interrupted.
        _kill(process)
        process.wait()
        _kill_marked(mark.encode())
        del _running_commands[process]


def end(bounds: Bounds | None = None) -> None:
    """End the commands that run within `bounds` (None: all), with the processes they started."""
    for process, process_bounds in tuple(_running_commands.items()):
        if bounds is None or process_bounds is bounds:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _kill_marked(mark: bytes) -> None:
    """End processes that left the group of a call; on Linux, by the mark in their environment."""
    while folders := [folder for folder in Path("/proc").glob("[0-9]*") if _has_mark(folder, mark)]:
        for folder in folders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(folder.name), signal.SIGKILL)


def _has_mark(folder: Path, mark: bytes) -> bool:
    """True if the process with this folder in /proc has `mark` in its environment."""
    try:
        return mark in (folder / "environ").read_bytes()
    except OSError:  # it has ended, or is another user's
        return False


def _tail(stderr_file: IO[bytes]) -> str:
    """The last characters of the file of stderr."""
    size = stderr_file.seek(0, os.SEEK_END)
    stderr_file.seek(max(size - 4 * _SHOWN_CHARS, 0))
    return stderr_file.read().decode("utf-8", "replace")[-_SHOWN_CHARS:].strip()
