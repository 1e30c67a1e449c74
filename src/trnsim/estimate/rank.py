"""The time of a pass on one rank: its layers, and its exchanges with the ranks that share them.

pass = sum over parts (layers x (a layer's time + its exchanges)) + a call
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trnsim.estimate.estimate import EXCHANGES, Estimate
from trnsim.estimate.times import Sources
from trnsim.estimate.training import AGAIN, layer_passes
from trnsim.facts import Evidence
from trnsim.place.links import Spread, exchange
from trnsim.workload.gradients import Recompute, turned
from trnsim.workload.operators import WHOLE, Axis, Split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.estimate.times import LayerTime, LayerTimes
    from trnsim.place.machine import Machine
    from trnsim.workload.architecture import Layer
    from trnsim.workload.operators import Exchange, Pass
    from trnsim.workload.summary import Summary

CALL: Final = "call"


@dataclass(frozen=True)
class Rank:
    """One of the ranks that share a model's layers.

    Attributes:
        machine: where it runs.
        layers: times of layers.
        split: ranks of a layer.
        call_s: seconds of a call of the program besides.
        more_spread: one sigma that is added to each layer's, in squares.
        seen: where all its times until now come from.
    """

    machine: Machine
    layers: LayerTimes
    split: Split = WHOLE
    call_s: float = 0.0
    more_spread: float = 0.0
    seen: Sources = field(default_factory=Sources, compare=False, repr=False)

    def of(self, made: Iterable[Summary], given: Pass) -> Estimate:
        """A pass through these parts, one after another."""
        found = Sum(self, given)
        for summary in made:
            layer = self.layers.of(summary, given)
            found.add(summary, layer, layer.time_s, summary.exchanges)
        return found.estimate()

    def trained(self, made: Iterable[tuple[Summary, Layer | None]], given: Pass) -> Estimate:
        """A micro batch forward, and both gradients; scores of one kernel are computed again."""
        found = Sum(self, given)
        for summary, layer in made:
            one = layer_passes(summary, layer, given, Recompute.NONE, self.layers)
            found.add(summary, one.ahead, one.ahead.time_s, summary.exchanges)
            found.add(summary, one.back, one.back.time_s, turned(summary.exchanges))
            again = replace(one.ahead, time_s=one.again_s, parts_s={AGAIN: one.again_s})
            found.add(summary, again, one.again_s, one.again.exchanges)
        return found.estimate()

    def exchange_s(self, kind: str, nbytes: float, spread: Spread) -> float:
        """Seconds of an exchange of groups of ranks."""
        where = self.machine
        return exchange(where.instance.name, where.lnc, kind, nbytes, spread).time_s

    def exchanges_s(self, made: Iterable[Exchange]) -> float:
        """Seconds of a layer's exchanges."""
        return sum(one.times * self._exchange_s(one) for one in made)

    def _exchange_s(self, one: Exchange) -> float:
        tensor = self.split.tensor
        is_expert = one.axis is Axis.EXPERT
        spread = Spread(self.split.expert, tensor) if is_expert else Spread(tensor)
        return self.exchange_s(one.kind, one.nbytes, spread)


class Sum:
    """What parts take a rank, one after another.

    Attributes:
        rank: whose time it is.
        given: what goes through them.
    """

    def __init__(self, rank: Rank, given: Pass) -> None:
        self.rank = rank
        self.given = given
        self._parts: dict[str, float] = {}
        self._errors: dict[str, float] = {}
        self._sources = Sources()

    def add(
        self, summary: Summary, layer: LayerTime, time_s: float, exchanges: Iterable[Exchange]
    ) -> None:
        """All layers of a part, each of `time_s`, and their exchanges."""
        if not time_s:
            return
        source = layer.source
        for seen in (self._sources, self.rank.seen):
            seen.add(self.given.phase, summary.name, source, self.given)
        for name, part_s in layer.parts_s.items():
            self._parts[name] = self._parts.get(name, 0.0) + summary.times * part_s
        exchanged_s = summary.times * self.rank.exchanges_s(exchanges)
        self._parts[EXCHANGES] = self._parts.get(EXCHANGES, 0.0) + exchanged_s
        # Rows of whole passes had exchanges in them, which err with the layers then.
        erring_s = summary.times * time_s + (exchanged_s if layer.has_exchanges else 0.0)
        spread = math.hypot(layer.spread, self.rank.more_spread)
        self._errors[source] = self._errors.get(source, 0.0) + erring_s * spread
        if exchanged_s and not layer.has_exchanges:
            error_s = exchanged_s * Evidence.DERIVED.spread
            self._errors[EXCHANGES] = self._errors.get(EXCHANGES, 0.0) + error_s

    def estimate(self) -> Estimate:
        """The whole, with a call, which errs as what it calls."""
        whole = Estimate(self._parts, self._errors, self._sources.words())
        call_s = self.rank.call_s
        if not call_s:
            return whole
        errors = {
            name: error_s * (1 + call_s / whole.time_s) for name, error_s in whole.errors_s.items()
        }
        return replace(whole, parts_s={CALL: call_s, **whole.parts_s}, errors_s=errors)
