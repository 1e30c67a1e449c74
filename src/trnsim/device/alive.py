"""Whether another process of this machine still lives: a lock that each holds until it ends.

The system releases a lock of a process when it ends, however it ends. A lock is no process number,
which the system may have given to another process since, or which names one that has ended and that
nobody has collected yet.
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
"""By process, the path of its lock and the open file; a fork starts with none of its own."""


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
    """Whether the process that holds the lock at `path` has ended; False where nothing says so."""
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
