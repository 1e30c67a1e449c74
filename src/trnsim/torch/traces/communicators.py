"""Exchanges of tensors between ranks that are threads of one process.

Calls match by order: the n-th exchange with a group in a run of one rank meets the n-th exchange of
the group's other ranks, and the n-th run of a rank that has exchanges meets the n-th such run of
the other ranks. The error of a waiting rank names the rank that failed or does not run.

Source: neuronx-distributed trace/trace.py, TensorParallelNeuronModel, which runs each rank's module
in a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.device.call_log import note_collective, recordings
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.traces.exchanges import Groups

WAIT_S: Final = 10.0
"""Time for which a rank waits for one that runs nothing."""
_POLL_S: Final = 0.2
"""Time after which a waiting rank looks again for ranks that failed or are idle."""
_KINDS: Final = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}
_SOURCE: Final = "neuronx-distributed trace/trace.py, TensorParallelNeuronModel"
_FIX: Final = "run the modules of all ranks at the same time, each in a thread: model(*inputs)"


class RankMissing(BadInput):
    """Error of an exchange which another rank does not make, or makes with other arguments."""


@dataclass
class _PendingExchange:
    """An exchange in progress.

    Attributes:
        call: the collective, its arguments, and the shape and dtype of each rank's tensor.
        first_rank: the first rank that called it.
        tensors: the tensors of the ranks that have called it.
        results: the result of each rank, once all have called it.
    """

    call: tuple[Any, ...]
    first_rank: int
    tensors: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    results: dict[int, Tensor] | None = None


class Communicator:
    """The exchanges between the ranks of programs of `world` ranks, threads of this process."""

    def __init__(self, world: int, wait_s: float = WAIT_S) -> None:
        self._world, self._wait_s = world, wait_s
        self._change = threading.Condition()
        self._pending: dict[tuple[Any, ...], _PendingExchange] = {}
        self._runs = Counter[int]()
        """Runs with exchanges so far, by rank."""
        self._exchange_counts = Counter[tuple[Any, ...]]()
        """Exchanges so far, by rank, group and number of the rank's run."""
        self._run_counts = Counter[int]()
        self._exchanging_ranks: set[int] = set()
        """Ranks that have made an exchange in their current run."""
        self._waiting_ranks: set[int] = set()
        self._failure = ""

    @contextmanager
    def running(self, rank: int) -> Generator[None]:
        """Context of a run of a rank; its failure ends the waiting of the other ranks."""
        with self._change:
            self._run_counts[rank] += 1
            self._exchanging_ranks.discard(rank)
        try:
            yield
        except BaseException as error:
            with self._change:
                self._failure = self._failure or f"rank {rank} ended with {type(error).__name__}"
            raise
        finally:
            with self._change:
                self._run_counts[rank] -= 1
                if self._failure and not self._run_counts.total():
                    self._reset()
                self._change.notify_all()

    def _reset(self) -> None:
        """Forget all exchanges in progress."""
        self._failure = ""
        counts = (self._runs, self._exchange_counts)
        for table in (self._pending, *counts, self._exchanging_ranks, self._waiting_ranks):
            table.clear()

    def exchange(
        self, rank: int, name: str, groups: Groups, arguments: tuple[Any, ...], tensor: Tensor
    ) -> Tensor:
        """The result of a rank's exchange, on the device of its tensor.

        Raises:
            RankMissing: a rank of the group failed, does not run, or makes another exchange.
        """
        group = next(group for group in groups if rank in group)
        call = (name, arguments, list(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        with self._change:
            if rank not in self._exchanging_ranks:
                self._exchanging_ranks.add(rank)
                self._runs[rank] += 1
            caller = (rank, group, self._runs[rank])
            key = (group, self._runs[rank], self._exchange_counts[caller])
            self._exchange_counts[caller] += 1
            pending = self._pending.setdefault(key, _PendingExchange(call, rank))
            if pending.call != call:
                raise self._missing(rank, name, _difference(rank, call, pending))
            pending.tensors[rank] = tensor.detach().cpu()
            if len(pending.tensors) == len(group):
                pending.results = _results(name, arguments, group, pending.tensors)
                self._waiting_ranks.difference_update(group)
                del self._pending[key]
                self._change.notify_all()
            self._wait(rank, name, group, pending)
            results = pending.results or {}
        if rank == 0 and recordings:
            nbytes = max(tensor.nbytes, results[rank].nbytes)
            note_collective(CollectiveCall(_KINDS.get(name, name), nbytes, tuple(group)))
        return results[rank].to(tensor.device, copy=True)

    def _wait(self, rank: int, name: str, group: Sequence[int], pending: _PendingExchange) -> None:
        """Wait for the other ranks of a group while they run, or may begin to."""
        idle_since = time.monotonic()
        if pending.results is None:
            self._waiting_ranks.add(rank)
        while pending.results is None:
            if self._failure:
                raise self._missing(rank, name, self._failure)
            absent_ranks = [other for other in group if other not in pending.tensors]
            ranks = ", ".join(map(str, absent_ranks))
            if self._waiting_ranks.issuperset(absent_ranks):
                raise self._missing(rank, name, f"rank {ranks} waits in another exchange")
            if any(self._run_counts[other] for other in absent_ranks):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self._wait_s:
                raise self._missing(rank, name, f"rank {ranks} runs nothing in this process")
            self._change.wait(_POLL_S)

    def _missing(self, rank: int, name: str, reason: str) -> RankMissing:
        return RankMissing(
            f"rank {rank} of {self._world} waited in {_KINDS.get(name, name)}: {reason}",
            fix=_FIX,
            source=_SOURCE,
            line=program_line(),
        )


def _difference(rank: int, call: tuple[Any, ...], pending: _PendingExchange) -> str:
    """The different calls of two ranks at one exchange, in words."""
    own_text, other_text = _call_text(call), _call_text(pending.call)
    return f"rank {rank} calls {own_text}, where rank {pending.first_rank} calls {other_text}"


def _call_text(call: tuple[Any, ...]) -> str:
    name, arguments, shape, dtype = call
    words = "".join(f", {argument}" for argument in arguments)
    return f"{_KINDS.get(name, name)} of {dtype}{shape}{words}"


_REDUCTIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sum": lambda parts: parts.sum(0, dtype=parts.dtype),
    "product": lambda parts: parts.prod(0, dtype=parts.dtype),
    "min": lambda parts: parts.amin(0),
    "max": lambda parts: parts.amax(0),
    "avg": lambda parts: parts.mean(0, dtype=parts.dtype),
    "band": lambda parts: _fold(parts, torch.bitwise_and),
    "bor": lambda parts: _fold(parts, torch.bitwise_or),
}


def _fold(parts: Tensor, operation: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    result, *others = parts.unbind(0)
    for other in others:
        result = operation(result, other)
    return result


def _results(
    name: str, arguments: tuple[Any, ...], group: Sequence[int], tensors: dict[int, Tensor]
) -> dict[int, Tensor]:
    """The result of each rank of a group; sums are in the order of ranks."""
    parts = [tensors[rank] for rank in group]
    if name == "all_gather_into_tensor":
        return dict.fromkeys(group, torch.cat(parts))
    if name == "all_to_all_single":
        chunks_by_rank = [part.chunk(len(group)) for part in parts]
        return {
            rank: torch.cat([chunks[index] for chunks in chunks_by_rank])
            for index, rank in enumerate(group)
        }
    reduction = _REDUCTIONS[str(arguments[0])](torch.stack(parts))
    if name == "all_reduce":
        return dict.fromkeys(group, reduction)
    return dict(zip(group, reduction.chunk(len(group)), strict=True))


@cache
def communicator(world: int) -> Communicator:
    """The communicator that all programs of `world` ranks in this process share."""
    return Communicator(world)
