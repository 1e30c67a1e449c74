"""A timeline as arrays: columns of its spans, steps of its critical path, memory in use.

Times are seconds from the first instruction, without the launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trnsim.isa import Engine
from trnsim.memory import Memory
from trnsim.program import StorageUse

if TYPE_CHECKING:
    from trnsim.timing.timeline import Timeline

Seconds = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """All spans of a timeline in issue order, one array per property.

    Attributes:
        start_s: the time when each instruction started.
        busy_until_s: the time when its engine was free again.
        end_s: the time when its result could be read.
        issued_s: the time when the queue of a transfer had issued it; 0 for other instructions.
        waited_for: the last instruction that it waited for, or -1.
        which: the number of its distinct instruction in `program.checked`.
        line_of: the number of its source line in `program.lines`, or -1.
    """

    start_s: Seconds
    busy_until_s: Seconds
    end_s: Seconds
    issued_s: Seconds
    waited_for: Integers
    which: Integers
    line_of: Integers


def columns(timeline: Timeline) -> Columns:
    """The timeline's spans as arrays (copies)."""
    schedule, program = timeline._schedule, timeline.program  # noqa: SLF001  same room
    return Columns(
        np.array(schedule.start_s, np.float64),
        np.array(schedule.busy_until_s, np.float64),
        np.array(schedule.end_s, np.float64),
        np.array(schedule.issued_s, np.float64),
        np.array(schedule.waited_for, np.int64),
        np.array(program.which, np.int64),
        np.array(program.line_of, np.int64),
    )


@dataclass(frozen=True, slots=True)
class CriticalSteps:
    """The critical path: `busy_s + waiting_s`, summed over its steps, is the device time.

    Attributes:
        index: the instructions on it, first to last.
        busy_s: for each step, the time in which the instruction occupied its engine, or its queue
            if the next instruction waited for the queue.
        waiting_s: the rest of the step: latency and semaphore until the next instruction starts.
        is_issue: for each step, true if the next instruction waited for the queue.
    """

    index: Integers
    busy_s: Seconds
    waiting_s: Seconds
    is_issue: npt.NDArray[np.bool_]


def critical_steps(timeline: Timeline) -> CriticalSteps:
    """The critical path, each step from an instruction's start to the start of the next."""
    spans = columns(timeline)
    index = np.array(timeline.critical_path(), np.int64)
    if not len(index):
        return CriticalSteps(index, np.zeros(0), np.zeros(0), np.zeros(0, np.bool_))
    begin_s = spans.start_s[index]
    step_s = np.diff(begin_s, append=spans.end_s[index[-1]])
    busy_s = np.minimum(spans.busy_until_s[index] - spans.start_s[index], step_s)
    is_issue = np.append(begin_s[1:] == spans.issued_s[index[:-1]], False)
    busy_s = np.where(is_issue, step_s, busy_s)
    return CriticalSteps(index, busy_s, step_s - busy_s, is_issue)


@dataclass(frozen=True, slots=True)
class TensorLifetimes:
    """The lifetimes of a memory's tensors without fixed address, an entry per tensor.

    Attributes:
        uses: the tensors.
        begin_s: the time when the first access to each tensor starts.
        end_s: the time when its bytes are free: all transfers that access it have ended, and the
            compute engines have released it.
    """

    uses: list[StorageUse]
    begin_s: Seconds
    end_s: Seconds


def tensor_lifetimes(timeline: Timeline, memory: Memory) -> TensorLifetimes:
    """The lifetime of each tensor of `memory`."""
    program, spans = timeline.program, columns(timeline)
    is_transfer = np.array([checked.engine is Engine.dma for checked in program.checked], np.bool_)
    free_s = np.where(is_transfer[spans.which], spans.end_s, spans.busy_until_s)
    places = {serial: n for n, serial in enumerate(program.uses)}
    uses = list(program.uses.values())
    begin_s = spans.start_s[[max(use.first_write, 0) for use in uses]] if uses else np.zeros(0)
    end_s = free_s[[use.last_use for use in uses]] if uses else np.zeros(0)
    serials, index = program.touches.columns()
    tensor = np.array([places[serial] for serial in serials.tolist()], np.int64)
    np.minimum.at(begin_s, tensor, spans.start_s[index])
    np.maximum.at(end_s, tensor, free_s[index])
    indices = [n for n, use in enumerate(uses) if use.memory is memory]
    return TensorLifetimes([uses[n] for n in indices], begin_s[indices], end_s[indices])


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Bytes per partition in use over time: `level_bytes[i]` from `time_s[i]` on."""

    time_s: Seconds
    level_bytes: Integers

    @property
    def peak_bytes(self) -> int:
        """The most bytes of a partition in use at once."""
        return int(self.level_bytes.max(initial=0))


def occupancy(timeline: Timeline, memory: Memory) -> Occupancy:
    """Bytes per partition in use in `memory` over time.

    Tensors at addresses fixed by the kernel are not counted.
    """
    tensor_lives = tensor_lifetimes(timeline, memory)
    row_bytes = np.array([use.row_bytes for use in tensor_lives.uses], np.int64)
    time_s = np.concatenate([tensor_lives.begin_s, tensor_lives.end_s])
    change = np.concatenate([row_bytes, -row_bytes])
    # At equal times, ends come before starts.
    order = np.lexsort((change, time_s))
    time_s, level = time_s[order], np.cumsum(change[order])
    is_last = np.append(time_s[1:] != time_s[:-1], True) if len(time_s) else np.zeros(0, np.bool_)
    return Occupancy(time_s[is_last], level[is_last])
