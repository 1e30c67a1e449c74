"""The entries of a cache: folders that are named like an entry; symbolic links are left out."""

from __future__ import annotations

import os
from pathlib import Path

from trnsim.compiler.compile_cache.entry import NAME, CacheEntry


def entries(version_folder: Path) -> list[CacheEntry]:
    """The entries in the folder of a compiler's version, by name; none if it cannot be read."""
    try:
        with os.scandir(version_folder) as items:
            names = sorted(
                item.name
                for item in items
                if item.is_dir(follow_symlinks=False) and NAME.fullmatch(item.name)
            )
    except OSError:
        return []
    return [CacheEntry(version_folder / name) for name in names]
