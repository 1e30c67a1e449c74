"""Device time of recorded calls, such as those of a step, by operator, module, line and phase."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim import arch
from trnsim.device.call_log import CallEvent, Recording
from trnsim.device.call_time import CallTime, DeviceCall, time_of

if TYPE_CHECKING:
    from trnsim.estimate.estimate import Estimate

_NO_MODULE: Final = "(no module)"
_NO_LINE: Final = "(no line)"
_NUMBER: Final = re.compile(r"(?<![^.])\d+(?![^.])")
"""Pattern of a number between dots."""
MAX_TABLE_ROWS: Final = 16
"""Maximum number of rows of a table of a step."""


@dataclass(frozen=True)
class StepTime:
    """The time of some calls, such as those of a step, on a chip.

    Attributes:
        events: the calls, in order.
    """

    target: str
    times: dict[DeviceCall, CallTime]
    events: tuple[CallEvent, ...]

    @property
    def device_time_s(self) -> float:
        """The time of all kernels, which eager calls run one after another."""
        return sum(self.times[event.call].device_time_s for event in self.events)

    @property
    def estimate(self) -> Estimate:
        """The device time with P10 and P90, by phase."""
        from trnsim.estimate.program import estimate_program  # noqa: PLC0415  few callers need it

        parts = {name: time_s for name, _, time_s in self.by("phase")}
        return estimate_program(arch.target(self.target), parts)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of `by`: lines only if the framework records them."""
        has_lines = any(line for time in self.times.values() for line, _ in time.lines)
        return ("phase", "module", "operation", *(["line"] if has_lines else []))

    @property
    def launch_s(self) -> float:
        """The time of all launches, which is hidden while the host is ahead."""
        return sum(self.times[event.call].launch_s for event in self.events)

    @property
    def flop(self) -> float:
        """Multiplications and additions of matrix products."""
        return sum(self.times[event.call].flop for event in self.events)

    @property
    def missing(self) -> Counter[str]:
        """The number of calls without a time, by reason; the total leaves them out."""
        return Counter(
            self.times[event.call].missing_reason
            for event in self.events
            if self.times[event.call].missing_reason
        )

    def by(self, key: str) -> list[tuple[str, int, float]]:
        """Calls and device time by "operation", "module", "line" or "phase", the longest first.

        A call of a compiled graph counts for each of the graph's modules and lines. Modules that
        differ in numbers alone, such as trips of a loop, are merged, with a star for the number,
        where they are more than a table shows.
        """
        rows = [
            (name, spent_s)
            for event in self.events
            for name, spent_s in _parts(event, self.times[event.call], key)
        ]
        common_names = _common_names({name for name, _ in rows}) if key == "module" else {}
        calls: Counter[str] = Counter()
        time_s: dict[str, float] = {}
        for full_name, spent_s in rows:
            name = common_names.get(full_name, full_name)
            calls[name] += 1
            time_s[name] = time_s.get(name, 0.0) + spent_s
        merged = [(name, calls[name], spent_s) for name, spent_s in time_s.items()]
        return sorted(merged, key=lambda row: -row[2])


def _common_names(names: Collection[str]) -> dict[str, str]:
    """The common name of names that differ in numbers alone, if these fill more than a table."""
    stars = {name: _NUMBER.sub("*", name) for name in names}
    counts = Counter(stars.values())
    return {name: star for name, star in stars.items() if counts[star] > MAX_TABLE_ROWS}


def _parts(event: CallEvent, time: CallTime, key: str) -> list[tuple[str, float]]:
    """The names under which a call counts, and the seconds of each."""
    if key == "module" and any(module for module, _ in time.modules):
        return [
            (".".join(filter(None, (event.module, module))) or _NO_MODULE, spent_s)
            for module, spent_s in time.modules
        ]
    if key == "line":
        return [(line or _NO_LINE, spent_s) for line, spent_s in time.lines]
    name = {
        "operation": event.call.name.removeprefix("aten::"),
        "module": event.module or _NO_MODULE,
        "phase": event.phase.value,
    }[key]
    return [(name, time.device_time_s)]


def step_time(recording: Recording | Iterable[CallEvent], target: str) -> StepTime:
    """The time of all recorded calls on `target`."""
    events = tuple(recording.events if isinstance(recording, Recording) else recording)
    distinct = dict.fromkeys(event.call for event in events)
    return StepTime(target, {call: time_of(call, target) for call in distinct}, events)
