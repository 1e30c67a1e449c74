"""A cache on disk of computed results: times of kernels, compiled programs, points of a search.

One small JSON file for each key, in a folder for each version of the sources that decide a time, so
that an estimate is never older than the model that it comes from. A file is written under another
name and moved into place: processes may share the folder. It begins with a digest of the rest: a
file that was cut off or changed is ignored. A process that writes first removes the files that were
not used for longest, of any version, where all take more than `MAX_BYTES`.

TRNSIM_CACHE names another folder than ~/.cache/trnsim; `off` keeps nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from trnsim import files
from trnsim.errors import BadInput

Value = TypeVar("Value")

VARIABLE: Final = "TRNSIM_CACHE"
_ROOT: Final = Path(__file__).parent
MAX_BYTES: Final = 1 << 28
"""Bytes of all files above which some are removed."""
_HASH_DIGITS: Final = 32
"""Hexadecimal digits of a hash."""
_HASH: Final = re.compile(rf"[0-9a-f]{{{_HASH_DIGITS}}}")
_HASHED_ROOMS: Final = (
    *(
        "arch",
        "dtypes",
        "memory",
        "isa",
        "program",
        "timing",
        "nki",
        "fabric",
        "graph",
        "lower",
        "compiler",
        "profile",
        "place",
        "behaviours",
    ),
    *("runs.py", "facts.py", "uncertainty.py"),
)
"""The packages and files on which a kernel's time depends."""


def read(key: Hashable, decode: Callable[[dict[str, Any]], Value]) -> Value | None:
    """The value stored for `key` by the same version of the sources, through `decode`.

    None where nothing is stored, or something of which `decode` makes no value.
    """
    file = _file(key)
    if file is None:
        return None
    try:
        if not file.is_file():  # the error of reading it would name files of similar names
            return None
        digest, _, content = files.read_text(file).partition("\n")
    except (BadInput, OSError):  # it cannot be read, or is no text
        return None
    if digest != _digest(content):
        return None
    try:
        value = decode(json.loads(content))
    except (TypeError, ValueError, LookupError, AttributeError):  # of other fields or types
        return None
    with suppress(OSError):  # a folder that cannot be written
        os.utime(file)
    return value


def write(key: Hashable, value: dict[str, Any]) -> None:
    """Store `value` for `key`; a folder that cannot be written is no error."""
    file = _file(key)
    if file is None:
        return
    content = json.dumps(value)
    _remove_unused(file.parents[1])
    with suppress(BadInput):
        files.write(file, f"{_digest(content)}\n{content}", parents=True)


def _file(key: Hashable) -> Path | None:
    folder_name = os.environ.get(VARIABLE, "")
    if folder_name == "off":
        return None
    try:
        folder = Path(folder_name) if folder_name else _default_folder()
    except RuntimeError:  # a user without a home, as in a container
        return None
    return folder / version() / f"{_digest(repr(key))}.json"


def _default_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trnsim"


@cache
def _remove_unused(folder: Path) -> None:
    """Remove the files unused for longest, so that the rest take half of `MAX_BYTES`; once."""
    entries: list[tuple[float, int, Path]] = []
    for file in _stored_files(folder):
        with suppress(OSError):  # another process removed it
            status = file.stat()
            entries.append((status.st_mtime, status.st_size, file))
    total_bytes = sum(nbytes for _, nbytes, _ in entries)
    if total_bytes <= MAX_BYTES:
        return
    for _, nbytes, file in sorted(entries):
        if total_bytes * 2 <= MAX_BYTES:
            return
        with suppress(OSError):
            file.unlink()
        total_bytes -= nbytes


def _stored_files(folder: Path) -> Iterator[Path]:
    """The files of all versions; other files in a folder that the user named are not touched."""
    with suppress(OSError):
        for version_folder in folder.iterdir():
            if _HASH.fullmatch(version_folder.name) and version_folder.is_dir():
                yield from (
                    file
                    for file in version_folder.iterdir()
                    if file.suffix == ".json" and _HASH.fullmatch(file.stem)
                )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


@cache
def version() -> str:
    """A digest of the sources that decide a time."""
    digest = hashlib.sha256()
    for room in _HASHED_ROOMS:
        path = _ROOT / room
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".json"):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:_HASH_DIGITS]
