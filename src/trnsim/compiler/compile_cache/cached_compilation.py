"""Compilation through the cache: a stored program is read, a compiler's refusal is remembered.

A failure that is not the graph's (a full disk or memory, a file that may not be read, Ctrl-C) is
not remembered. Two processes that want the same graph compile it once: the second waits for the
first. If the cache cannot be written, a message says so, and the graph is compiled all the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trnsim.compiler.compile_cache.entry import CacheEntry, CacheKey, EntryState
from trnsim.compiler.compile_cache.lock import held_lock
from trnsim.compiler.compile_cache.settings import CacheSettings
from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.compiler.stand_in import parse_program
from trnsim.errors import BadInput, EmulatorError
from trnsim.foreign_text import terminal_text

Tell = Callable[[str, str], None]
"""Logs a message: called with the AWS component that logs it (NEURON_CACHE) and the text."""


@dataclass(frozen=True)
class CachedProgram:
    """A program from the cache.

    Attributes:
        content: the file in place of a NEFF.
        path: the path at which it is stored; None without a cache.
        is_hit: True if the cache had it already.
    """

    content: bytes
    path: Path | None
    is_hit: bool


class CachedFailure(BadInput):
    """A graph that failed before, and is not compiled again."""


def log_line(component: str, text: str, level: str = "INFO") -> str:
    """A line as AWS's tools log it: the time, the process, the component between bars, `text`."""
    now = datetime.now().astimezone()
    time = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:06d}"
    return f"{time}:  {os.getpid()}  {level} ||{component}||: {text}"


def tell_on_stderr(component: str, text: str) -> None:
    """Log a line on stderr."""
    # In one write, so that lines of several ranks stay whole.
    sys.stderr.write(f"{terminal_text(log_line(component, text))}\n")


def entry_of(key: CacheKey, settings: CacheSettings) -> CacheEntry | None:
    """The entry of a key; None if the cache is off."""
    folder = settings.version_folder
    return None if folder is None else CacheEntry(folder / key.folder_name)


def extract_graph(
    graph: bytes,
    flags: Sequence[str],
    settings: CacheSettings,
    *,
    key: CacheKey | None = None,
    tell: Tell = tell_on_stderr,
) -> Path:
    """Store a graph for a later compilation, and say so; the path of the graph.

    Raises:
        BadInput: the cache is off, or cannot be written.
    """
    entry = entry_of(key or CacheKey.of(graph, flags), settings)
    if entry is None:
        raise BadInput(
            "graphs are to be extracted to a cache that --no_cache turns off",
            fix="leave out --no_cache, or unset NEURON_EXTRACT_GRAPHS_ONLY",
        )
    path = entry.store_graph(graph, flags)
    tell(
        "NEURON_CC_WRAPPER",
        f"Extracting graphs ({path}) for ahead-of-time parallel compilation. No compilation was "
        "done.",
    )
    return path


def compile_cached(
    graph: bytes,
    flags: Sequence[str],
    make: Callable[[], bytes],
    settings: CacheSettings,
    *,
    key: CacheKey | None = None,
    tell: Tell = tell_on_stderr,
) -> CachedProgram:
    """The program of a graph: from the cache, or from `make`, and then in the cache.

    Args:
        graph: the bytes of the graph, as they are stored.
        flags: all flags on which the program depends, the target and cores among them.
        make: compiles the graph; returns the content of the program's file.
        settings: the settings of the cache.
        key: the entry's name, if the caller has hashed the graph.
        tell: receives what AWS's tools log.

    Raises:
        CachedFailure: the graph failed before, and is not to be tried again.
        EmulatorError: the compilation fails now.
    """
    entry = entry_of(key or CacheKey.of(graph, flags), settings)
    if entry is None:
        return CachedProgram(make(), None, is_hit=False)
    cached_program = _stored_program(entry, tell, retries_failed=settings.retries_failed)
    if cached_program is not None:
        return cached_program
    with ExitStack() as stack:
        try:
            entry.store_graph(graph, flags)
            stack.enter_context(held_lock(entry.lock_file))
        except (BadInput, OSError) as error:
            tell(
                "NEURON_CACHE",
                f"the cache cannot be written, and keeps nothing: {_first_line(error)}",
            )
            return CachedProgram(make(), None, is_hit=False)
        return compile_entry(entry, make, tell, retries_failed=settings.retries_failed)


def compile_entry(
    entry: CacheEntry, make: Callable[[], bytes], tell: Tell, *, retries_failed: bool
) -> CachedProgram:
    """The program of an entry whose lock this process holds.

    Raises:
        CachedFailure: as `compile_cached`.
        EmulatorError: likewise.
    """
    cached_program = _stored_program(entry, tell, retries_failed=retries_failed)
    if cached_program is not None:
        return cached_program
    try:
        content = make()
    except EmulatorError as error:
        if _is_reproducible(error):
            _store_failure(entry, failure_text(error), tell)
        raise
    try:
        path = entry.store_program(content)
    except BadInput as error:
        entry.remove_program()
        tell("NEURON_CACHE", f"the program is not kept: {_first_line(error)}")
        return CachedProgram(content, None, is_hit=False)
    return CachedProgram(content, path, is_hit=False)


def _is_reproducible(error: EmulatorError) -> bool:
    """True if the error would come again, under any TRNSIM_POLICY and on any machine."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError | MemoryError):
            return False
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return not isinstance(error, CompilerRefusal) or error.is_final


def _stored_program(entry: CacheEntry, tell: Tell, *, retries_failed: bool) -> CachedProgram | None:
    """The program in the cache; None if the graph must be compiled.

    Raises:
        CachedFailure: the graph failed before.
    """
    state, path = entry.state, entry.program_file
    if state is EntryState.DONE:
        try:
            content = path.read_bytes()
            parse_program(content, str(path))
        except (OSError, BadInput) as error:
            tell("NEURON_CACHE", f"{path} is damaged and is compiled again: {_first_line(error)}")
            entry.remove_program()
            return None
        tell(
            "NEURON_CC_WRAPPER",
            f"Using a cached neff at {path}. Exiting with a successfully compiled graph.",
        )
        return CachedProgram(content, path, is_hit=True)
    if state is EntryState.FAILED and not retries_failed:
        message = (
            f"Got a cached failed neff at {path}. Will skip compilation, please set "
            "--retry_failed_compilation for recompilation."
        )
        tell("NEURON_CC_WRAPPER", message)
        raise CachedFailure(
            f"{message}\n{entry.failure()}".strip(),
            fix='NEURON_CC_FLAGS="--retry_failed_compilation", or neuron_parallel_compile '
            "--command clean",
        )
    return None


def _store_failure(entry: CacheEntry, reason: str, tell: Tell) -> None:
    """Store a failure in the cache, or say why it cannot be stored."""
    try:
        entry.store_failure(reason)
    except BadInput as error:
        tell("NEURON_CACHE", f"the failure is not remembered: {_first_line(error)}")


def failure_text(error: EmulatorError) -> str:
    """An error's text, without its source line, which is the program's and not the graph's."""
    lines = [error.reason]
    lines += [f"fix: {error.fix}"] if error.fix else []
    lines += [f"source: {error.source}"] if error.source else []
    return "\n  ".join(lines)


def _first_line(error: Exception) -> str:
    """The first line of an error."""
    return str(error).partition("\n")[0]
