"""A cache on disk of kernels' times: a step of a model that was timed before is read back.

One small file for each (operations, shapes, dtypes, chip), in a folder for each version of the
sources that decide a time, so that an estimate is never older than the model that it comes from. A
file is written under another name and moved into place: processes may share the folder. It begins
with a digest of the rest: a file that was cut off or changed is ignored.

TRNSIM_CACHE names another folder than ~/.cache/trnsim; `off` keeps nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from trnsim import files
from trnsim.errors import BadInput

VARIABLE: Final = "TRNSIM_CACHE"
_ROOT: Final = Path(__file__).parents[1]
_HASH_DIGITS: Final = 32
"""Hexadecimal digits of a hash."""
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
    ),
    *("runs.py", "facts.py"),
)
"""The packages and files on which a kernel's time depends."""


def read(key: Hashable) -> dict[str, Any] | None:
    """The value stored for `key` by the same version of the sources, or None."""
    file = _file(key)
    if file is None:
        return None
    try:
        digest, _, content = files.read_text(file).partition("\n")
    except BadInput:  # not there, no regular file, or no text
        return None
    if digest != _digest(content):
        return None
    stored: dict[str, Any] = json.loads(content)
    return stored


def write(key: Hashable, value: dict[str, Any]) -> None:
    """Store `value` for `key`; a folder that cannot be written is no error."""
    file = _file(key)
    if file is None:
        return
    content = json.dumps(value)
    with suppress(BadInput):
        files.write(file, f"{_digest(content)}\n{content}", parents=True)


def _file(key: Hashable) -> Path | None:
    named = os.environ.get(VARIABLE, "")
    if named == "off":
        return None
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trnsim"
    return (Path(named) if named else default) / version() / f"{_digest(repr(key))}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


@cache
def version() -> str:
    """A digest of the sources that decide a time."""
    digest = hashlib.sha256()
    for room in _HASHED_ROOMS:
        named = _ROOT / room
        for file in sorted(named.rglob("*")) if named.is_dir() else [named]:
            if file.suffix in (".py", ".json"):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:_HASH_DIGITS]
