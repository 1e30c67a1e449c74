"""A lock that each process holds until it ends, which tells others of the machine if it lives.

The system releases a process's lock when it ends, however it ends. A process number would not do:
the system may reuse it, or it may name a process that has ended and was not collected yet.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from importlib import import_module
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Final

_held: Final[dict[int, tuple[str, int]]] = {}
"""By process number, the path of its lock and the open file; a fork starts without."""


def lock() -> str:
    """The path of this process's lock; "" where the system has none, or no room for a file."""
    pid = os.getpid()
    if pid not in _held:
        _held.clear()
        with suppress(OSError, ImportError):
            fcntl: Any = import_module("fcntl")
            handle, path = tempfile.mkstemp(prefix=f"trnsim-alive-{pid}-")
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _held[pid] = path, handle
            # Unlike atexit's, these are called at the end of multiprocessing's children too.
            Finalize(None, _remove, (pid, path), exitpriority=0)
    return _held.get(pid, ("", -1))[0]


def _remove(pid: int, path: str) -> None:
    if os.getpid() == pid:
        Path(path).unlink(missing_ok=True)


def has_ended(path: str) -> bool:
    """True if the process that holds the lock at `path` has ended; False where that is unknown."""
    if not path or any(path == own for own, _ in _held.values()):
        return False
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl: Any = import_module("fcntl")
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ImportError):
        return False
    else:
        Path(path).unlink(missing_ok=True)
        return True
    finally:
        os.close(handle)
