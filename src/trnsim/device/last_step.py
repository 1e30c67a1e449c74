"""The calls of a program's last step, and their core.

Steps end with an optimizer that the framework names. Without one, a step is a run of the program
that is repeated, with the calls since its previous run. Cores work side by side, so a step's calls
are the calls of the slowest core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from trnsim.device.call_log import CallEvent, Recording, StepPhase
from trnsim.device.call_time import CallTime, DeviceCall
from trnsim.device.step_time import step_time

_OPERATOR_SEPARATOR = "::"
"""Part of names of operators and kernels ("aten::add.Tensor"), but not of programs."""
_FEWEST_RUNS = 2
"""Minimum number of runs of a program that counts as repeated."""


@dataclass(frozen=True)
class LastStep:
    """The last step of a program on its slowest core.

    Attributes:
        cores: number of cores that have calls in this step.
        program: name of the repeated program; "" where an optimizer or nothing ends the steps.
        runs: number of runs of the program on that core.
    """

    events: tuple[CallEvent, ...]
    core: int = 0
    cores: int = 1
    program: str = ""
    runs: int = 0

    @property
    def text(self) -> str:
        """The step in words; "" for a single core whose step no repeated program ends."""
        phrases = [f"run {self.runs} of {self.program}"] if self.program else []
        if self.cores > 1:
            phrases.append(f"on core {self.core}, the slowest of {self.cores}")
        return ", ".join(phrases)


def last_step(recording: Recording, target: str) -> LastStep:
    """The last complete step, of the core that is slowest on a chip; all calls without one."""
    events = recording.events
    times = step_time(events, target).times
    spans = {0: step_span(events)}
    program, runs = "", 0
    if not any(event.phase is StepPhase.optimizer for event in events):
        repeated_program = _repeated_program(events, times)
        if repeated_program is not None:
            program = repeated_program.name
            spans = _last_run_spans(repeated_program, events)
    steps: dict[int, list[CallEvent]] = {}
    time_s: dict[int, float] = {}
    for core in sorted({event.core for event in events}):
        first, end = spans.get(core, spans.get(0, (0, 0)))
        step = [event for event in events[first:end] if event.core == core]
        if step:
            steps[core] = step
            time_s[core] = sum(times[event.call].device_time_s for event in step)
    if not steps:
        return LastStep(())
    slowest = max(steps, key=lambda core: time_s[core])
    if program:
        runs = sum(event.call.name == program and event.core == slowest for event in events)
    return LastStep(tuple(steps[slowest]), slowest, len(steps), program, runs)


def step_span(events: Sequence[CallEvent]) -> tuple[int, int]:
    """The range of calls [first, end) of the last step that an optimizer ends.

    All calls where no optimizer is named.
    """
    runs = [
        len(list(run))
        for _, run in groupby(events, lambda event: event.phase is StepPhase.optimizer)
    ]
    if runs and events[-1].phase is not StepPhase.optimizer:
        runs.pop()
    if not runs:
        return 0, len(events)
    return sum(runs[:-2]), sum(runs)


def _repeated_program(
    events: Sequence[CallEvent], times: Mapping[DeviceCall, CallTime]
) -> DeviceCall | None:
    """The program that is repeated on a core and takes longest in total; None if there is none.

    Preparations may be repeated too: then a program that runs once comes after them and takes
    longer, and None is returned.
    """
    runs = Counter(
        (event.core, event.call) for event in events if _OPERATOR_SEPARATOR not in event.call.name
    )
    total_s = {
        call: number * times[call].device_time_s
        for (_, call), number in runs.items()
        if number >= _FEWEST_RUNS
    }
    longest = max(total_s, key=lambda call: total_s[call], default=None)
    if longest is None:
        return None
    first_run = next(number for number, event in enumerate(events) if event.call == longest)
    single_s = [
        times[event.call].device_time_s for event in events[first_run:] if event.call not in total_s
    ]
    return longest if total_s[longest] >= max(single_s, default=0.0) else None


def _last_run_spans(program: DeviceCall, events: Sequence[CallEvent]) -> dict[int, tuple[int, int]]:
    """By core, the calls from the end of a program's second last run to the end of its last."""
    ends: dict[int, list[int]] = {}
    for number, event in enumerate(events):
        if event.call.name == program.name:
            ends.setdefault(event.core, []).append(number + 1)
    return {
        core: (core_ends[-2], core_ends[-1])
        for core, core_ends in ends.items()
        if len(core_ends) >= _FEWEST_RUNS
    }
