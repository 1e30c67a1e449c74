"""Linux's unshare(2), mount(2) and inotify(7), which Python 3.11 does not have, through ctypes."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Final

# linux/sched.h, linux/mount.h, sys/mount.h, linux/inotify.h: the kernel's stable interface.
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_BIND: Final = 1 << 12
MS_REC: Final = 1 << 14
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2
_IN_CLOSE_WRITE: Final = 0x00000008


def unshare(flags: int) -> None:
    """Give this process namespaces of its own.

    Raises:
        OSError: the kernel refuses; EINVAL where a process with threads asks for CLONE_NEWUSER.
    """
    _call("unshare", flags)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount `source` on `target`.

    Raises:
        OSError: the kernel refuses; its filename is `target`.
    """
    texts = (os.fsencode(text) or None for text in (source, target, kind))
    _call("mount", *texts, ctypes.c_ulong(flags), os.fsencode(data) or None, path=target)


def unmount(target: str) -> None:
    """Detach the mount on `target`; programs that have it open keep it.

    Raises:
        OSError: nothing is mounted there.
    """
    _call("umount2", os.fsencode(target), MNT_DETACH, path=target)


def inotify() -> int:
    """A non-blocking descriptor, readable once a file in a watched folder has been written.

    Raises:
        OSError: the user has as many as the kernel allows.
    """
    return _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)


def watch(descriptor: int, folder: str) -> int:
    """Watch `folder` for written files: the number by which events on `descriptor` name it.

    Raises:
        OSError: the folder does not exist, or the user watches as many as the kernel allows.
    """
    return _call("inotify_add_watch", descriptor, os.fsencode(folder), _IN_CLOSE_WRITE, path=folder)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any, path: str | None = None) -> int:
    answer: int = getattr(_library(), name)(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return answer
