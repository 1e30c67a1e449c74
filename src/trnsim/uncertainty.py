"""Intervals: P10, P50 and P90 of a closed form whose inputs are facts.

Each fact is drawn from a lognormal whose median is its value and whose relative deviation is the
`spread` of its provenance. The draws of a fact depend on its name and seed alone, so two
estimates that share a fact share its draws, and their difference contains no noise from it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trnsim.facts import Evidence, Interval, Rate

Samples = NDArray[np.float64]

SAMPLES: Final = 4000
SEED: Final = 0


@dataclass(frozen=True)
class Basis:
    """The facts that an estimate rests on: their number by kind of evidence, and the assumed ones.

    Attributes:
        counts: inputs by kind of provenance.
        assumed: each assumed input, with its value and the reason for it.
    """

    counts: Mapping[Evidence, int]
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        counts_text = ", ".join(f"{self.counts.get(kind, 0)} {kind.value}" for kind in Evidence)
        return f"inputs: {counts_text}"


class FactDraws:
    """Draws of named facts for a formula, and a record of the facts that it has used."""

    def __init__(self, facts: Mapping[str, Rate], *, seed: int = SEED) -> None:
        self._facts = facts
        self._seed = seed
        self._used_facts: dict[str, Rate] = {}

    def use(self, name: str) -> Rate:
        """The fact called `name`, which is noted as used."""
        fact = self._facts[name]
        self._used_facts[name] = fact
        return fact

    def draw(self, name: str) -> Samples:
        """`SAMPLES` draws of the fact."""
        fact = self.use(name)
        sigma = np.sqrt(np.log1p(fact.provenance.spread**2))
        generator = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        samples: Samples = float(fact) * np.exp(sigma * generator.standard_normal(SAMPLES))
        return samples

    def basis(self) -> Basis:
        """The basis of the facts used so far."""
        kinds = Counter(fact.provenance.kind for fact in self._used_facts.values())
        assumed = tuple(
            f"{name} = {fact:.4g}: {fact.provenance.source}"
            for name, fact in self._used_facts.items()
            if fact.provenance.kind is Evidence.ASSUMED
        )
        return Basis(dict(kinds), assumed)


def interval(samples: Samples) -> Interval:
    """P10, P50 and P90 of `samples`."""
    p10, p50, p90 = np.percentile(samples, [10, 50, 90])
    return Interval(float(p10), float(p50), float(p90))
