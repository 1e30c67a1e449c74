"""The device time with one engine twice as fast and the same order of instructions.

A faster engine has twice its clock; costs of its instructions that are not cycles stay. The faster
DMA engines have twice their bandwidths, and half of the times of a descriptor and of an issue.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from trnsim.arch import NeuronCore
from trnsim.facts import Rate
from trnsim.isa import Engine
from trnsim.timing import Timeline

_SPEEDUP: Final = 2.0
_RATE_FACTS: Final = {
    Engine.tensor: ("tensor_clock_hz",),
    Engine.vector: ("vector_clock_hz",),
    Engine.scalar: ("scalar_clock_hz",),
    Engine.gpsimd: ("gpsimd_clock_hz",),
    Engine.dma: ("dma_bytes_per_s", "dma_short_run_bytes_per_s"),
}
"""The facts of a core that are rates of an engine."""
_TIME_FACTS: Final = {Engine.dma: ("dma_descriptor_s", "dma_issue_s", "dma_static_issue_s")}
"""The facts of a core that are times of an engine."""


def with_faster_engine(core: NeuronCore, engine: Engine) -> NeuronCore:
    """The core with twice the rates, and half of the times, of one engine."""
    factors = dict.fromkeys(_RATE_FACTS.get(engine, ()), _SPEEDUP)
    factors |= dict.fromkeys(_TIME_FACTS.get(engine, ()), 1 / _SPEEDUP)
    facts: dict[str, Any] = {}
    for name, factor in factors.items():
        fact = getattr(core, name)
        facts[name] = Rate(fact * factor, fact.provenance)
    return replace(core, **facts)


def faster_gains_s(timeline: Timeline) -> dict[Engine, float]:
    """The device time that each engine that worked would save if it were twice as fast."""
    engines = list(timeline.busy_s())
    cores = [with_faster_engine(timeline.program.core, engine) for engine in engines]
    times_s = timeline.device_times_on_s(cores).tolist() if cores else []
    return {
        engine: timeline.device_time_s - time_s
        for engine, time_s in zip(engines, times_s, strict=True)
    }
