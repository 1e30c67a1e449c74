"""The process that lives as long as an emulated instance: it refreshes sysfs, and cleans up.

`python -m trnsim.instance.shell.keeper PID INSTANCE LNC`, started in the instance's mount
namespace. When the program PID has ended, however it ended, the processes that it left in the
namespace end too, and this one with them: then the kernel drops the mounts.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from trnsim.errors import BadInput
from trnsim.instance.model import InstanceModel, instance_model
from trnsim.instance.shell.counter_files import CounterFiles
from trnsim.instance.shell.counters import Counters
from trnsim.instance.shell.namespace import is_inside
from trnsim.instance.shell.sysfs import ROOT, counter_folders, device_files
from trnsim.instance.state import folder as state
from trnsim.instance.state import hardware
from trnsim.instance.state.reader import read_all

_PERIOD_S: Final = 1.0
"""Time between two updates of sysfs: processes write their state at most once a second."""
_CLEARABLE_FILES: Final = ("total", "present", "peak")
"""Files that a program sets to 0 by writing anything to them."""
_ONE_FILE_FOLDERS: Final = ("/other_info", "/hardware")
"""Folders whose counters are one file each."""
_GRACE_S: Final = 0.5
"""Time for which a process may go on after a signal to end."""
_POLL_S: Final = 0.01
"""Time between two looks at which processes are left."""


def main(pid: int, name: str, lnc: int) -> None:
    """Keep the instance until the program `pid` has ended."""
    end = _End(pid)
    keeper = Keeper(instance_model(name, lnc))
    if keeper.files.descriptor >= 0:
        end.poll.register(keeper.files.descriptor, select.POLLIN)
    next_s = time.monotonic()
    while not end.within(max(next_s - time.monotonic(), 0.0)):
        keeper.clear()
        if time.monotonic() >= next_s:
            keeper.refresh()
            next_s = time.monotonic() + _PERIOD_S
    end_others()


class Keeper:
    """The writer of an instance's counters in sysfs, and of those that programs reset."""

    def __init__(self, model: InstanceModel, root: str = ROOT) -> None:
        self._counters = Counters(model)
        self.files = CounterFiles(root)
        self.files.watch(f"neuron{device.index}" for device in model.devices)  # `reset`
        for device in model.devices:
            self.files.watch(counter_folders(device_files(model, device)))

    def refresh(self) -> None:
        """Write the counts and levels of the processes of this user."""
        with suppress(BadInput, OSError):  # an unusable folder: each process reports it itself
            if not state.folder().is_dir():  # nothing has run yet
                return
            folder = state.state_folder()
            for counter in self._counters.update(
                read_all(folder), hardware.injected_faults(folder)
            ):
                self._write(counter)

    def clear(self) -> None:
        """Set files to 0 that programs have written to, and count requests to reset."""
        for path in self.files.written():
            counter, _, file = path.rpartition("/")
            device = counter.removeprefix("neuron")
            if file == "reset" and device.isdecimal():
                self.files.show(path, 0)
                for changed_counter in self._counters.reset(int(device)):
                    self._write(changed_counter)
            elif file in _CLEARABLE_FILES:
                self._counters.clear(counter, file)
                self.files.show(path, 0)

    def _write(self, counter: str) -> None:
        """Write the values of a counter into its files."""
        values = self._counters.values(counter)
        if counter.rpartition("/")[0].endswith(_ONE_FILE_FOLDERS):
            self.files.show(counter, values["total"])
        else:
            for file, value in values.items():
                self.files.show(f"{counter}/{file}", value)


class _End:
    """A wait for the end of a process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.poll = select.poll()
        self._descriptor = -1
        with suppress(OSError):  # it has ended, or Linux is older than 5.3
            self._descriptor = os.pidfd_open(pid)
            self.poll.register(self._descriptor, select.POLLIN)

    def within(self, seconds: float) -> bool:
        """True if the process has ended; waits up to `seconds`, or until any other event."""
        events = self.poll.poll(math.ceil(seconds * 1000))
        if self._descriptor >= 0:
            return any(descriptor == self._descriptor for descriptor, _ in events)
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def end_others() -> None:
    """End the other processes of this mount namespace; the remaining ones are killed."""
    if not is_inside():
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + _GRACE_S
        members = list(_other_members())
        for pid in members:
            with suppress(OSError):
                os.kill(pid, number)
        while members and time.monotonic() < until_s:
            time.sleep(_POLL_S)
            members = list(_other_members())


def _other_members() -> Iterator[int]:
    own_namespace = os.readlink("/proc/self/ns/mnt")
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):  # it has ended, or is another user's
                if os.readlink(f"/proc/{name}/ns/mnt") == own_namespace:
                    yield int(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
