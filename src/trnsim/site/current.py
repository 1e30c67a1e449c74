"""The current site: the corrections that the estimates of this process have.

They are those that another process hands over, else of the file that TRNSIM_SITE names, else of
`site.json` in the working directory or beside the program. Without TRNSIM_SITE a file counts only
if `trnsim calibrate` wrote it; with an empty TRNSIM_SITE there is no site.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from trnsim.errors import BadInput
from trnsim.site.site_file import SiteCorrections, read

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Item = TypeVar("Item")

NAME: Final = "site.json"
ENVIRONMENT: Final = "TRNSIM_SITE"
_MARK: Final = b'"calibrate/'
_HEAD_BYTES: Final = 200
"""Bytes at the start of a file in which its schema stands."""
_used_words: set[str] = set()
_recorded_words: list[set[str]] = []
_recorded_families: list[set[tuple[str, str]]] = []
_handed_over: list[SiteCorrections | None] = []
"""Sites of the blocks of `using` and `without` that are open, the innermost last."""


def current() -> SiteCorrections | None:
    """The site of estimates in this process, or None.

    Raises:
        BadInput: its file cannot be read, is of another version, or was changed by hand.
    """
    if _handed_over:
        return _handed_over[-1]
    site_name = os.environ.get(ENVIRONMENT)
    if site_name is not None:
        return _read_once(Path(site_name).absolute()) if site_name else None
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
    if path.is_dir():
        raise BadInput(
            f"{ENVIRONMENT} is {path}, which is a folder; legal: a file of trnsim calibrate",
            fix=f"{ENVIRONMENT}={path / NAME}",
        )
    return _read(path, os.fspath(path.absolute()), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _absolute: str, _changed_ns: int, _bytes: int) -> SiteCorrections:
    """The site at a path, whose state is part of the key."""
    return read(path)


@contextmanager
def using(site: SiteCorrections | None) -> Generator[None]:
    """Estimates with a site that another process handed over, whose files this one may lack."""
    _handed_over.append(site)
    try:
        yield
    finally:
        _handed_over.pop()


@contextmanager
def without() -> Generator[None]:
    """Estimates without a site, in child processes too."""
    old_value = os.environ.get(ENVIRONMENT)
    os.environ[ENVIRONMENT] = ""
    try:
        with using(None):
            yield
    finally:
        if old_value is None:
            del os.environ[ENVIRONMENT]
        else:
            os.environ[ENVIRONMENT] = old_value


@contextmanager
def _recorded(open_sets: list[set[Item]]) -> Generator[set[Item]]:
    """A new set that is among `open_sets` during the block."""
    items: set[Item] = set()
    open_sets.append(items)
    try:
        yield items
    finally:
        # By identity: a set of a block within this one may have the same items.
        open_sets[:] = [other for other in open_sets if other is not items]


def recorded_families() -> AbstractContextManager[set[tuple[str, str]]]:
    """A set of pairs (chip, family): those whose times are estimated in the block."""
    return _recorded(_recorded_families)


def note_family(chip: str, family: str) -> None:
    """Note that times of a family on a chip are estimated."""
    for families in _recorded_families:
        families.add((chip, family))


def recorded_words() -> AbstractContextManager[set[str]]:
    """A set of the provenances of corrections that enter estimates in the block."""
    return _recorded(_recorded_words)


def cached(maxsize: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorator: keep the results of a function, for each site apart.

    A result from memory notes the corrections that entered it as a new one does.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        def recording(
            _site: str, *arguments: Parameters.args, **keywords: Parameters.kwargs
        ) -> tuple[Result, frozenset[str]]:
            with recorded_words() as words:
                result = function(*arguments, **keywords)
            return result, frozenset(words)

        memory: Callable[..., tuple[Result, frozenset[str]]] = lru_cache(maxsize=maxsize)(recording)

        @wraps(function)
        def from_memory(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            result, words = memory(cache_key(), *arguments, **keywords)
            for provenance in words:
                note_used(provenance)
            return result

        return from_memory

    return decorate


def note_used(words: str) -> None:
    """Note that a correction of this provenance entered an estimate."""
    for word_set in (_used_words, *_recorded_words):
        word_set.add(words)


def take_used() -> list[str]:
    """The provenances of all corrections that entered estimates since the last call."""
    words = sorted(_used_words)
    _used_words.clear()
    return words
