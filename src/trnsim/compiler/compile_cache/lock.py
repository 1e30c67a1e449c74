"""A lock of an entry of the cache: the system's file lock, which ends with its process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.05
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_PROBE_FLAGS: Final = (os.O_RDWR if sys.platform == "win32" else os.O_RDONLY) | getattr(
    os, "O_NOFOLLOW", 0
)


@contextmanager
def held_lock(path: Path, *, is_waiting: bool = True) -> Generator[bool]:
    """Hold the lock file at `path` in the block; yields False if another process has it.

    The file holds the number of the process, and is gone after the block.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor = _open_held(path, is_waiting=is_waiting)
    if descriptor is None:
        yield False
        return
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield True
    finally:
        # Removed while it is held; a process that waits for it sees that its file is gone.
        if sys.platform != "win32":
            with suppress(OSError):
                path.unlink()
        os.close(descriptor)
        if sys.platform == "win32":
            with suppress(OSError):
                path.unlink()


def is_locked(path: Path) -> bool:
    """True if a process holds the lock file at `path`, and not if a dead process left it.

    The file may be another user's, which is only read; so a shared lock is tried, for which NFS
    asks no right to write. On a file system without locks no file is locked.
    Source: flock(2), NFS details.
    """
    try:
        if not path.is_file():
            return False
        descriptor = os.open(path, _PROBE_FLAGS)
    except OSError:
        return False
    try:
        return not _take_lock(descriptor, is_shared=True)
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)


def _open_held(path: Path, *, is_waiting: bool) -> int | None:
    """The descriptor of the lock file, whose lock is held; None if another process has it."""
    while True:
        descriptor = os.open(path, _FLAGS, 0o666)
        try:
            is_held = _take_lock(descriptor)
        except OSError:  # a file system without locks
            os.close(descriptor)
            raise
        if is_held and _is_same_file(descriptor, path):
            return descriptor
        os.close(descriptor)
        if is_held:  # its holder has removed it
            continue
        if not is_waiting:
            return None
        time.sleep(_POLL_S)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """True if `path` still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _take_lock(descriptor: int, *, is_shared: bool = False) -> bool:
        """Take the lock of an open file; False if another process has it."""
        del is_shared  # Windows has exclusive locks alone
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    def _take_lock(descriptor: int, *, is_shared: bool = False) -> bool:
        """Take the lock of an open file; False if another process has it."""
        try:
            flock(descriptor, (LOCK_SH if is_shared else LOCK_EX) | LOCK_NB)
        except BlockingIOError:
            return False
        return True
