"""Parallel map of a function over points, in processes or on Ray, with a cache on disk.

Points go in chunks to processes of this machine or to an existing Ray cluster. Results of a chunk
are cached on disk under a digest of the sources, the user's own corrections (`trnsim.site`) and the
chunk's points, so that an interrupted search resumes. Ray places and retries its tasks. Results are
JSON values, so that cached results equal new ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trnsim import disk_cache
from trnsim.errors import BadInput
from trnsim.site import SiteCorrections, current, note_used, recorded_words, using
from trnsim.site import cache_key as site_key

if TYPE_CHECKING:
    Function = Callable[[Any], Any]
    Chunk = tuple[int, list[Any]]

CHUNK: Final = 16
"""Points that a process evaluates at a time."""
_STDOUT: Final = 1
_STDERR: Final = 2
_MOST_CHUNKS_IN_PROCESS: Final = 2
"""Maximum number of chunks for which no process is started."""
_MOST_TRIES: Final = 3
"""Tries of chunks whose workers die, after which the search fails."""
_HASHED_ROOMS: Final = ("arch", "estimate", "fabric", "price", "site", "system", "workload")
"""Packages of trnsim whose files decide the results, and so the key of the cache."""


class ChunkResult(NamedTuple):
    """The result of a chunk of points.

    Attributes:
        values: the function's JSON value for each point.
        corrections: provenances of the user's corrections that the values depend on.
    """

    values: list[Any]
    corrections: list[str]


def map(  # noqa: A001  what it is: trnsim.system.search.map
    function: Function,
    points: Sequence[Any],
    *,
    ray: str = "",
    processes: int = 0,
    deadline_s: float | None = None,
    tell: Callable[[int], None] | None = None,
    chunk: int = CHUNK,
) -> list[Any]:
    """``[function(point) for point in points]``, with None for points not reached by the deadline.

    Args:
        function: a module's function, or a `functools.partial` of one; its result is a JSON value.
        points: JSON values.
        ray: address of a Ray cluster ("auto" for the one of this machine); "" for processes.
        processes: number of processes; by default the number of cores.
        deadline_s: seconds after which no further chunk is begun.
        tell: called with the number of points that are done.
        chunk: number of points that a process evaluates at a time, and that are cached together.

    Raises:
        BadInput: `ray` is given, and Ray is not installed or no cluster is at the address.
    """
    until_s = float("inf") if deadline_s is None else time.monotonic() + deadline_s
    starts = range(0, len(points), chunk)
    chunks = [(start, list(points[start : start + chunk])) for start in starts]
    most_in_process = _MOST_CHUNKS_IN_PROCESS * chunk
    results_at: dict[int, ChunkResult] = {}
    uncached_chunks: list[Chunk] = []
    for start, part in chunks:
        stored_result = disk_cache.read(
            _cache_key(function, part), partial(_stored_result, len(part))
        )
        if stored_result is None:
            uncached_chunks.append((start, part))
        else:
            results_at[start] = stored_result
    count = sum(len(stored_result.values) for stored_result in results_at.values())
    with closing(
        _chunk_results(function, uncached_chunks, ray, processes, until_s, most_in_process)
    ) as chunk_results:
        for (start, part), (values, corrections) in chunk_results:
            results_at[start] = ChunkResult(json.loads(json.dumps(values)), corrections)
            disk_cache.write(_cache_key(function, part), results_at[start]._asdict())
            count += len(part)
            if tell:
                tell(count)
    for words in {words for result in results_at.values() for words in result.corrections}:
        note_used(words)
    return [
        value
        for start, part in chunks
        for value in (results_at[start].values if start in results_at else [None] * len(part))
    ]


def _chunk_results(
    function: Function,
    chunks: list[Chunk],
    ray: str,
    processes: int,
    until_s: float,
    most_in_process: int,
) -> Generator[tuple[Chunk, ChunkResult]]:
    count = processes or os.cpu_count() or 1
    if ray:
        yield from _on_ray(function, chunks, ray, until_s)
    elif count == 1 or sum(len(points) for _, points in chunks) <= most_in_process:
        for chunk in chunks:
            if time.monotonic() >= until_s:
                return
            yield chunk, _evaluate(function, chunk[1])
    else:
        yield from _in_processes(function, chunks, count, until_s)


def _stored_result(count: int, entry: dict[str, Any]) -> ChunkResult:
    """The result of a chunk of `count` points in a cache entry of `map`.

    Raises:
        ValueError: the entry does not hold `count` values, or its corrections are no texts.
        TypeError: it has other fields.
    """
    result = ChunkResult(**entry)
    is_of_lists = all(isinstance(items, list) for items in entry.values())
    if not is_of_lists or len(result.values) != count:
        raise ValueError(count)
    if not all(isinstance(words, str) for words in entry["corrections"]):
        raise ValueError(result.corrections)
    return result


def _evaluate(function: Function, points: list[Any]) -> ChunkResult:
    with recorded_words() as words:
        values = [function(point) for point in points]
    return ChunkResult(values, sorted(words))


def _evaluated_elsewhere(
    function: Function, points: list[Any], site: SiteCorrections | None
) -> ChunkResult:
    """The result of a chunk in a worker, with the corrections of the process that searches."""
    with using(site):
        return _evaluate(function, points)


def _in_processes(
    function: Function, chunks: list[Chunk], count: int, until_s: float
) -> Iterator[tuple[Chunk, ChunkResult]]:
    """Run chunks in processes; if a process dies, unfinished chunks are run again in new ones.

    Raises:
        BrokenProcessPool: processes died three times in a row without a finished chunk.
    """
    pending_chunks, tries = list(chunks), 0
    while pending_chunks and time.monotonic() < until_s:
        waiting_before = len(pending_chunks)
        try:
            for chunk, results in _in_pool(function, list(pending_chunks), count, until_s):
                pending_chunks.remove(chunk)
                yield chunk, results
        except BrokenProcessPool:
            tries = tries + 1 if len(pending_chunks) == waiting_before else 0
            if tries == _MOST_TRIES:
                raise


def _in_pool(
    function: Function, chunks: list[Chunk], count: int, until_s: float
) -> Iterator[tuple[Chunk, ChunkResult]]:
    earlier_processes, site = set(active_children()), current()
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        running_tasks: dict[Future[ChunkResult], Chunk] = {}
        try:
            while chunks or running_tasks:
                while chunks and len(running_tasks) < 2 * count and time.monotonic() < until_s:
                    chunk = chunks.pop(0)
                    with _without_interrupts():
                        task = pool.submit(_evaluated_elsewhere, function, chunk[1], site)
                        running_tasks[task] = chunk
                if not running_tasks:
                    return
                finished_tasks, _ = wait(running_tasks, return_when=FIRST_COMPLETED)
                for future in finished_tasks:
                    yield running_tasks.pop(future), future.result()
        except (KeyboardInterrupt, GeneratorExit):  # nobody waits for the chunks that run
            for process in set(active_children()) - earlier_processes:
                process.kill()
            raise


@contextmanager
def _without_interrupts() -> Generator[None]:
    """A block in which Ctrl-C waits; processes that it starts never get it.

    A terminal sends Ctrl-C to all of its processes, and each worker would print a traceback. A
    process keeps the signals that were blocked where it was started. Windows blocks no signal.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    blocked_signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_signals)


def _on_ray(
    function: Function, chunks: list[Chunk], address: str, until_s: float
) -> Iterator[tuple[Chunk, ChunkResult]]:
    """Run chunks as Ray tasks, which Ray places, and retries where a worker dies.

    Raises:
        BadInput: Ray is not installed, or no cluster is at the address.
    """
    if find_spec("ray") is None:
        raise BadInput("--ray needs Ray, which is not installed", fix="pip install 'trnsim[ray]'")
    with _output_on_stderr():
        ray = import_module("ray")
        yield from _tasks(ray, function, chunks, address, until_s)


@contextmanager
def _output_on_stderr() -> Generator[None]:
    """Redirect file descriptor 1 to stderr: Ray's C++ code writes to it, bypassing Python.

    Processes started meanwhile inherit the redirection, so that stdout holds only the answer.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        saved_stdout = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
    except OSError:  # stdout or stderr is closed: there is no output to redirect
        yield
        return
    try:
        yield
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
        os.dup2(saved_stdout, _STDOUT)
        os.close(saved_stdout)


def _tasks(
    ray: Any, function: Function, chunks: list[Chunk], address: str, until_s: float
) -> Iterator[tuple[Chunk, ChunkResult]]:
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except ConnectionError as error:
        raise BadInput(
            f"--ray {address}: no cluster is there: {error}", fix="start one: ray start --head"
        ) from error
    task = ray.remote(max_retries=_MOST_TRIES)(_evaluated_elsewhere)
    site = current()
    running_tasks = {task.remote(function, chunk[1], site): chunk for chunk in chunks}
    try:
        while running_tasks and time.monotonic() < until_s:
            finished_tasks, _ = ray.wait(list(running_tasks), timeout=1.0)
            for reference in finished_tasks:
                yield running_tasks.pop(reference), ray.get(reference)
    finally:  # after Ctrl-C too, nobody waits for the others
        for reference in running_tasks:
            ray.cancel(reference)


def _cache_key(function: Function, points: list[Any]) -> tuple[str, ...]:
    values = json.dumps(points, sort_keys=True)
    return ("search", version(), site_key(), _function_name(function), values)


def _function_name(function: Function) -> str:
    """Qualified name of a function, with the arguments of a `partial`."""
    if isinstance(function, partial):
        keywords = sorted(function.keywords.items())
        return f"{_function_name(function.func)} {function.args!r} {keywords!r}"
    return f"{function.__module__}.{function.__qualname__}"


@cache
def version() -> str:
    """A digest of the source files that decide a plan."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for room in _HASHED_ROOMS:
        for file in sorted((root / room).rglob("*")):
            if file.suffix in (".py", ".json", ".csv"):
                digest.update(file.read_bytes())
    return digest.hexdigest()
