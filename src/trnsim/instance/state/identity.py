"""The identity of a process: its number and start time, which no later process shares.

Start times are the system's, as text: ticks since boot on Linux, the words of `ps` on other Unixes,
100 ns since 1601 on Windows. They are compared only for equality, so a clock that is set back has
no effect.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

_ENDED_STATES: Final = ("Z", "X", "x")
"""States of a process that has ended and that its parent has not collected yet; proc(5)."""
_QUERY_RIGHT: Final = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION
_START_FIELD: Final = 19
"""Field of /proc/PID/stat, counted from the state; proc(5): starttime is field 22, the state 3."""


def start_time(pid: int) -> str:
    """Start time of the process numbered `pid`; "" if it does not exist or has ended."""
    if pid <= 0:
        return ""
    if sys.platform == "linux":
        return _linux(pid)
    return _windows(pid) if sys.platform == "win32" else _of_ps(pid)


@cache
def _own_start(pid: int) -> str:
    return start_time(pid)


def own_identity() -> tuple[int, str]:
    """This process's number and start time; a fork has its own."""
    pid = os.getpid()
    return pid, _own_start(pid) or "0"


def is_alive(pid: int, start: str) -> bool:
    """True if a process with this number and start time runs."""
    return bool(start) and start_time(pid) == start


def _linux(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command stands in parentheses and may have any characters, those of a field included.
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _START_FIELD or fields[0] in _ENDED_STATES:
        return ""
    return fields[_START_FIELD]


def _of_ps(pid: int) -> str:  # pragma: no cover  of systems without /proc
    ps = shutil.which("ps")
    if ps is None:
        return ""
    listing = subprocess.run(  # noqa: S603  the system's own ps, with a number
        [ps, "-o", "lstart=,state=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    words = listing.stdout.split()
    return "" if not words or words[-1].startswith("Z") else re.sub(r"\W", "", "".join(words[:-1]))


def _windows(pid: int) -> str:  # pragma: no cover  of Windows
    kernel: Any = vars(ctypes)["windll"].kernel32
    handle = kernel.OpenProcess(_QUERY_RIGHT, False, pid)
    if not handle:
        return ""
    times = [ctypes.c_ulonglong() for _ in range(4)]  # creation, exit, kernel, user
    try:
        is_available = kernel.GetProcessTimes(handle, *(ctypes.byref(time) for time in times))
    finally:
        kernel.CloseHandle(handle)
    return str(times[0].value) if is_available and not times[1].value else ""
