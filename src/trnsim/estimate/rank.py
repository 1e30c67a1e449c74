"""The time of a pass on one rank: its layers, and its exchanges with the ranks that share them.

pass = sum over parts (layers x (a layer's time + its exchanges)) + a call
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from trnsim.estimate.estimate import EXCHANGES, Estimate
from trnsim.estimate.site import exchange_factor
from trnsim.estimate.times import LayerTime, LayerTimes, Sources, SumErrors
from trnsim.estimate.training import RECOMPUTED, layer_passes
from trnsim.place.links import Spread, exchange
from trnsim.place.machine import Machine
from trnsim.workload.architecture import Layer
from trnsim.workload.gradients import Recompute, gradient_exchanges
from trnsim.workload.operators import WHOLE, Axis, Exchange, Pass, Split
from trnsim.workload.summary import PartSummary

CALL: Final = "call"


@dataclass(frozen=True)
class Rank:
    """A rank of those that share a model's layers.

    Attributes:
        split: ranks of a layer.
        call_s: fixed seconds of a call of the program.
        more_spread: one sigma that is added to each layer's, in squares.
        sources: the sources of all its times so far.
    """

    machine: Machine
    layers: LayerTimes
    split: Split = WHOLE
    call_s: float = 0.0
    more_spread: float = 0.0
    sources: Sources = field(default_factory=Sources, compare=False, repr=False)

    def pass_estimate(self, parts: Iterable[PartSummary], model_pass: Pass) -> Estimate:
        """The time of a pass through the parts of a model, one after another."""
        total = _PartSum(self, model_pass)
        for summary in parts:
            layer = self.layers.forward(summary, model_pass)
            total.add(summary, layer, layer.time_s, summary.exchanges)
        return total.estimate()

    def micro_batch_estimate(
        self, parts: Iterable[tuple[PartSummary, Layer | None]], model_pass: Pass
    ) -> Estimate:
        """The time of a micro batch: forward, gradients of inputs and of weights.

        Where attention is one kernel, its backward pass computes the scores again.
        """
        total = _PartSum(self, model_pass)
        for summary, layer in parts:
            passes = layer_passes(summary, layer, model_pass, Recompute.NONE, self.layers)
            forward, backward = passes.forward, passes.backward
            total.add(summary, forward, forward.time_s, summary.exchanges)
            gradients = gradient_exchanges(summary.exchanges)
            total.add(summary, backward, backward.time_s, gradients)
            seconds = passes.recomputed_s
            recomputed = replace(forward, time_s=seconds, parts_s={RECOMPUTED: seconds})
            total.add(summary, recomputed, seconds, passes.recomputed.exchanges)
        return total.estimate()

    def exchange_s(self, kind: str, nbytes: float, spread: Spread) -> float:
        """Seconds of an exchange of groups of ranks."""
        machine = self.machine
        exchanged = exchange(machine.instance.name, machine.lnc, kind, nbytes, spread)
        return self._exchange_factor * exchanged.time_s

    @cached_property
    def _exchange_factor(self) -> float:
        """The factor of the user's own measurements on seconds of exchanges."""
        return exchange_factor(self.machine.chip)

    def exchanges_s(self, exchanges: Iterable[Exchange]) -> float:
        """Seconds of a layer's exchanges."""
        return sum(exchange.times * self._exchange_s(exchange) for exchange in exchanges)

    def _exchange_s(self, exchange: Exchange) -> float:
        tensor = self.split.tensor
        is_expert = exchange.axis is Axis.EXPERT
        spread = Spread(self.split.expert, tensor) if is_expert else Spread(tensor)
        return self.exchange_s(exchange.kind, exchange.nbytes, spread)


class _PartSum:
    """The time of parts on a rank, one after another."""

    def __init__(self, rank: Rank, model_pass: Pass) -> None:
        self.rank = rank
        self.model_pass = model_pass
        self._parts: dict[str, float] = {}
        self._errors = SumErrors()
        self._sources = Sources()

    def add(
        self, summary: PartSummary, layer: LayerTime, time_s: float, exchanges: Iterable[Exchange]
    ) -> None:
        """Add all layers of a part, each of `time_s`, and their exchanges."""
        if not time_s:
            return
        source = layer.source
        for sources in (self._sources, self.rank.sources):
            sources.add(self.model_pass.phase, summary.name, source, self.model_pass)
        for name, part_s in layer.parts_s.items():
            self._parts[name] = self._parts.get(name, 0.0) + summary.times * part_s
        exchanged_s = summary.times * self.rank.exchanges_s(exchanges)
        self._parts[EXCHANGES] = self._parts.get(EXCHANGES, 0.0) + exchanged_s
        self._errors.add(layer, summary.times * time_s, exchanged_s, self.rank.more_spread)

    def estimate(self) -> Estimate:
        """The sum, with a call, whose relative error is that of the layers."""
        layers = Estimate(self._parts, self._errors.by_source(), self._sources.words())
        call_s = self.rank.call_s
        return layers.with_parts_in_proportion({CALL: call_s}) if call_s else layers
