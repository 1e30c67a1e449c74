"""Device time of a recording: the timelines of its kernels, by operator, module and phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from trnsim.errors import EmulatorError
from trnsim.lower import (
    Cost,
    costs,
)
from trnsim.torch.aten.calls import graph_of
from trnsim.torch.compile.compiled_graph import CompiledGraph
from trnsim.torch.dispatch.nki_calls import KernelCall
from trnsim.torch.recording import Event, Recorded, Recording


@dataclass(frozen=True, slots=True)
class CallTime:
    """What a call takes on a chip.

    Attributes:
        kernels: its kernels; none for a call without work, such as a copy of nothing.
        is_one_launch: whether the kernels are one compiled graph, started once.
        missing: why it has no time, or not all of it, or "".
    """

    kernels: tuple[Cost, ...]
    missing: str = ""
    is_one_launch: bool = False

    @property
    def device_time_s(self) -> float:
        """The kernels' time, one after the other, without launches."""
        return sum(kernel.device_time_s for kernel in self.kernels)

    @property
    def launches_s(self) -> list[float]:
        """The fixed cost of starting each kernel; of a compiled graph, the first one alone."""
        return [
            0.0 if place and self.is_one_launch else kernel.launch_s
            for place, kernel in enumerate(self.kernels)
        ]

    @property
    def launch_s(self) -> float:
        """The fixed cost of starting the kernels."""
        return sum(self.launches_s)

    @property
    def flop(self) -> float:
        """Multiplications and additions of matrix products."""
        return sum(kernel.flop for kernel in self.kernels)


def time_of(call: Recorded, target: str) -> CallTime:
    """The time of one call on a chip, or why it has none."""
    try:
        if isinstance(call, KernelCall):
            return CallTime((call.outline(target).cost,))
        if isinstance(call, CompiledGraph):
            return CallTime(costs(call.graph, target), "; ".join(call.missing), is_one_launch=True)
        return CallTime(costs(graph_of(call), target))
    except EmulatorError as error:
        return CallTime((), error.reason)


@dataclass(frozen=True)
class StepTime:
    """A recording on one chip.

    Attributes:
        target: the chip.
        times: the time of each distinct call.
        events: the calls, in order.
    """

    target: str
    times: dict[Recorded, CallTime]
    events: tuple[Event, ...]

    @property
    def device_time_s(self) -> float:
        """All kernels one after the other, as eager calls run."""
        return sum(self.times[event.call].device_time_s for event in self.events)

    @property
    def launch_s(self) -> float:
        """The launches, apart: eager calls overlap with them where the host is ahead."""
        return sum(self.times[event.call].launch_s for event in self.events)

    @property
    def flop(self) -> float:
        """Multiplications and additions of matrix products."""
        return sum(self.times[event.call].flop for event in self.events)

    @property
    def missing(self) -> Counter[str]:
        """Calls without a time, by reason; the total is short by what they take."""
        return Counter(
            self.times[event.call].missing
            for event in self.events
            if self.times[event.call].missing
        )

    def by(self, key: str) -> list[tuple[str, int, float]]:
        """Calls and device time by "operation", "module" or "phase", the longest first."""
        number: Counter[str] = Counter()
        time_s: dict[str, float] = {}
        for event in self.events:
            name = _name(event, key)
            number[name] += 1
            time_s[name] = time_s.get(name, 0.0) + self.times[event.call].device_time_s
        return sorted(
            ((name, number[name], taken) for name, taken in time_s.items()),
            key=lambda row: -row[2],
        )


def _name(event: Event, key: str) -> str:
    if key == "operation":
        return event.call.name.removeprefix("aten::")
    return event.module or "(no module)" if key == "module" else event.phase.value


def step_time(recording: Recording | Iterable[Event], target: str) -> StepTime:
    """The time of everything recorded, on `target`."""
    events = tuple(recording.events if isinstance(recording, Recording) else recording)
    distinct = dict.fromkeys(event.call for event in events)
    return StepTime(target, {call: time_of(call, target) for call in distinct}, events)
