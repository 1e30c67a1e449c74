"""Ranks that are threads of one process: their programs meet in each exchange, as cores do.

The n-th exchange of a rank's run with a group is the n-th one of the group's other ranks; so it is
with runs that have exchanges. A rank that fails, or never runs, is named by those that wait for it.

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
_SLICE_S: Final = 0.2
_KINDS: Final = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}
_SOURCE: Final = "neuronx-distributed trace/trace.py, TensorParallelNeuronModel"
_FIX: Final = "run the modules of all ranks at the same time, each in a thread: model(*inputs)"


class RankMissing(BadInput):
    """Error of an exchange that a rank did not come to, or came to with another one."""


@dataclass
class _Meeting:
    """An exchange in progress.

    Attributes:
        call: the collective, its arguments, and the shape and dtype of each rank's tensor.
        first: the rank that came first.
        tensors: the tensors of the ranks that have come.
        results: the result of each rank, once all have.
    """

    call: tuple[Any, ...]
    first: int
    tensors: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    results: dict[int, Tensor] | None = None


class Communicator:
    """The ranks of programs of `world` ranks in this process."""

    def __init__(self, world: int, wait_s: float = WAIT_S) -> None:
        self._world, self._wait_s = world, wait_s
        self._changed = threading.Condition()
        self._meetings: dict[tuple[Any, ...], _Meeting] = {}
        self._runs = Counter[int]()
        self._turns = Counter[tuple[Any, ...]]()
        self._running = Counter[int]()
        self._begun: set[int] = set()
        """Ranks that made an exchange in their run."""
        self._waiting: set[int] = set()
        self._failure = ""

    @contextmanager
    def running(self, rank: int) -> Generator[None]:
        """Context of a run of a rank; its failure ends the waiting of the others."""
        with self._changed:
            self._running[rank] += 1
            self._begun.discard(rank)
        try:
            yield
        except BaseException as error:
            with self._changed:
                self._failure = self._failure or f"rank {rank} ended with {type(error).__name__}"
            raise
        finally:
            with self._changed:
                self._running[rank] -= 1
                if self._failure and not self._running.total():
                    self._begin_anew()
                self._changed.notify_all()

    def _begin_anew(self) -> None:
        """Forget exchanges that did not come about."""
        self._failure = ""
        for table in (self._meetings, self._runs, self._turns, self._begun, self._waiting):
            table.clear()

    def exchange(
        self, rank: int, name: str, groups: Groups, arguments: tuple[Any, ...], tensor: Tensor
    ) -> Tensor:
        """The result of a rank's exchange, on the device of its tensor.

        Raises:
            RankMissing: a rank of the group failed, or did not come, or makes another exchange.
        """
        group = next(group for group in groups if rank in group)
        call = (name, arguments, list(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        with self._changed:
            if rank not in self._begun:
                self._begun.add(rank)
                self._runs[rank] += 1
            turn = (rank, group, self._runs[rank])
            key = (group, self._runs[rank], self._turns[turn])
            self._turns[turn] += 1
            meeting = self._meetings.setdefault(key, _Meeting(call, rank))
            if meeting.call != call:
                raise self._missing(rank, name, _difference(rank, call, meeting))
            meeting.tensors[rank] = tensor.detach().cpu()
            if len(meeting.tensors) == len(group):
                meeting.results = _results(name, arguments, group, meeting.tensors)
                self._waiting.difference_update(group)
                del self._meetings[key]
                self._changed.notify_all()
            self._wait(rank, name, group, meeting)
            results = meeting.results or {}
        if rank == 0 and recordings:
            nbytes = max(tensor.nbytes, results[rank].nbytes)
            note_collective(CollectiveCall(_KINDS.get(name, name), nbytes, tuple(group)))
        return results[rank].to(tensor.device, copy=True)

    def _wait(self, rank: int, name: str, group: Sequence[int], meeting: _Meeting) -> None:
        """Wait for the other ranks of a group while they run, or may begin to."""
        idle_since = time.monotonic()
        if meeting.results is None:
            self._waiting.add(rank)
        while meeting.results is None:
            if self._failure:
                raise self._missing(rank, name, self._failure)
            absent = [other for other in group if other not in meeting.tensors]
            ranks = ", ".join(map(str, absent))
            if self._waiting.issuperset(absent):
                raise self._missing(rank, name, f"rank {ranks} waits in another exchange")
            if any(self._running[other] for other in absent):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self._wait_s:
                raise self._missing(rank, name, f"rank {ranks} runs nothing in this process")
            self._changed.wait(_SLICE_S)

    def _missing(self, rank: int, name: str, reason: str) -> RankMissing:
        return RankMissing(
            f"rank {rank} of {self._world} waited in {_KINDS.get(name, name)}: {reason}",
            fix=_FIX,
            source=_SOURCE,
            line=program_line(),
        )


def _difference(rank: int, call: tuple[Any, ...], meeting: _Meeting) -> str:
    """The different calls of two ranks at one exchange, in words."""
    here, there = _text(call), _text(meeting.call)
    return f"rank {rank} calls {here}, where rank {meeting.first} calls {there}"


def _text(call: tuple[Any, ...]) -> str:
    name, arguments, shape, dtype = call
    words = "".join(f", {argument}" for argument in arguments)
    return f"{_KINDS.get(name, name)} of {dtype}{shape}{words}"


_REDUCTIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sum": lambda parts: parts.sum(0, dtype=parts.dtype),
    "product": lambda parts: parts.prod(0, dtype=parts.dtype),
    "min": lambda parts: parts.amin(0),
    "max": lambda parts: parts.amax(0),
    "avg": lambda parts: parts.mean(0, dtype=parts.dtype),
    "band": lambda parts: _folded(parts, torch.bitwise_and),
    "bor": lambda parts: _folded(parts, torch.bitwise_or),
}


def _folded(parts: Tensor, operation: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    result, *others = parts.unbind(0)
    for other in others:
        result = operation(result, other)
    return result


def _results(
    name: str, arguments: tuple[Any, ...], group: Sequence[int], tensors: dict[int, Tensor]
) -> dict[int, Tensor]:
    """The result of each rank of a group; sums are made in the order of ranks."""
    parts = [tensors[rank] for rank in group]
    if name == "all_gather_into_tensor":
        return dict.fromkeys(group, torch.cat(parts))
    if name == "all_to_all_single":
        split = [part.chunk(len(group)) for part in parts]
        return {
            rank: torch.cat([chunks[index] for chunks in split]) for index, rank in enumerate(group)
        }
    reduced = _REDUCTIONS[str(arguments[0])](torch.stack(parts))
    if name == "all_reduce":
        return dict.fromkeys(group, reduced)
    return dict(zip(group, reduced.chunk(len(group)), strict=True))


@cache
def communicator(world: int) -> Communicator:
    """The communicator of programs of `world` ranks in this process."""
    return Communicator(world)
