"""The two floors of a collective: an exchange of a running program, or a program of its own.

Inside a running program a collective takes the time of its transfers, their latencies included.
As a program of its own (nccom-test, an eager rank) it takes at least as long as the host needs to
start it. The host starts the next one while one runs, so the longer of the two counts:

    time = max(host's start, time inside a program)
    host's start = base + max(way, turns)
    way = steps inside instances x step + crossings x EFA's latency
    turns = passes x chunks that cross in turn x EFA's latency

Steps are those of a ring of all ranks, whatever the algorithm: two passes of ``ranks - 1`` in an
all-reduce, one in other collectives. Over several instances a message of more than one chunk waits
for EFA at each step of the ring; a small one goes around once. Why the start grows with steps is
not published: the form is the one of three (steps, ranks, their logarithm) that tables left out
agree with best. Starts of more than 64 ranks are extrapolated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from trnsim.fabric.constants import (
    EFA_HOP_S,
    HOST_STEP_S,
    LATENCIES,
    LEAST_CHUNK_BYTES,
    bandwidths,
    host_base_s,
)
from trnsim.facts import Interval, Rate
from trnsim.uncertainty import SEED, FactDraws, Samples, interval

MOST_PUBLISHED_RANKS: Final = 64
"""The most ranks of a published start."""
_PASSES: Final = {"all_reduce": 2, "barrier": 2}
_SINGLE_STEPS: Final = ("permute", "send")


class Floor(Enum):
    """The least time of a collective, by how it starts."""

    PROGRAM = "inside a program"
    HOST = "started by the host"


_HIDDEN: Final = f"{Floor.HOST.value} (hidden)"


def host_start_s(chip: str, kind: str, nbytes: float, ranks: int, nodes: int) -> Rate:
    """Seconds of the host's start of a collective; 0 for a single rank.

    Args:
        chip: the chip, a name of the catalogue.
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message.
        ranks: ranks of the group.
        nodes: instances that they are on.
    """
    base = host_base_s(chip, nodes)
    if ranks == 1:
        return Rate(0.0, base.provenance)
    steps, crossings_s = ring_way(kind, ranks, nodes)
    way_s = steps * HOST_STEP_S + crossings_s
    turns_s = 0.0
    if nodes > 1:
        passes = _PASSES.get(kind, 1)
        chunks = min(_steps(kind, ranks), passes * nbytes / LEAST_CHUNK_BYTES)
        turns_s = chunks * EFA_HOP_S
    return Rate(base + max(way_s, turns_s), base.provenance)


def ring_way(kind: str, ranks: int, nodes: int) -> tuple[int, float]:
    """Steps inside instances, and seconds between them, of a ring of ranks on `nodes` instances."""
    steps = _steps(kind, ranks)
    crossings = min(steps, _PASSES.get(kind, 1) * nodes) if nodes > 1 else 0
    return steps - crossings, crossings * EFA_HOP_S


def _steps(kind: str, ranks: int) -> int:
    return 1 if kind in _SINGLE_STEPS else _PASSES.get(kind, 1) * (ranks - 1)


@dataclass(frozen=True)
class FloorTimes:
    """A collective's time by floor, with intervals.

    Attributes:
        latencies_s: seconds of its latencies inside a program.
        bytes_s: seconds of its bytes.
        start_s: seconds of the host's start, with its spread.
        bandwidths: 1, with the spread of the time of its bytes.
    """

    latencies_s: float
    bytes_s: float
    start_s: Rate
    bandwidths: Rate

    def time_s(self, floor: Floor) -> float:
        """Seconds."""
        inside_s = self.latencies_s + self.bytes_s
        return inside_s if floor is Floor.PROGRAM else max(float(self.start_s), inside_s)

    def paid(self, floor: Floor) -> str:
        """The floor in words; of the host's start, whether it or the transfers decide."""
        is_hidden = self.start_s < self.latencies_s + self.bytes_s
        return _HIDDEN if floor is Floor.HOST and is_hidden else str(floor.value)

    def samples(self, floor: Floor, seed: int = SEED) -> Samples:
        """Draws of the time, for the errors that published collectives show."""
        facts = {"latencies": LATENCIES, "bandwidths": self.bandwidths, "start": self.start_s}
        inputs = FactDraws(facts, seed=seed)
        inside_s = self.latencies_s * inputs.draw("latencies") + self.bytes_s * inputs.draw(
            "bandwidths"
        )
        if floor is Floor.PROGRAM:
            return inside_s
        outlasting: Samples = np.maximum(inside_s, inputs.draw("start"))
        return outlasting

    def interval(self, floor: Floor, seed: int = SEED) -> Interval:
        """P10, P50 and P90 of the time."""
        return interval(self.samples(floor, seed))


def mixture(times: Sequence[FloorTimes], floor: Floor) -> Interval:
    """P10, P50 and P90 of a collective on an unnamed instance: any of `times`, equally likely."""
    return interval(np.concatenate([time.samples(floor, SEED) for time in times]))


def floor_times(
    chip: str,
    kind: str,
    nbytes: float,
    groups: Iterable[tuple[int, int]],
    latencies_s: float,
    bytes_s: float,
) -> FloorTimes:
    """The times of a collective, whose slowest start is that of one of `groups`.

    Args:
        chip: the chip, a name of the catalogue.
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message.
        groups: ranks of a group, and instances that they are on.
        latencies_s: seconds of its latencies inside a program.
        bytes_s: seconds of its bytes.
    """
    starts = [host_start_s(chip, kind, nbytes, ranks, nodes) for ranks, nodes in groups]
    return FloorTimes(latencies_s, bytes_s, max(starts), bandwidths(chip))
