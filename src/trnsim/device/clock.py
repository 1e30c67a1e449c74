"""Device time between any two timing events, in bounded memory.

A program can ask only about events that it still references. So equal calls between two marks are
counted, marks of dead events are dropped, and a lap of many distinct calls is replaced by its time.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from trnsim.device.call_log import FindScope, Recording, recordings
from trnsim.device.call_time import DeviceCall, time_of
from trnsim.device.device_core import target

_MOST_CALLS: Final = 4096
"""Distinct calls at which a lap computes their time."""


@dataclass
class Lap:
    """The calls between two marks.

    Attributes:
        calls: the number of times that each call was made, where its time is not computed yet.
        device_time_s: the time of all calls whose time is computed.
        missing: the number of calls that turned out to have no time, by reason.
    """

    calls: Counter[DeviceCall] = field(default_factory=Counter)
    device_time_s: float = 0.0
    missing: Counter[str] = field(default_factory=Counter)

    def add(self, call: DeviceCall, number: int = 1) -> None:
        """Count a call."""
        self.calls[call] += number
        if len(self.calls) >= _MOST_CALLS:
            self.compute_times()

    def absorb(self, later: Lap) -> None:
        """Add the lap that follows this one."""
        self.device_time_s += later.device_time_s
        self.missing += later.missing
        for call, number in later.calls.items():
            self.add(call, number)

    def compute_times(self) -> None:
        """Replace the counted calls by their time in seconds."""
        for call, number in self.calls.items():
            time = time_of(call, target().name)
            self.device_time_s += number * time.device_time_s
            if time.missing_reason:
                self.missing[time.missing_reason] += number
        self.calls.clear()


class Clock(Recording):
    """The laps between the marks whose events are alive."""

    def __init__(self) -> None:
        super().__init__()
        self._laps: dict[int, Lap] = {}
        self._marks: dict[weakref.ref[object], int] = {}
        self._next_mark = 0

    @property
    def is_listening(self) -> bool:
        """True if any mark's event is alive, so that a time can be asked for."""
        return bool(self._marks)

    def note(self, call: DeviceCall, core: int, find_scope: FindScope) -> None:
        """Count a call."""
        del core, find_scope
        lap = self._laps.get(self._next_mark - 1)
        if lap is not None:
            lap.add(call)

    def mark(self, event: object) -> int:
        """The number of a new mark of `event`, which replaces its earlier mark."""
        if self not in recordings:
            recordings.append(self)
        self._marks[weakref.ref(event, self._drop_mark)] = self._next_mark
        self._laps[self._next_mark] = Lap()
        self._next_mark += 1
        self._merge_laps()
        return self._next_mark - 1

    def between(self, start: int, end: int) -> Lap:
        """The calls from one mark to another."""
        total = Lap()
        for number, lap in list(self._laps.items()):  # the end of an event may clear them meanwhile
            if start <= number < end:
                lap.compute_times()
                total.absorb(lap)
        return total

    def _drop_mark(self, event: weakref.ref[object]) -> None:
        self._marks.pop(event, None)
        if not self._marks:  # nobody can ask; no lap is kept
            self._laps.clear()

    def _merge_laps(self) -> None:
        """Merge the lap after each mark of a dead event into the lap before it, if there is one."""
        live_marks, laps = set(self._marks.values()), dict[int, Lap]()
        last_lap: Lap | None = None
        for number, lap in list(self._laps.items()):
            if number in live_marks or number == self._next_mark - 1:
                laps[number] = last_lap = lap
            elif last_lap is not None:
                last_lap.absorb(lap)
        self._laps = laps


_clocks: Final[list[Clock]] = []


def clock() -> Clock:
    """The clock that all timing events share."""
    if not _clocks:
        _clocks.append(Clock())
    return _clocks[0]
