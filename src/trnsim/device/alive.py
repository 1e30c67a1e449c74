"""A lock that each process holds until it ends, so that processes of its machine see if it runs.

The lock's name identifies the folder that it lies in: a process of another machine, which sees a
folder of its own at that path, draws no conclusion from it.

The system releases a process's lock when it ends, however it ends. A process number would not do:
the system may reuse it, or it may name a process that has ended and was not collected yet.
"""

from __future__ import annotations

import os
import platform
import tempfile
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Final

_PREFIX: Final = "trnsim-alive-"
_BOOT_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""A file that differs between machines, and not between containers of one: proc(5)."""
_locks: Final[dict[int, tuple[str, int]]] = {}
"""The path of the lock and its open file, by process number, so that a fork begins without."""


def held_lock() -> str:
    """The path of this process's lock; "" where the system has no locks, or no room for a file."""
    pid = os.getpid()
    if pid not in _locks:
        _locks.clear()
        with suppress(OSError, ImportError):
            fcntl: Any = import_module("fcntl")
            prefix = f"{_PREFIX}{pid}-{_folder_digest(Path(tempfile.gettempdir()))}-"
            handle, path = tempfile.mkstemp(prefix=prefix)
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _locks[pid] = path, handle
            # Unlike atexit's, these are called at the end of multiprocessing's children too.
            Finalize(None, _remove, (pid, path), exitpriority=0)
    return _locks.get(pid, ("", -1))[0]


def _folder_digest(folder: Path) -> str:
    """A digest of the machine and of the folder's inode."""
    machine = platform.node()
    with suppress(OSError):
        machine = _BOOT_FILE.read_text(encoding="ascii")
    status = folder.stat()
    return blake2b(f"{machine}{status.st_dev}:{status.st_ino}".encode(), digest_size=4).hexdigest()


def _is_on_this_machine(path: str) -> bool:
    """True if a lock is in the same folder as its process saw."""
    with suppress(OSError):
        return _folder_digest(Path(path).parent) in Path(path).name.split("-")
    return False


def _remove(pid: int, path: str) -> None:
    if os.getpid() == pid:
        Path(path).unlink(missing_ok=True)


def has_ended(path: str) -> bool:
    """True if the process that holds the lock at `path` has ended; False where that is unknown."""
    if (
        not path
        or any(path == held_path for held_path, _ in _locks.values())
        or not _is_on_this_machine(path)
    ):
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
