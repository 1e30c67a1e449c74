"""Rates drawn from the spread of their facts, and cores of many draws as one."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from trnsim.facts import Rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from trnsim.arch.neuroncore import NeuronCore


def together(cores: Sequence[NeuronCore]) -> NeuronCore:
    """Cores that differ in rates alone as one, whose rates are arrays of theirs."""
    names = [name for name, fact in cores[0].facts().items() if isinstance(fact, Rate)]
    arrays: dict[str, Any] = {n: np.array([getattr(c, n) for c in cores]) for n in names}
    return replace(cores[0], **arrays)


@cache
def factors(draws: int, name: str, spread: float) -> npt.NDArray[np.float64]:
    """The `factor` of a fact in each of the first draws, shaped [draws]."""
    return np.array([factor(draw, name, spread) for draw in range(draws)])


@cache
def factor(draw: int, name: str, spread: float) -> float:
    """What a draw multiplies a fact by: lognormal, of its number and the fact's name alone."""
    rng = np.random.default_rng([draw, zlib.crc32(name.encode())])
    return float(rng.lognormal(0.0, spread))
