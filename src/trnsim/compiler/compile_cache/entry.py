"""An entry of the cache: a graph with its flags, and the program that was compiled from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.compiler.compile_cache.lock import is_locked
from trnsim.errors import BadInput
from trnsim.foreign_text import terminal_text
from trnsim.formatting import clipped

GRAPH: Final = "model.hlo_module.pb"
FLAGS: Final = "compile_flags.json"
PROGRAM: Final = "model.neff"
DONE: Final = "model.done"
LOG: Final = "model.log"
LOCK: Final = "model.hlo_module.pb.lock"
OLDER_GRAPH: Final = "model.hlo.pb"
"""The graph's name in entries of older releases. Source: pytorch-neuron-parallel-compile.rst."""
_NAME_CHARS: Final = 200
NAME: Final = re.compile(
    rf"MODULE_(?P<graph>[0-9A-Za-z_.-]{{1,{_NAME_CHARS}}})\+(?P<flags>[0-9a-f]{{8}})"
)
_SHOWN_CHARS: Final = 60
"""Characters of a key in an error."""
_REASON_CHARS: Final = 10_000
"""Characters of a remembered failure that are shown."""
_FLAG_DIGITS: Final = 8
_HASH_BYTES: Final = 8
_FLAGS_MAX: Final = 4096
_FIX: Final = "neuron_parallel_compile --command clean, or remove the folder"


class EntryState(Enum):
    """Stages of an entry."""

    ABSENT = "no graph"
    GRAPH = "a graph that is not compiled yet"
    DONE = "a compiled graph"
    FAILED = "a graph that does not compile"


@dataclass(frozen=True)
class CacheKey:
    """The name of an entry.

    Attributes:
        graph: digits of the graph's hash.
        flags: digits of the flags' hash; d41d8cd9 for none, as in AWS's examples.
    """

    graph: str
    flags: str

    @classmethod
    def of(cls, graph: bytes | str, flags: Sequence[str]) -> CacheKey:
        """The key of a graph's bytes, or of a text that stands for it, and of flags in order."""
        content = graph.encode() if isinstance(graph, str) else graph
        digest = hashlib.sha256(content).digest()[:_HASH_BYTES]
        return cls(str(int.from_bytes(digest, "big")), flags_digest(flags))

    @classmethod
    def from_hash(cls, key: str, flags: Sequence[str]) -> CacheKey:
        """The key of a graph that the caller has hashed.

        Raises:
            BadInput: for a text that no folder may be named by.
        """
        digits = str(key).removeprefix("MODULE_").partition("+")[0]
        cache_key = cls(digits, flags_digest(flags))
        if NAME.fullmatch(cache_key.folder_name) is None or digits.startswith("."):
            key_text = clipped(repr(key), _SHOWN_CHARS)
            raise BadInput(
                f"cache_key={key_text}; legal: letters, digits, '_', '-', and '.' except at the "
                f"start; 1 to {_NAME_CHARS}",
                fix="give the digits of a hash of the graph",
            )
        return cache_key

    @property
    def folder_name(self) -> str:
        """The name of the entry's folder."""
        return f"MODULE_{self.graph}+{self.flags}"


def flags_digest(flags: Sequence[str]) -> str:
    """The first eight digits of MD5 over the flags as JSON, or over "" if there are none."""
    content = json.dumps(list(flags)) if flags else ""
    return hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()[:_FLAG_DIGITS]


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache, by its folder."""

    folder: Path

    @property
    def graph_file(self) -> Path:
        """The graph; in an entry of an older release by its older name."""
        older_path = self.folder / OLDER_GRAPH
        newer_path = self.folder / GRAPH
        return older_path if older_path.is_file() and not newer_path.is_file() else newer_path

    @property
    def program_file(self) -> Path:
        """The program."""
        return self.folder / PROGRAM

    @property
    def lock_file(self) -> Path:
        """The lock."""
        return self.folder / LOCK

    @property
    def is_locked(self) -> bool:
        """True while a process compiles the entry's graph."""
        return is_locked(self.lock_file)

    @property
    def state(self) -> EntryState:
        """The stage of the entry; a program that is not written whole does not count."""
        if (self.folder / DONE).is_file() and self.program_file.is_file():
            return EntryState.DONE
        if (self.folder / LOG).is_file():
            return EntryState.FAILED
        return EntryState.GRAPH if self.graph_file.is_file() else EntryState.ABSENT

    def graph(self) -> bytes:
        """The stored graph.

        Raises:
            BadInput: it cannot be read.
        """
        return files.read_bytes(self.graph_file, fix=_FIX)

    def flags(self) -> list[str]:
        """The flags, in order.

        Raises:
            BadInput: they cannot be read, or are no list of texts.
        """
        path = self.folder / FLAGS
        try:
            flags = json.loads(files.read_text(path, fix=_FIX))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path} is no JSON: {error}", fix=_FIX) from error
        is_list = isinstance(flags, list) and len(flags) <= _FLAGS_MAX
        if not is_list or not all(isinstance(flag, str) for flag in flags):
            raise BadInput(f"{path}: no list of flags; legal: a JSON list of texts", fix=_FIX)
        return list(flags)

    def failure(self) -> str:
        """The reason that the graph does not compile, for a terminal; "" if it is not known."""
        try:
            log_text = files.read_text(self.folder / LOG).strip()
        except BadInput:
            return ""
        return terminal_text(clipped(log_text, _REASON_CHARS))

    def store_graph(self, graph: bytes, flags: Sequence[str]) -> Path:
        """Store a graph and its flags; the path of the graph.

        Raises:
            BadInput: they cannot be written.
        """
        contents: dict[str, str | bytes] = {FLAGS: json.dumps(list(flags)), GRAPH: graph}
        if not self.graph_file.is_file() or not (self.folder / FLAGS).is_file():
            files.write_together(self.folder, contents)
        return self.graph_file

    def store_program(self, program: bytes) -> Path:
        """Store a program and mark it as whole; the path of the program.

        Raises:
            BadInput: it cannot be written.
        """
        files.write(self.program_file, program, parents=True)
        files.write(self.folder / DONE, "")
        self.forget_failure()
        return self.program_file

    def store_failure(self, reason: str) -> None:
        """Store the reason that the graph does not compile.

        Raises:
            BadInput: it cannot be written.
        """
        files.write(self.folder / LOG, f"{reason}\n", parents=True)

    def forget_failure(self) -> None:
        """Remove a stored failure."""
        with suppress(OSError):
            (self.folder / LOG).unlink(missing_ok=True)

    def remove_program(self) -> None:
        """Remove the program, such as a damaged file; the graph stays."""
        for name in (DONE, PROGRAM):
            with suppress(OSError):
                (self.folder / name).unlink(missing_ok=True)
