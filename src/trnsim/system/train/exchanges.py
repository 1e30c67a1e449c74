"""Exchanges of a layout: their times, asked for at few sizes and interpolated between them.

A collective's time is the least of straight lines in its bytes, one for each algorithm; between two
sizes that differ by a factor of four a straight line is as good as asking again.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from trnsim.lower import cache as disk
from trnsim.system import search
from trnsim.system.links import ExchangeTime, Spread, exchange

if TYPE_CHECKING:
    from trnsim.system.machine import Machine

_STEP: Final = 4
"""Ratio of the sizes that are asked for."""


@dataclass(frozen=True)
class Exchanges:
    """Exchanges of equal groups of ranks of one machine.

    Attributes:
        instance: the type of its instances.
        lnc: NeuronCores of a rank; 0 for a GPU.
    """

    instance: str
    lnc: int

    def time_s(self, kind: str, nbytes: float, spread: Spread) -> float:
        """Seconds of a collective of `nbytes`."""
        return self.of(kind, nbytes, spread).time_s

    def of(self, kind: str, nbytes: float, spread: Spread) -> ExchangeTime:
        """A collective of `nbytes`: its time, its algorithm and how far it goes."""
        if spread.size == 1 or nbytes <= 0:
            return ExchangeTime(0.0, "", "chip")
        return _between(self.instance, self.lnc, kind, nbytes, spread)


def exchanges(machine: Machine) -> Exchanges:
    """The exchanges of a machine's ranks."""
    return Exchanges(machine.instance.name, machine.lnc)


@lru_cache(maxsize=1 << 16)
def _between(instance: str, lnc: int, kind: str, nbytes: float, spread: Spread) -> ExchangeTime:
    """On the line through the times at the two powers of `_STEP` around `nbytes`."""
    power = math.floor(math.log(nbytes, _STEP))
    low, high = (_at(instance, lnc, kind, one, spread) for one in (power, power + 1))
    part = (nbytes / float(_STEP) ** power - 1) / (_STEP - 1)
    return ExchangeTime(low.time_s + part * (high.time_s - low.time_s), low.algorithm, low.level)


@cache
def _at(instance: str, lnc: int, kind: str, power: int, spread: Spread) -> ExchangeTime:
    """The time at a power of `_STEP` bytes, kept on disk: a large instance has many ways."""
    key = ("exchange", search.version(), instance, lnc, kind, power, spread)
    known = disk.read(key)
    if known is None:
        found = exchange(instance, lnc, kind, float(_STEP) ** power, spread)
        disk.write(key, asdict(found))
        return found
    return ExchangeTime(**known)
