"""The process that lives as long as an emulated instance: it refreshes sysfs, and tidies up.

`python -m trnsim.instance.shell.keeper PID INSTANCE LNC`, started in the instance's mount
namespace. When the program PID has ended, however it ended, the processes that it left in the
namespace end too, and this one with them: then the kernel drops the mounts.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from trnsim.instance.shell.namespace import is_inside

__all__ = ["main"]

_PERIOD_S: Final = 1.0
"""Processes write their state at most once a second."""
_GRACE_S: Final = 0.5
_LOOK_S: Final = 0.01


def main(pid: int, name: str, lnc: int) -> None:
    """Keep the instance until the program `pid` has ended."""
    del name, lnc
    ended = _End(pid)
    while not ended.within(_PERIOD_S):
        pass
    end_others()


class _End:
    """The end of a process, awaited."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.poll = select.poll()
        self._descriptor = -1
        with suppress(OSError):  # it has ended, or Linux is older than 5.3
            self._descriptor = os.pidfd_open(pid)
            self.poll.register(self._descriptor, select.POLLIN)

    def within(self, seconds: float) -> bool:
        """Whether the process ended before so many seconds, or an earlier event, passed."""
        ready = self.poll.poll(int(seconds * 1000))
        if self._descriptor >= 0:
            return any(descriptor == self._descriptor for descriptor, _ in ready)
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def end_others() -> None:
    """End the other processes of this mount namespace; those that stay are killed."""
    if not is_inside():
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + _GRACE_S
        left = list(_others())
        for pid in left:
            with suppress(OSError):
                os.kill(pid, number)
        while left and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
            left = list(_others())


def _others() -> Iterator[int]:
    own = os.readlink("/proc/self/ns/mnt")
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):  # it has ended, or is another user's
                if os.readlink(f"/proc/{name}/ns/mnt") == own:
                    yield int(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
