"""The current site: the file whose corrections the estimates of this process have.

It is that of TRNSIM_SITE, else `site.json` in the working directory or beside the program. Without
TRNSIM_SITE a file counts only if `trnsim calibrate` wrote it; an empty TRNSIM_SITE stands
for none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from trnsim.errors import BadInput
from trnsim.site.site_file import SiteCorrections, read

NAME: Final = "site.json"
ENVIRONMENT: Final = "TRNSIM_SITE"
_MARK: Final = b'"calibrate/'
_HEAD_BYTES: Final = 200
"""Bytes at the start of a file in which its schema stands."""
_used: set[str] = set()
_recorded_families: list[set[tuple[str, str]]] = []


def current() -> SiteCorrections | None:
    """The site of estimates in this process, or None.

    Raises:
        BadInput: its file cannot be read, is of another version, or was changed by hand.
    """
    named = os.environ.get(ENVIRONMENT)
    if named is not None:
        return _read_once(Path(named).absolute()) if named else None
    site_path = next((path for path in _site_paths() if _is_ours(path)), None)
    return None if site_path is None else _read_once(site_path)


def cache_key() -> str:
    """The corrections of the current site as a text, for caches of estimates; "" without a site."""
    site = current()
    return "" if site is None else repr(site)


def _site_paths() -> Iterator[Path]:
    """The file's places: the working directory, and that of the program."""
    yield Path(NAME)
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if program:
        yield Path(program).parent / NAME


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return _MARK in stream.read(_HEAD_BYTES)
    except OSError:
        return False


def _read_once(path: Path) -> SiteCorrections:
    try:
        state = path.stat()
    except OSError as error:
        raise BadInput(
            f"{ENVIRONMENT} is {path}, which cannot be read: {error.strerror}",
            fix=f"unset {ENVIRONMENT}, or write the file with trnsim calibrate",
        ) from error
    return _read(path, os.fspath(path.absolute()), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _absolute: str, _changed_ns: int, _bytes: int) -> SiteCorrections:
    """The site at a path, whose state is part of the key."""
    return read(path)


@contextmanager
def without() -> Generator[None]:
    """Estimates without a site, in child processes too."""
    before = os.environ.get(ENVIRONMENT)
    os.environ[ENVIRONMENT] = ""
    try:
        yield
    finally:
        if before is None:
            del os.environ[ENVIRONMENT]
        else:
            os.environ[ENVIRONMENT] = before


@contextmanager
def recorded_families() -> Generator[set[tuple[str, str]]]:
    """A set of pairs (chip, family): those whose times are estimated in the block."""
    families: set[tuple[str, str]] = set()
    _recorded_families.append(families)
    try:
        yield families
    finally:
        # By identity: a set within another may hold the same families.
        _recorded_families[:] = [other for other in _recorded_families if other is not families]


def note_family(chip: str, family: str) -> None:
    """Note that times of a family on a chip are estimated."""
    for families in _recorded_families:
        families.add((chip, family))


def note_used(words: str) -> None:
    """Note that a correction of this provenance entered an estimate."""
    _used.add(words)


def take_used() -> list[str]:
    """The provenances of all corrections that entered estimates since the last call."""
    words = sorted(_used)
    _used.clear()
    return words
