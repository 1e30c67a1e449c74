"""The time in which each engine works, without the other figures of a run."""

from __future__ import annotations

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.measures.intervals import union
from trnsim.timing import Timeline
from trnsim.timing.occupancy import columns


def busy_s(timeline: Timeline) -> dict[str, float]:
    """Seconds in which at least one instruction occupies an engine, by the engine's name.

    Engines that do nothing are left out. All DMA engines count as one.
    """
    spans = columns(timeline)
    engines = np.array([checked.engine.value for checked in timeline.program.checked], np.int64)
    engine_of = engines[spans.which]
    seconds: dict[str, float] = {}
    for value in np.unique(engine_of).tolist():
        chosen = engine_of == value
        time_s = union(spans.start_s[chosen], spans.busy_until_s[chosen]).total_s
        if time_s:
            seconds[Engine(value).name] = time_s
    return seconds
