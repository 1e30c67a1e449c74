"""Files added to folders of the machine, only in this process's mount namespace.

A folder is covered by a tmpfs that has its entries, each bound from the folder below, beside those
that are added. All of it lives in memory, and goes with the last process of the namespace.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Final

from trnsim.instance.shell import linux_calls
from trnsim.instance.shell.namespace import SOURCE

_FOLDER_MODE: Final = 0o755
"""Mode of new folders, as in sysfs: only their owner adds to them."""


class Cover:
    """The folders that were covered or made, to which files can be added.

    Every method raises OSError where the kernel refuses.
    """

    def __init__(self) -> None:
        self._open_folders: set[str] = set()

    def writable_folder(self, top: str, inner_path: str = "", without: Iterable[str] = ()) -> str:
        """The folder `inner_path` of `top`, to which files can be added from now on.

        `top` must exist; folders below it are made. Entries `without` are not carried over.
        """
        parts = PurePosixPath(inner_path).parts
        for number in range(len(parts) + 1):
            folder = "/".join((top, *parts[:number]))
            if folder in self._open_folders:
                continue
            if number and not os.path.isdir(folder):
                os.mkdir(folder, _FOLDER_MODE)
            else:
                _cover(folder, frozenset(without) if number == len(parts) else frozenset())
            self._open_folders.add(folder)
        return "/".join((top, *parts))

    @staticmethod
    def write(folder: str, files: Mapping[str, str], mode: int = 0o644) -> None:
        """Write `files`, by their paths below `folder`, with the folders on their way."""
        folders_made = {""}
        for path, text in files.items():
            parents = [parent for parent in _parents(path) if parent not in folders_made]
            for parent in reversed(parents):
                os.mkdir(
                    f"{folder}/{parent}", _FOLDER_MODE
                )  # not pathlib, whose objects are dear for ten thousand
                folders_made.add(parent)
            _write(f"{folder}/{path}", text, mode)

    @staticmethod
    def put_over(path: str, text: str) -> None:
        """Put a file with `text` over the file at `path`, in a folder that cannot be covered."""
        # The bind keeps the file alive once its own folder is gone.
        linux_calls.mount(SOURCE, "/dev", "tmpfs")
        try:
            _write("/dev/file", text, 0o444)
            linux_calls.mount("/dev/file", path, flags=linux_calls.MS_BIND)
        finally:
            linux_calls.unmount("/dev")


def _parents(path: str) -> Iterable[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _write(path: str, text: str, mode: int) -> None:
    # Direct, unlike trnsim.files: nobody reads the folder yet, and no user's file is touched.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _cover(folder: str, without: frozenset[str]) -> None:
    """Mount a tmpfs on `folder` with the entries that it has, but those `without`."""
    folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        entries = {
            name: os.stat(name, dir_fd=folder_descriptor, follow_symlinks=False).st_mode
            for name in os.listdir(folder_descriptor)
            if name not in without
        }
        mode = stat.S_IMODE(os.fstat(folder_descriptor).st_mode) & 0o1777
        linux_calls.mount(SOURCE, folder, "tmpfs", data=f"mode={mode:o}")
        try:
            for name, kind in entries.items():
                with suppress(FileNotFoundError):  # it has gone since
                    _carry_over(folder_descriptor, name, kind, f"{folder}/{name}")
        except OSError:
            linux_calls.unmount(folder)
            raise
    finally:
        os.close(folder_descriptor)


def _carry_over(folder_descriptor: int, name: str, kind: int, path: str) -> None:
    """Make the entry `name` of the folder of a descriptor appear at `path`."""
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink(name, dir_fd=folder_descriptor), path)
        return
    if stat.S_ISDIR(kind):
        os.mkdir(path)
    else:
        _write(path, "", 0o644)
    # Recursive, as mounts below one that another user namespace made cannot be uncovered.
    linux_calls.mount(
        f"/proc/self/fd/{folder_descriptor}/{name}",
        path,
        flags=linux_calls.MS_BIND | linux_calls.MS_REC,
    )
