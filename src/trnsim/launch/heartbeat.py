"""Which rank keeps the others waiting: one that is stopped, is not there, or says nothing.

A supervisor tells once a second how its rank's process is. Nothing is ended for it: who holds a
rank in a debugger, or lets it compute for long, is told so and waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

STOPPED_S: Final = 3.0
"""How long a rank is stopped before it is named."""
AWAITED_S: Final = 30.0
"""How long others wait for a rank before it is named."""
SILENT_S: Final = 15.0
"""How long a supervisor says nothing before its rank is named; it speaks once a second."""
AGAIN_S: Final = 60.0
"""The pause before the same is said again."""
_IDLE_SHARE: Final = 0.05
"""Of a processor's time: a rank that takes less of it does not compute."""
_STOPPED: Final = ("T", "t")
"""States of a process: by a signal, and by a debugger (proc(5))."""


@dataclass(frozen=True)
class Beat:
    """How the process of a rank is.

    Attributes:
        at_s: when, on the launcher's clock.
        pid: its number.
        state: its state in a letter, as ps and proc(5) have it; "" where the system does not say.
        cpu_s: processor time that it has taken.
        step: the step that it is in; 0 where it told none.
        is_waiting: whether it waits for other ranks.
    """

    at_s: float
    pid: int
    state: str
    cpu_s: float
    step: int
    is_waiting: bool


@dataclass
class _Pulse:
    """A rank's last beat, and since when it has been as it is."""

    place: str
    beat: Beat
    stopped_s: float | None = None
    absent: Beat | None = None
    message_s: float | None = None
    is_stop_reported: bool = False


class Heartbeats:
    """The beats of all ranks, and what is said of those that keep others waiting."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._pulses: dict[int, _Pulse] = {}

    def hear(self, rank: int, place: str, beat: Beat) -> None:
        """Take note of a beat of a rank, which is named as `place`."""
        pulse = self._pulses.setdefault(rank, _Pulse(place, beat))
        pulse.beat = beat
        if beat.state in _STOPPED:
            pulse.stopped_s = beat.at_s if pulse.stopped_s is None else pulse.stopped_s
        elif pulse.stopped_s is not None:
            if pulse.is_stop_reported:
                self._say(f"{place} goes on")
            pulse.stopped_s, pulse.message_s, pulse.is_stop_reported = None, None, False
            pulse.absent = None

    def forget(self, rank: int) -> None:
        """A rank has ended."""
        self._pulses.pop(rank, None)

    def look(self, now_s: float) -> None:
        """Name each rank that keeps others waiting, at most once a minute."""
        waiting = sum(pulse.beat.is_waiting for pulse in self._pulses.values())
        for pulse in self._pulses.values():
            is_absent = waiting > 0 and not pulse.beat.is_waiting
            if not is_absent:
                pulse.absent = None
            elif pulse.absent is None or pulse.absent.step != pulse.beat.step:
                pulse.absent = pulse.beat
            message = self._message(pulse, waiting, now_s)
            if message and (pulse.message_s is None or now_s - pulse.message_s >= AGAIN_S):
                pulse.message_s = now_s
                self._say(message)

    def _message(self, pulse: _Pulse, waiting: int, now_s: float) -> str:
        """What there is to say of a rank, or ""."""
        beat, where = pulse.beat, _where(pulse)
        if pulse.stopped_s is not None and now_s - pulse.stopped_s >= STOPPED_S:
            pulse.is_stop_reported = True
            why = "by a debugger" if beat.state == "t" else "by a signal"
            return (
                f"{where} has been stopped {why} for {now_s - pulse.stopped_s:.0f} s; "
                f"kill -CONT {beat.pid} lets it go on"
            )
        if now_s - beat.at_s >= SILENT_S:
            return f"{where}: its supervisor has said nothing for {now_s - beat.at_s:.0f} s"
        absent = pulse.absent
        if absent is None or now_s - absent.at_s < AWAITED_S:
            return ""
        spent_s, passed_s = beat.cpu_s - absent.cpu_s, now_s - absent.at_s
        does = f"it computes ({spent_s:.0f} s of CPU meanwhile)"
        if spent_s < _IDLE_SHARE * passed_s:
            does = f"it takes no processor time; py-spy dump --pid {beat.pid} shows where it is"
        return f"{where} lets {waiting} other ranks wait for {passed_s:.0f} s: {does}"


def _where(pulse: _Pulse) -> str:
    step = pulse.beat.step
    return f"{pulse.place} at step {step}" if step else pulse.place


def beat_of(fields: Mapping[str, object], at_s: float) -> Beat:
    """The beat that a supervisor told."""
    return Beat(
        at_s,
        int(str(fields["pid"])),
        str(fields["state"]),
        float(str(fields["cpu_s"])),
        int(str(fields["step"])),
        bool(fields["is_waiting"]),
    )
