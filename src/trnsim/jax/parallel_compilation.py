"""The compilation of all graphs that a cache stores, several at once, and its report."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from trnsim.compiler.compile_cache import CacheEntry, CacheSettings, EntryState, entries
from trnsim.compiler.compile_cache.cached_compilation import (
    CachedFailure,
    compile_entry,
    failure_text,
    log_line,
)
from trnsim.compiler.compile_cache.lock import held_lock
from trnsim.compiler.stand_in import parse_program
from trnsim.errors import BadInput, EmulatorError
from trnsim.jax.programs import compile_program

RETRIES_VARIABLE: Final = "NEURON_PARALLEL_COMPILE_MAX_RETRIES"
DUMP_VARIABLE: Final = "NEURON_PARALLEL_COMPILE_DUMP_RESULTS"
_MOST_RETRIES: Final = 100
_TARGET: Final = "--target="
_DEATH_REASON: Final = "the process that compiled it died"
_FIX: Final = "neuron_parallel_compile --command clean, and collect the graphs again"


@dataclass(frozen=True)
class Outcome:
    """The compilation of a graph.

    Attributes:
        is_compiled: True if its program is in the cache now.
        retries: number of attempts after the first.
        reason: the reason of a failure; "" for a compiled graph.
        compile_s: seconds of wall time; 0 if the program was in the cache already.
        figures: the report on it, as `trnsim compile --json` has it; empty if it failed.
    """

    graph: Path
    is_compiled: bool
    retries: int
    reason: str
    compile_s: float
    figures: dict[str, Any]


Log = Callable[[str], None]


def max_retries() -> int:
    """Number of retries of a graph that fails (NEURON_PARALLEL_COMPILE_MAX_RETRIES).

    Raises:
        BadInput: for a value that is no small whole number.
    """
    text = os.environ.get(RETRIES_VARIABLE, "") or "0"
    if not text.isdecimal() or int(text) > _MOST_RETRIES:
        raise BadInput(
            f"{RETRIES_VARIABLE} is {text!r}; legal: a whole number from 0 to {_MOST_RETRIES}",
            fix=f"{RETRIES_VARIABLE}=0",
        )
    return int(text)


def _ignore_progress(*_: object) -> None:
    """Do nothing with a message on the progress of a compilation in a process of its own."""


def compile_entry_of(folder: str, retries: int, *, retries_failed: bool) -> Outcome:
    """Compile an entry of the cache; a failure is a part of the outcome."""
    entry = CacheEntry(Path(folder))
    reason, start_s = "", time.perf_counter()
    for attempt in range(retries + 1):
        try:
            with held_lock(entry.lock_file):
                compiled_entry = compile_entry(
                    entry,
                    lambda: _program(entry),
                    _ignore_progress,
                    retries_failed=retries_failed or attempt > 0,
                )
        except (EmulatorError, OSError, MemoryError) as error:
            reason = failure_text(error) if isinstance(error, EmulatorError) else _reason(error)
            if isinstance(error, CachedFailure):  # a remembered one is not tried again
                elapsed_s = time.perf_counter() - start_s
                return Outcome(entry.graph_file, False, 0, reason, elapsed_s, {})
            continue
        elapsed_s = 0.0 if compiled_entry.is_hit else time.perf_counter() - start_s
        figures = parse_program(compiled_entry.content, str(entry.program_file)).report
        return Outcome(entry.graph_file, True, attempt, "", elapsed_s, figures)
    elapsed_s = time.perf_counter() - start_s
    return Outcome(entry.graph_file, False, retries, reason, elapsed_s, {})


def _reason(error: OSError | MemoryError) -> str:
    """The reason of an error of the machine; Python gives no text for a lack of memory."""
    return str(error) or "this machine's memory is too small"


def _program(entry: CacheEntry) -> bytes:
    """The file in place of a NEFF of an entry's graph.

    Raises:
        EmulatorError: the graph does not compile.
    """
    flags = entry.flags()
    target = next((flag for flag in flags if flag.startswith(_TARGET)), "")
    if not target:
        raise BadInput(f"{entry.folder}: its flags name no --target", fix=_FIX)
    words = [flag for flag in flags if not flag.startswith(_TARGET)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # refusals stand in the report
        _, stored_program = compile_program(
            entry.graph(),
            str(entry.graph_file),
            words,
            target.removeprefix(_TARGET),
            flags_origin=str(entry.folder / "compile_flags.json"),
            title=entry.folder.name,
        )
    return stored_program.serialized()


def compile_all(
    settings: CacheSettings, log: Log, *, processes: int, retries: int
) -> list[Outcome]:
    """Compile every graph of a cache that has no program; the outcomes, in the order of names.

    Raises:
        BadInput: the cache is off.
    """
    folder = settings.version_folder
    if folder is None:
        raise BadInput(
            "the cache is turned off by --no_cache in NEURON_CC_FLAGS", fix="leave --no_cache out"
        )
    log(log_line("NEURON_CACHE", f"Compile cache path: {settings.folder}"))
    graph_entries = [entry for entry in entries(folder) if entry.state is not EntryState.ABSENT]
    _tell_counts(graph_entries, log)
    pending_entries = [
        entry
        for entry in graph_entries
        if entry.state is EntryState.GRAPH
        or (entry.state is EntryState.FAILED and settings.retries_failed)
    ]
    graphs = [str(entry.graph_file) for entry in pending_entries]
    log(log_line("NEURON_PARALLEL_COMPILE", f"master grab hlos to compile: {graphs}"))
    call = {"retries": retries, "retries_failed": settings.retries_failed}
    outcomes = _compile_all([str(entry.folder) for entry in graph_entries], processes, call)
    _tell_counts(graph_entries, log)
    return outcomes


def _tell_counts(graph_entries: Sequence[CacheEntry], log: Log) -> None:
    """Log how many graphs are compiled, locked, failed, and left."""
    states = [entry.state for entry in graph_entries]
    done_count, failed_count = states.count(EntryState.DONE), states.count(EntryState.FAILED)
    locks = sum(entry.is_locked for entry in graph_entries)
    pending = len(graph_entries) - done_count - failed_count
    text = (
        f"Current remaining items are {pending}, locked are {locks}, failed are {failed_count}, "
        f"done are {done_count}, total is {len(graph_entries)}"
    )
    log(log_line("NEURON_CACHE", text))


def _compile_all(folders: Sequence[str], processes: int, call: dict[str, Any]) -> list[Outcome]:
    """The outcomes of entries, compiled in up to `processes` processes."""
    pending_folders = [
        folder for folder in folders if CacheEntry(Path(folder)).state is not EntryState.DONE
    ]
    if min(processes, len(pending_folders)) <= 1:
        return [compile_entry_of(folder, **call) for folder in folders]
    by_folder = _compile_in_pool(pending_folders, min(processes, len(pending_folders)), call)
    for folder in [folder for folder in pending_folders if folder not in by_folder]:
        # A process died. Each remaining graph has a process of its own, which shows whose it was.
        single_outcome = _compile_in_pool([folder], 1, call)
        by_folder[folder] = single_outcome.get(folder) or _death_outcome(folder)
    return [by_folder.get(folder) or compile_entry_of(folder, **call) for folder in folders]


def _compile_in_pool(
    folders: Sequence[str], processes: int, call: dict[str, Any]
) -> dict[str, Outcome]:
    """The outcomes by folder; without folders that were unfinished when a process died."""
    by_folder: dict[str, Outcome] = {}
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    futures: dict[Future[Outcome], str] = {}
    try:
        futures = {pool.submit(compile_entry_of, folder, **call): folder for folder in folders}
        for future in as_completed(futures):
            by_folder[futures[future]] = future.result()
    except BrokenProcessPool:
        for future, folder in futures.items():
            if future.done() and future.exception() is None:
                by_folder[folder] = future.result()
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(wait=True, cancel_futures=True)
    return by_folder


def _death_outcome(folder: str) -> Outcome:
    """The outcome of a graph whose process died, for example for lack of memory.

    The cache does not keep it: the graph may compile on another machine.
    """
    return Outcome(CacheEntry(Path(folder)).graph_file, False, 0, _DEATH_REASON, 0.0, {})


def report(outcomes: Sequence[Outcome], *, with_times: bool) -> dict[str, Any]:
    """AWS's summary and report: how many are compiled, and each graph."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        key = str(outcome.is_compiled).lower()
        counts[key] = counts.get(key, 0) + 1
    rows: dict[str, Any] = {}
    for outcome in outcomes:
        row: dict[str, Any] = {"status": outcome.is_compiled, "retry": outcome.retries}
        if with_times:
            row["compile_time"] = round(outcome.compile_s, 3)
        rows[str(outcome.graph)] = row
    return {"compilation_summary": counts, "compilation_report": rows}


def reports_times() -> bool:
    """True if the report has the time of each compilation."""
    return os.environ.get(DUMP_VARIABLE, "") == "1"
