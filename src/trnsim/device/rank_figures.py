"""The figures of one rank, which it writes at its end for the report of its world."""

from __future__ import annotations

import atexit
import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.device.call_log import (
    RANK_FIGURES_VARIABLE,
    CallSpan,
    Recording,
    StepPhase,
    whole_program,
)
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.device_core import target
from trnsim.device.exposed import moments
from trnsim.device.last_step import step_span
from trnsim.device.step_time import step_time
from trnsim.device.steps import steps
from trnsim.document.values import json_line
from trnsim.errors import EmulatorError
from trnsim.files import write

__all__ = ["RANK_FIGURES_VARIABLE", "figures", "write_at_end"]

_RANK_VARIABLE: Final = "RANK"


def write_at_end() -> None:
    """Write this process's figures at its end, where TRNSIM_RANK_FIGURES names a folder."""
    folder = os.environ.get(RANK_FIGURES_VARIABLE)
    if folder and os.environ.get(_RANK_VARIABLE, "").isdecimal():
        listeners = [LastSteps(recording) for recording in whole_program]
        steps.listeners.extend(listeners)
        atexit.register(_write, Path(folder), os.getpid(), listeners)


class LastSteps:
    """A listener that keeps the calls of the last two steps; the last complete one is reported.

    Attributes:
        waits: numbers of the calls before the last two waits for the device; none once an
            optimizer has stepped.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.waits: list[int] = []
        self._step_starts: deque[int] = deque(maxlen=3)

    def __call__(self) -> None:
        """Begin another step, and drop the calls before the last two."""
        number = self.recording.next_number
        if steps.are_of_optimizers:
            self.waits = []
        elif number in self.waits:
            return
        else:
            self.waits = [*self.waits[-1:], number]
        self._step_starts.append(number)
        if len(self._step_starts) == self._step_starts.maxlen:
            self.recording.forget(self._step_starts[0])


def _write(folder: Path, pid: int, listeners: Sequence[LastSteps]) -> None:
    if os.getpid() != pid or not listeners:  # a fork of the rank is no rank
        return
    rank = int(os.environ[_RANK_VARIABLE])
    content = figures(listeners[0].recording, rank, target().name, listeners[0].waits)
    try:
        write(folder / f"rank-{rank}.json", json_line(content), parents=True)
    except EmulatorError as error:
        sys.stderr.write(f"trnsim: the figures of rank {rank} are missing: {error.reason}\n")


def _cut_at_update(span: CallSpan, updates: Sequence[int]) -> CallSpan:
    """A call's span that ends no later than the next step of the optimizer.

    That step waits for all gradients, and so for every call before it.
    """
    ends = [end for end in (span.awaited, *updates) if end is not None and end >= span.begun]
    return CallSpan(span.begun, min(ends, default=None))


def _span(recording: Recording, waits: Sequence[int]) -> tuple[int, int]:
    """The range of events of the last step, which an optimizer or a wait for the device ends."""
    first, last = step_span(recording.events)
    ends = [number - recording.forgotten for number in waits]
    if any(event.phase is StepPhase.optimizer for event in recording.events) or not any(ends):
        return first, last
    previous_end = ends[-2] if len(ends) > 1 else 0
    return max(previous_end, 0), ends[-1]


def figures(
    recording: Recording, rank: int, chip: str, waits: Sequence[int] = ()
) -> dict[str, Any]:
    """A rank's last step and its collectives, as written to a report's file.

    A recording of collectives without calls on the device counts as one step.

    Args:
        recording: calls of the rank.
        rank: number of the rank.
        chip: the chip that calls are timed on.
        waits: numbers of the calls before its last two waits for the device.
    """
    events, forgotten = recording.events, recording.forgotten
    window = slice(*_span(recording, waits))
    first, last = forgotten + window.start, forgotten + window.stop
    updates = [
        number
        for number, event in enumerate(events[window], first)
        if event.phase is StepPhase.optimizer
    ]
    step = step_time(events[window], chip)
    times_s = [step.times[event.call].device_time_s for event in step.events]
    spans = {
        number: _cut_at_update(span, updates)
        for number, span in enumerate(recording.spans)
        if first <= span.begun < last or (first == 0 and last == len(events))
    }
    return {
        "rank": rank,
        "target": chip,
        "steps": steps.number,
        "device_time_s": step.device_time_s,
        "launch_s": step.launch_s,
        "calls": len(step.events),
        "missing": dict(step.missing),
        **_collectives(recording.collectives, spans),
        "step": [list(moment) for moment in moments(times_s, spans, first)],
    }


def _collectives(calls: Sequence[CollectiveCall], numbers: Iterable[int]) -> dict[str, Any]:
    """Bytes of each collective by kind, group and floor, in order, and the places of `numbers`.

    Ranks of a group match collectives by order, since bytes may differ in all-to-all exchanges.
    """
    by_group: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    places = []
    for call in calls:
        key = call.kind, call.ranks, call.floor.name
        sizes = by_group.setdefault(key, [])
        places.append((*key, len(sizes)))
        sizes.append(call.nbytes)
    return {
        "collectives": [
            {"kind": kind, "ranks": ranks, "floor": floor, "nbytes": sizes}
            for (kind, ranks, floor), sizes in by_group.items()
        ],
        "exchanges": {number: list(places[number]) for number in numbers},
    }
