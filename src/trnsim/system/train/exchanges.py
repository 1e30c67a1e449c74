"""Times of collectives between a layout's ranks on one machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trnsim.estimate.site import exchange_factor
from trnsim.place.links import ExchangeTime, Spread, exchange
from trnsim.place.machine import Machine


@dataclass(frozen=True)
class Exchanges:
    """Times of collectives among equal groups of ranks of one machine.

    Attributes:
        lnc: NeuronCores of a rank; 0 for a GPU.
        factor: factor on all times, from the user's own measurements.
    """

    instance: str
    lnc: int
    factor: float = 1.0

    def time_s(self, kind: str, nbytes: float, spread: Spread) -> float:
        """Seconds of a collective of `nbytes` bytes; 0 for groups of one rank.

        Args:
            kind: "all_reduce", "all_gather", "reduce_scatter", "all_to_all" or "send".
            nbytes: bytes of the whole message.
            spread: size and stride of the groups.
        """
        return self.factor * _exchange(self.instance, self.lnc, kind, nbytes, spread).time_s


@lru_cache(maxsize=1 << 16)
def _exchange(instance: str, lnc: int, kind: str, nbytes: float, spread: Spread) -> ExchangeTime:
    return exchange(instance, lnc, kind, nbytes, spread)


def exchanges(machine: Machine) -> Exchanges:
    """Times of collectives of a machine's ranks."""
    return Exchanges(machine.instance.name, machine.lnc, exchange_factor(machine.chip))
