"""Random samples of a core's rates, and many samples as one core with arrays of rates.

A time that is computed with such arrays is itself an array, with an element for each sample.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from trnsim.arch.neuroncore import NeuronCore
from trnsim.facts import Rate


def sample_core(core: NeuronCore, draw: int) -> NeuronCore:
    """The same core with every varying rate drawn from a lognormal distribution around its value.

    A rate's factor depends only on its name, its spread and `draw`, the number of the sample: a new
    rate changes no other rate's factor.
    """
    rates: dict[str, Any] = {
        name: Rate(rate * _factor(draw, name, rate.provenance.spread), rate.provenance)
        for name, rate in core.varying().items()
    }
    return replace(core, **rates)


def stack_cores(cores: Sequence[NeuronCore]) -> NeuronCore:
    """One core whose rates are arrays: element `i` is the rate of ``cores[i]``.

    The cores may differ in nothing but their rates, as samples of one core do.
    """
    names = [name for name, fact in cores[0].facts().items() if isinstance(fact, Rate)]
    arrays: dict[str, Any] = {
        name: np.array([getattr(core, name) for core in cores]) for name in names
    }
    return replace(cores[0], **arrays)


@cache
def _factor(draw: int, name: str, spread: float) -> float:
    rng = np.random.default_rng([draw, zlib.crc32(name.encode())])
    return float(rng.lognormal(0.0, spread))
