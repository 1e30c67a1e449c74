"""The time of a step: parts of a pass, their layer times, exchanges between ranks, the host.

    step = sum over parts (layer time + exchanges) + hops of the pipeline + host

A pipeline of p stages takes p groups of sequences in turn: each group's token takes a pass through
all stages, and all groups get theirs in that time. Of n prompts a step takes (n + p - 1) / p
passes, the closed form of a pipeline that fills and empties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trnsim.estimate.estimate import HOST
from trnsim.estimate.rank import Rank
from trnsim.estimate.reach import beyond
from trnsim.facts import Evidence
from trnsim.place.links import Spread
from trnsim.workload.operators import Axis, Cache, Elementwise, Pass, Phase, Product, Split
from trnsim.workload.passes import summaries
from trnsim.workload.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.estimate.estimate import Estimate
    from trnsim.estimate.times import LayerTimes
    from trnsim.place.machine import Machine
    from trnsim.workload.architecture import Architecture

_DRAFT: Final = "draft"
_EXCHANGES: Final = "exchanges"


@dataclass(frozen=True)
class Speculation:
    """How tokens are drafted.

    Attributes:
        tokens: drafted for each step.
        draft: the model that drafts them; None for a head of one layer of the model itself, as
            EAGLE has (arXiv:2401.15077).
    """

    tokens: int = 0
    draft: Architecture | None = None


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one replica.

    Attributes:
        model: the architecture, with the bits that it is served in.
        machine: where it runs.
        split: ranks of a layer.
        pipeline: stages.
        times: times of layers.
        host_s: seconds of the host between two steps.
        host_spread: one sigma of the logarithm of those.
        speculation: how tokens are drafted.
        imbalance: tokens of the busiest expert rank over the mean; 0 for what even routing gives.
    """

    model: Architecture
    machine: Machine
    split: Split
    pipeline: int
    times: LayerTimes
    host_s: float
    host_spread: float = Evidence.ASSUMED.spread
    speculation: Speculation = Speculation()
    imbalance: float = 0.0
    _known: dict[tuple[int, ...], Estimate] = field(default_factory=dict, repr=False)

    @cached_property
    def rank(self) -> Rank:
        """The rank that stands for all that share a layer."""
        return Rank(self.machine, self.times, self.split)

    @property
    def source(self) -> str:
        """Where the times of its layers come from."""
        given = Pass(Phase.DECODE, 1, 1)
        return self.times.of(summaries(self.model, given, self.split)[1], given).source

    @property
    def sources(self) -> dict[str, str]:
        """Where the times of all steps until now come from, by phase."""
        return self.rank.seen.words()

    def prefill(self, prompts: int, tokens: int, past: int) -> Estimate:
        """A step of `prompts` prompts of `tokens` tokens behind `past` that are there."""
        key = (prompts, tokens, past)
        if key not in self._known:
            each, stages = self._each(prompts), self.pipeline
            given = Pass(Phase.PREFILL, each if stages == 1 else 1, tokens, past)
            parts = self._blocks(self.model, given)
            found = self.rank.of(parts, given)
            times = 1.0 if stages == 1 else (each + stages - 1) / stages
            self._known[key] = self._whole(found, given, times=times)
        return self._known[key]

    def decode(self, batch: int, length: int) -> Estimate:
        """A step that gives `batch` sequences of `length` tokens their next ones."""
        key = (batch, length)
        if key not in self._known:
            given = self._decoding(batch, length)
            found = self.rank.of(self._blocks(self.model, given), given)
            self._known[key] = self._whole(found, given, self._drafted(batch, length))
        return self._known[key]

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> Estimate:
        """A step of both: weights are read once, rows are multiplied together."""
        key = (prompts, tokens, past, batch, length)
        if key not in self._known:
            filling = Pass(Phase.PREFILL, self._each(prompts), tokens, past)
            decoding = self._decoding(batch, length)
            one = self._blocks(self.model, filling)
            two = self._blocks(self.model, decoding)
            ahead = len(one) - len(two)  # parts of an encoder, which decoding does not take
            both = zip(one[ahead:], two, strict=True)
            merged = [*one[:ahead], *(_merged(first, second) for first, second in both)]
            found = self.rank.of(merged, filling)
            self._known[key] = self._whole(found, filling, self._drafted(batch, length))
        return self._known[key]

    def _each(self, sequences: int) -> int:
        """Sequences of a group of ranks that share experts alone."""
        return -(-sequences // self.split.expert)

    def _decoding(self, batch: int, length: int) -> Pass:
        tokens = 1 + self.speculation.tokens
        each = -(-self._each(batch) // self.pipeline)
        return Pass(Phase.DECODE, each, tokens, max(length - tokens, 0))

    def _drafted(self, batch: int, length: int) -> float:
        """Seconds of drafting: passes of one token, one after another."""
        if not self.speculation.tokens:
            return 0.0
        each = -(-self._each(batch) // self.pipeline)
        given = Pass(Phase.DECODE, each, 1, max(length - 1, 0))
        if self.speculation.draft is not None:
            made = self._blocks(self.speculation.draft, given)
        else:
            made = [_once(one) for one in self._blocks(self.model, given)]
        return self.speculation.tokens * self.rank.of(made, given).time_s

    def _whole(
        self, one: Estimate, given: Pass, draft_s: float = 0.0, times: float = 1.0
    ) -> Estimate:
        """`times` passes as a step, between two of which the host works.

        A draft errs as the model does.
        """
        hops_s = self._hops_s(given)
        found = one.times(times).plus(_EXCHANGES, hops_s)
        if draft_s:
            factor = 1 + draft_s / found.time_s
            errors = {name: factor * error_s for name, error_s in found.errors_s.items()}
            found = replace(found.plus(_DRAFT, draft_s), errors_s=errors)
        found = found.plus(HOST, self.host_s, source=HOST, spread=self.host_spread)
        return replace(found, extrapolations=beyond(self.model, given, self.machine.lnc))

    def _blocks(self, model: Architecture, given: Pass) -> list[Summary]:
        return [self._loaded(one, given) for one in summaries(model, given, self.split)]

    def _loaded(self, summary: Summary, given: Pass) -> Summary:
        """The part as the busiest rank of its experts has it."""
        if self.split.expert == 1:
            return summary
        factor = self.imbalance or even_imbalance(given.rows, self.split.expert)
        return replace(
            summary,
            products=tuple(
                replace(one, m=one.m * factor) if one.name.startswith("expert ") else one
                for one in summary.products
            ),
            exchanges=tuple(
                replace(one, nbytes=one.nbytes * factor) if one.axis is Axis.EXPERT else one
                for one in summary.exchanges
            ),
        )

    def _hops_s(self, given: Pass) -> float:
        """Seconds in which hidden states go from stage to stage."""
        if self.pipeline == 1:
            return 0.0
        nbytes = given.rows * self.model.decoder.hidden * self.model.other_bits / 8
        stage = self.split.ranks * self.split.expert
        is_apart = stage * self.pipeline > self.machine.ranks
        spread = Spread(2, self.machine.ranks if is_apart else stage)
        hop_s = self.rank.exchange_s("send", nbytes / self.split.tensor, spread)
        return (self.pipeline - 1) * hop_s


def even_imbalance(tokens: int, ranks: int) -> float:
    """``1 + sqrt(2 ln(ranks) / tokens a rank)``: the most of `ranks` that even chance fills.

    The maximum of as many normal variables of variance and mean ``tokens / ranks``, and at most
    all tokens on one rank.
    """
    return min(1 + math.sqrt(2 * math.log(ranks) * ranks / max(tokens, 1)), float(ranks))


def _once(summary: Summary) -> Summary:
    """One of equal layers."""
    return replace(summary, times=min(summary.times, 1))


def _merged(one: Summary, two: Summary) -> Summary:
    """Two passes through the same layers at once."""
    return replace(
        one,
        products=_products(one.products, two.products),
        elementwise=(*one.elementwise, *(_moved(part) for part in two.elementwise)),
        exchanges=tuple(
            replace(first, nbytes=first.nbytes + second.nbytes)
            for first, second in zip(one.exchanges, two.exchanges, strict=True)
        ),
        cache=Cache(
            one.cache.read_bytes + two.cache.read_bytes,
            one.cache.written_bytes + two.cache.written_bytes,
        ),
    )


def _products(ones: Sequence[Product], twos: Sequence[Product]) -> tuple[Product, ...]:
    """Products of equal weights once, with the rows of both; all others beside each other."""
    weighted = {one.name: one for one in ones if one.weight_bits}
    apart = [one for one in (*ones, *twos) if not one.weight_bits]
    for two in twos:
        if not two.weight_bits:
            continue
        one = weighted.get(two.name)
        if one is None:
            weighted[two.name] = two
            continue
        times = max(one.times, two.times)
        rows = (one.m * one.times + two.m * two.times) / times
        weighted[two.name] = replace(one, m=rows, times=times)
    return (*weighted.values(), *apart)


def _moved(part: Elementwise) -> Elementwise:
    """What a second pass adds: its elements, but no parameters again."""
    return replace(part, weight_bytes=0.0)


class At:
    """Costs of steps at a quantile of what the model knows.

    Attributes:
        steps: the steps.
        quantile: a key of `QUANTILES`.
    """

    def __init__(self, steps: Steps, quantile: str = "p50") -> None:
        self.steps = steps
        self.quantile = quantile
        self._known: dict[tuple[int, ...], float] = {}

    def prefill(self, prompts: int, tokens: int, past: int) -> float:
        """Seconds of a step of prompts."""
        key = (prompts, tokens, past)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.steps.prefill(*key).at(self.quantile)
        return found

    def decode(self, batch: int, length: int) -> float:
        """Seconds of a step of decodes."""
        key = (batch, length)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.steps.decode(*key).at(self.quantile)
        return found

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> float:
        """Seconds of a step of both."""
        key = (prompts, tokens, past, batch, length)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.steps.mixed(*key).at(self.quantile)
        return found
