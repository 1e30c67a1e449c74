"""Heartbeats of ranks, and messages about ranks that keep others waiting.

A supervisor reports the state of its rank's process once a second. A rank that is stopped, absent
or silent is named and never ended, as a user may hold it in a debugger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

STOPPED_S: Final = 3.0
"""Seconds for which a rank is stopped before it is named."""
AWAITED_S: Final = 30.0
"""Seconds for which others wait for a rank before it is named."""
SILENT_S: Final = 15.0
"""Seconds for which a supervisor is silent before its rank is named; it reports once a second."""
AGAIN_S: Final = 60.0
"""Seconds before a message is repeated."""
_IDLE_SHARE: Final = 0.05
"""Share of a processor's time below which a rank does not compute."""
_STOPPED_STATES: Final = ("T", "t")
"""States of a process that is stopped by a signal or by a debugger (proc(5))."""


@dataclass(frozen=True)
class Beat:
    """State of a rank's process at a time.

    Attributes:
        at_s: time on the launcher's clock.
        pid: process id.
        state: state as a letter of ps and proc(5); "" if it is not known.
        cpu_s: processor time used so far.
        step: number of its step; 0 if it reports none.
        is_waiting: True if it waits for other ranks.
    """

    at_s: float
    pid: int
    state: str
    cpu_s: float
    step: int
    is_waiting: bool


@dataclass
class _Pulse:
    """Last beat of a rank, and the beginning of its present state.

    Attributes:
        place: the rank in messages.
        stopped_s: time since which its process is stopped; None if it is not.
        awaited_beat: its beat when others began to wait for it; None if none waits.
        message_s: time of the last message about it.
        is_stop_reported: True if a message says that it is stopped.
    """

    place: str
    beat: Beat
    stopped_s: float | None = None
    awaited_beat: Beat | None = None
    message_s: float | None = None
    is_stop_reported: bool = False


class Heartbeats:
    """Heartbeats of all ranks, and messages about ranks that keep others waiting."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._pulses: dict[int, _Pulse] = {}

    def hear(self, rank: int, place: str, beat: Beat) -> None:
        """Record a beat of a rank, which is called `place` in messages."""
        pulse = self._pulses.setdefault(rank, _Pulse(place, beat))
        pulse.beat = beat
        if beat.state in _STOPPED_STATES:
            pulse.stopped_s = beat.at_s if pulse.stopped_s is None else pulse.stopped_s
        elif pulse.stopped_s is not None:
            if pulse.is_stop_reported:
                self._say(f"{place} goes on")
            pulse.stopped_s, pulse.message_s, pulse.is_stop_reported = None, None, False
            pulse.awaited_beat = None

    def forget(self, rank: int) -> None:
        """Drop a rank that has ended."""
        self._pulses.pop(rank, None)

    def look(self, now_s: float) -> None:
        """Name each rank that keeps others waiting, at most once a minute."""
        waiting_count = sum(pulse.beat.is_waiting for pulse in self._pulses.values())
        for pulse in self._pulses.values():
            is_absent = waiting_count > 0 and not pulse.beat.is_waiting
            if not is_absent:
                pulse.awaited_beat = None
            elif pulse.awaited_beat is None or pulse.awaited_beat.step != pulse.beat.step:
                pulse.awaited_beat = pulse.beat
            message = self._message(pulse, waiting_count, now_s)
            if message and (pulse.message_s is None or now_s - pulse.message_s >= AGAIN_S):
                pulse.message_s = now_s
                self._say(message)

    def _message(self, pulse: _Pulse, waiting_count: int, now_s: float) -> str:
        """Message about a rank, or ""."""
        beat = pulse.beat
        location = f"{pulse.place} at step {beat.step}" if beat.step else pulse.place
        if pulse.stopped_s is not None and now_s - pulse.stopped_s >= STOPPED_S:
            pulse.is_stop_reported = True
            reason = "by a debugger" if beat.state == "t" else "by a signal"
            return (
                f"{location} has been stopped {reason} for {now_s - pulse.stopped_s:.0f} s; "
                f"kill -CONT {beat.pid} lets it go on"
            )
        if now_s - beat.at_s >= SILENT_S:
            return f"{location}: its supervisor has said nothing for {now_s - beat.at_s:.0f} s"
        awaited_beat = pulse.awaited_beat
        if awaited_beat is None or now_s - awaited_beat.at_s < AWAITED_S:
            return ""
        spent_s, passed_s = beat.cpu_s - awaited_beat.cpu_s, now_s - awaited_beat.at_s
        activity = f"it computes ({spent_s:.0f} s of CPU meanwhile)"
        if spent_s < _IDLE_SHARE * passed_s:
            activity = f"it takes no processor time; py-spy dump --pid {beat.pid} shows where it is"
        return f"{location} lets {waiting_count} other ranks wait for {passed_s:.0f} s: {activity}"


def beat_of(fields: Mapping[str, object], at_s: float) -> Beat:
    """The beat in a supervisor's report."""
    return Beat(
        at_s,
        int(str(fields["pid"])),
        str(fields["state"]),
        float(str(fields["cpu_s"])),
        int(str(fields["step"])),
        bool(fields["is_waiting"]),
    )
