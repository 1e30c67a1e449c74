"""Files of counters: written here, and reset by programs that write to them.

A file is written in place, so that a program that holds it open reads the new value. Programs see
no difference from sysfs, except that poll(2) wakes nobody.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from trnsim.instance.shell import linux_calls

_EVENT_STRUCT: Final = struct.Struct("iIII")
"""inotify(7): watch, mask, cookie, length of the name that follows."""
_EVENTS_BYTES: Final = 1 << 16


class CounterFiles:
    """The files below `root`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._changed_ns: dict[str, int] = {}
        self._folders: dict[int, str] = {}
        self.descriptor = -1

    def watch(self, folders: Iterable[str]) -> None:
        """Notice programs that write to files of `folders`, within the limits of the kernel."""
        with suppress(OSError):
            if self.descriptor < 0:
                self.descriptor = linux_calls.inotify()
            for folder in folders:
                self._folders[linux_calls.watch(self.descriptor, f"{self._root}/{folder}")] = folder

    def show(self, path: str, value: int) -> None:
        """Make the file at `path` show `value`; one that does not exist is left out."""
        text = f"{value}\n".encode()
        with suppress(FileNotFoundError):
            descriptor = os.open(f"{self._root}/{path}", os.O_WRONLY)
            try:
                # Padded to the old length, so that a read between the two calls gives a number.
                os.pwrite(descriptor, text.ljust(os.fstat(descriptor).st_size, b"\n"), 0)
                os.ftruncate(descriptor, len(text))
                self._changed_ns[path] = os.fstat(descriptor).st_mtime_ns
            finally:
                os.close(descriptor)

    def written(self) -> Iterator[str]:
        """The paths of files that programs have written to since the last call."""
        if self.descriptor < 0:
            return
        events = b""
        with suppress(BlockingIOError):
            events = os.read(self.descriptor, _EVENTS_BYTES)
        while events:
            watch, _, _, length = _EVENT_STRUCT.unpack_from(events)
            name = events[_EVENT_STRUCT.size : _EVENT_STRUCT.size + length].rstrip(b"\0")
            events = events[_EVENT_STRUCT.size + length :]
            path = f"{self._folders.get(watch, '')}/{os.fsdecode(name)}"
            with suppress(OSError):
                changed_ns = os.stat(f"{self._root}/{path}").st_mtime_ns
                if changed_ns != self._changed_ns.get(path):
                    yield path
