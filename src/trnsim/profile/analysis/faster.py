"""Faster engines: the core with one engine twice as fast, and the time saved in the same order.

An engine's speed is its clock; costs of its instructions besides cycles stay. The DMA engines have
bandwidths, and issue times of their queues.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from trnsim.arch import NeuronCore
from trnsim.facts import Rate
from trnsim.isa import Engine
from trnsim.timing import Timeline

_FASTER: Final = 2.0
_RATES: Final = {
    Engine.tensor: ("tensor_clock_hz",),
    Engine.vector: ("vector_clock_hz",),
    Engine.scalar: ("scalar_clock_hz",),
    Engine.gpsimd: ("gpsimd_clock_hz",),
    Engine.dma: ("dma_bytes_per_s", "dma_short_run_bytes_per_s"),
}
_TIMES: Final = {Engine.dma: ("dma_descriptor_s", "dma_issue_s", "dma_static_issue_s")}


def faster(core: NeuronCore, engine: Engine) -> NeuronCore:
    """The core with twice the rates, and half of the times, of one engine."""
    factors = dict.fromkeys(_RATES.get(engine, ()), _FASTER)
    factors |= dict.fromkeys(_TIMES.get(engine, ()), 1 / _FASTER)
    changed: dict[str, Any] = {}
    for name, factor in factors.items():
        fact = getattr(core, name)
        changed[name] = Rate(fact * factor, fact.provenance)
    return replace(core, **changed)


def faster_gains_s(timeline: Timeline) -> dict[Engine, float]:
    """Shortening of the device time by each engine that worked, were it twice as fast."""
    engines = list(timeline.busy_s())
    cores = [faster(timeline.program.core, engine) for engine in engines]
    times_s = timeline.device_times_on_s(cores).tolist() if cores else []
    return {e: timeline.device_time_s - s for e, s in zip(engines, times_s, strict=True)}
