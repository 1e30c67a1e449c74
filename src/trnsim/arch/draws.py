"""Rates drawn from the spread of their facts, and several cores as one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from trnsim.arch.neuroncore import NeuronCore
from trnsim.facts import Rate


def sampled(core: NeuronCore, draw: int) -> NeuronCore:
    """The same core with every varying rate drawn from a lognormal around its value.

    A fact's factor depends only on its name and on `draw`: adding a fact changes no other.
    """
    rates: dict[str, Any] = {
        name: Rate(rate * _factor(draw, name, rate.provenance.spread), rate.provenance)
        for name, rate in core.varying().items()
    }
    return replace(core, **rates)


def together(cores: Sequence[NeuronCore]) -> NeuronCore:
    """Cores that differ in rates alone as one core, whose rates are arrays."""
    names = [name for name, fact in cores[0].facts().items() if isinstance(fact, Rate)]
    arrays: dict[str, Any] = {n: np.array([getattr(c, n) for c in cores]) for n in names}
    return replace(cores[0], **arrays)


@cache
def _factor(draw: int, name: str, spread: float) -> float:
    rng = np.random.default_rng([draw, zlib.crc32(name.encode())])
    return float(rng.lognormal(0.0, spread))
