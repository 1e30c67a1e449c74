"""A mount namespace of this process's own, and for any user but root a user namespace with it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Final

from trnsim.instance.shell import linux_calls

SOURCE: Final = "trnsim"
"""Source of an emulated instance's file systems in /proc/self/mountinfo."""
_TRIED_ON: Final = "/dev"


class NamespaceRefusal(Exception):
    """There is no private mount namespace here; its text is the reason."""


def is_inside() -> bool:
    """True if this process is in an emulated instance already."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return f" - tmpfs {SOURCE} " in mounts


def enter() -> None:
    """Move this process, and all that it starts from now on, into a mount namespace of its own.

    Must come before the first thread: the kernel gives a process with threads no user namespace.
    A child tries first, since there is no way back from a user namespace in which mounts fail.

    Raises:
        NamespaceRefusal: no Linux, or its kernel refuses.
    """
    if sys.platform != "linux":
        raise NamespaceRefusal(f"{sys.platform} has none")
    number = _in_child()
    if number:
        # unshare(2) says of a limit on namespaces that no space is left on a device.
        is_limit = number == errno.ENOSPC
        raise NamespaceRefusal(
            "no more namespaces are allowed" if is_limit else os.strerror(number)
        )
    _unshare()


def _in_child() -> int:
    """The number of the error that mounts in a namespace give here, or 0."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    number = 1
    try:
        _unshare()
        linux_calls.mount(SOURCE, _TRIED_ON, "tmpfs")
        number = 0
    except OSError as error:
        number = error.errno or 1
    finally:
        os._exit(number)


def _unshare() -> None:
    """Leave the mounts of the machine.

    Raises:
        OSError: the kernel refuses.
    """
    user, group = os.getuid(), os.getgid()
    try:
        linux_calls.unshare(linux_calls.CLONE_NEWNS)
    except PermissionError:
        linux_calls.unshare(linux_calls.CLONE_NEWUSER | linux_calls.CLONE_NEWNS)
        _map(user, group)
    # Otherwise mounts would appear outside where the machine's are shared, as systemd has them.
    linux_calls.mount("none", "/", flags=linux_calls.MS_REC | linux_calls.MS_PRIVATE)


def _map(user: int, group: int) -> None:
    """Keep this user's own numbers in the new user namespace: user_namespaces(7)."""
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
