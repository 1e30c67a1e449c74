"""The removal of files and locks of a cache; nothing else in its folder is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from trnsim.compiler.compile_cache import CacheEntry, CacheSettings, entries
from trnsim.compiler.compile_cache.entry import DONE, FLAGS, GRAPH, LOCK, LOG, OLDER_GRAPH, PROGRAM
from trnsim.errors import BadInput

_FILES: Final = frozenset({DONE, FLAGS, GRAPH, LOCK, LOG, OLDER_GRAPH, PROGRAM})
_DRAFT: Final = ".trnsim-"
"""Prefix of files that a killed process left unfinished."""


def clean(settings: CacheSettings) -> tuple[int, list[Path]]:
    """Remove this compiler version's entries; return their number, and the folders in use.

    Raises:
        BadInput: the cache is off, or a file cannot be removed.
    """
    removed_count, locked_folders = 0, list[Path]()
    for entry in _entries(settings):
        if entry.is_locked:
            locked_folders.append(entry.folder)
            continue
        try:
            for file in _own_files(entry):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(
                f"{entry.folder} cannot be removed: {error.strerror}",
                fix="run it as the user who wrote the cache",
            ) from error
        with suppress(OSError):  # a file of somebody else's keeps the folder
            entry.folder.rmdir()
        removed_count += 1
    folder = settings.version_folder
    if folder is not None:
        with suppress(OSError):
            folder.rmdir()
    return removed_count, locked_folders


def clear_locks(settings: CacheSettings) -> tuple[int, list[Path]]:
    """Remove lock files that no process holds; return their number, and the held lock files.

    Raises:
        BadInput: the cache is off.
    """
    removed_count, held_locks = 0, list[Path]()
    for entry in _entries(settings):
        if entry.is_locked:
            held_locks.append(entry.lock_file)
        elif entry.lock_file.is_file():
            with suppress(OSError):
                entry.lock_file.unlink()
                removed_count += 1
    return removed_count, held_locks


def _entries(settings: CacheSettings) -> list[CacheEntry]:
    return entries(enabled_folder(settings.version_folder))


def enabled_folder(folder: Path | None) -> Path:
    """A folder of the cache, which is None if the cache is turned off.

    Raises:
        BadInput: the cache is turned off.
    """
    if folder is None:
        raise BadInput(
            "the cache is turned off by --no_cache in NEURON_CC_FLAGS", fix="leave --no_cache out"
        )
    return folder


def _own_files(entry: CacheEntry) -> Iterator[Path]:
    """The files of an entry that this program wrote, finished or not; a link is not followed."""
    with os.scandir(entry.folder) as items:
        for item in items:
            is_draft = item.name.startswith(_DRAFT) and item.name.endswith(".tmp")
            if item.name in _FILES or is_draft:
                yield Path(item.path)
