"""The engine of each instruction, and the time in which each engine works."""

from __future__ import annotations

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.measures.intervals import union
from trnsim.program import Program
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Integers, columns


def engines_of(program: Program) -> Integers:
    """The value of each instruction's engine, in issue order."""
    engines = np.array([checked.engine.value for checked in program.checked], np.int64)
    return np.asarray(engines[np.array(program.which, np.int64)])


def busy_s(timeline: Timeline) -> dict[str, float]:
    """Seconds in which at least one instruction occupies an engine, by the engine's name.

    Engines that do nothing are left out. All DMA engines together are one engine.
    """
    spans, engine_of = columns(timeline), engines_of(timeline.program)
    seconds: dict[str, float] = {}
    for value in np.unique(engine_of).tolist():
        is_engine = engine_of == value
        time_s = union(spans.start_s[is_engine], spans.busy_until_s[is_engine]).total_s
        if time_s:
            seconds[Engine(value).name] = time_s
    return seconds
