"""The time of a step: parts of a pass, their layer times, exchanges between ranks, the host.

    step = sum over parts (layer time + exchanges) + hops of the pipeline + host

A pipeline of p stages takes p groups of sequences in turn: each group's token takes a pass through
all stages, and all groups get theirs in that time. Of n prompts a step takes (n + p - 1) / p
passes, the closed form of a pipeline that fills and empties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final

from trnsim.estimate.certainty import judged
from trnsim.estimate.estimate import HOST, QUANTILES, Estimate
from trnsim.estimate.ported import PortedTimes
from trnsim.estimate.rank import Rank
from trnsim.estimate.times import LayerTimes
from trnsim.place.links import Spread
from trnsim.place.machine import Machine
from trnsim.system.serve.constants import HostTimes
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Axis, Cache, Elementwise, Pass, Phase, Product, Split
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

_DRAFT_PART: Final = "draft"
_EXCHANGES_PART: Final = "exchanges"
_MOST_KNOWN_MODELS: Final = 8
"""Models and splits whose summaries are kept; of each a few MB."""


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
class ReplicaSteps:
    """The steps of one replica.

    Attributes:
        model: the architecture, quantized as it is served.
        machine: the instance type.
        split: ranks of a layer.
        pipeline: stages.
        times: times of layers.
        host: seconds of the host.
        speculation: number and source of drafted tokens.
        imbalance: tokens of the busiest expert rank over the mean; 0 for that of even routing.
    """

    model: Architecture
    machine: Machine
    split: Split
    pipeline: int
    times: LayerTimes
    host: HostTimes
    speculation: Speculation = Speculation()
    imbalance: float = 0.0
    _estimates: dict[tuple[int, ...], Estimate] = field(default_factory=dict, repr=False)
    _costs: dict[str, QuantileCosts] = field(default_factory=dict, repr=False)

    def costs(self, quantile: str = "p50") -> QuantileCosts:
        """The costs of steps at a quantile, kept for all runs."""
        if quantile not in self._costs:
            self._costs[quantile] = QuantileCosts(self, quantile)
        return self._costs[quantile]

    @cached_property
    def rank(self) -> Rank:
        """The rank that represents all ranks of a layer."""
        return Rank(self.machine, self.times, self.split)

    @property
    def source(self) -> str:
        """Source of the times of layers."""
        model_pass = Pass(Phase.DECODE, 1, 1)
        return self.times.forward(
            summaries(self.model, model_pass, self.split)[1], model_pass
        ).source

    @property
    def sources(self) -> dict[str, str]:
        """Sources of the times of all steps so far, by phase."""
        return self.rank.sources.words()

    def prefill(self, prompts: int, tokens: int, past: int) -> Estimate:
        """A step of `prompts` prompts of `tokens` tokens behind `past` cached ones."""
        key = (prompts, tokens, past)
        if key not in self._estimates:
            group, stages = self._group_size(prompts), self.pipeline
            model_pass = Pass(Phase.PREFILL, group if stages == 1 else 1, tokens, past)
            parts = self._blocks(self.model, model_pass)
            estimate = self.rank.pass_estimate(parts, model_pass)
            times = 1.0 if stages == 1 else (group + stages - 1) / stages
            self._estimates[key] = self._step(estimate, model_pass, prompts, times=times)
        return self._estimates[key]

    def decode(self, batch: int, length: int) -> Estimate:
        """A step that gives `batch` sequences of `length` tokens their next tokens."""
        key = (batch, length)
        if key not in self._estimates:
            model_pass = self._decode_pass(batch, length)
            estimate = self.rank.pass_estimate(self._blocks(self.model, model_pass), model_pass)
            draft_s = self._draft_s(batch, length)
            self._estimates[key] = self._step(estimate, model_pass, batch, draft_s)
        return self._estimates[key]

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> Estimate:
        """A step of both: weights are read once, rows are multiplied together."""
        key = (prompts, tokens, past, batch, length)
        if key not in self._estimates:
            filling = Pass(Phase.PREFILL, self._group_size(prompts), tokens, past)
            decoding = self._decode_pass(batch, length)
            prefills = self._blocks(self.model, filling)
            decodes = self._blocks(self.model, decoding)
            ahead = len(prefills) - len(
                decodes
            )  # parts of an encoder, which decoding does not take
            both = zip(prefills[ahead:], decodes, strict=True)
            merged = [*prefills[:ahead], *(_merged_passes(*pair) for pair in both)]
            estimate = self.rank.pass_estimate(merged, filling)
            draft_s = self._draft_s(batch, length)
            self._estimates[key] = self._step(estimate, filling, prompts + batch, draft_s)
        return self._estimates[key]

    def _group_size(self, sequences: int) -> int:
        """Sequences of each group of tensor ranks; the groups divide nothing but experts."""
        return -(-sequences // self.split.expert)

    def _decode_pass(self, batch: int, length: int) -> Pass:
        tokens = 1 + self.speculation.tokens
        group = -(-self._group_size(batch) // self.pipeline)
        return Pass(Phase.DECODE, group, tokens, max(length - tokens, 0))

    def _draft_s(self, batch: int, length: int) -> float:
        """Seconds of drafting: passes of one token, one after another."""
        if not self.speculation.tokens:
            return 0.0
        group = -(-self._group_size(batch) // self.pipeline)
        model_pass = Pass(Phase.DECODE, group, 1, max(length - 1, 0))
        if self.speculation.draft is not None:
            parts = self._blocks(self.speculation.draft, model_pass)
        else:
            parts = [_single_layer(part) for part in self._blocks(self.model, model_pass)]
        return self.speculation.tokens * self.rank.pass_estimate(parts, model_pass).time_s

    def _step(
        self,
        estimate: Estimate,
        model_pass: Pass,
        sequences: int,
        draft_s: float = 0.0,
        times: float = 1.0,
    ) -> Estimate:
        """The estimate of a step of `times` passes, with the host's time for its sequences.

        A draft has the relative error of the model.
        """
        hops_s = self._hops_s(model_pass)
        is_ported = isinstance(self.times, PortedTimes)
        place = self.machine, self.split.tensor
        estimate = judged(estimate, self.model, model_pass, *place, is_ported=is_ported)
        estimate = estimate.times(times).plus(_EXCHANGES_PART, hops_s)
        if draft_s:
            estimate = estimate.with_parts_in_proportion({_DRAFT_PART: draft_s})
        host_s, spread = self.host.between_s(sequences), self.host.step_s.provenance.spread
        return estimate.plus(HOST, host_s, source=HOST, spread=spread)

    def _blocks(self, model: Architecture, model_pass: Pass) -> list[PartSummary]:
        parts = _known_summaries(model, self.split).of(model_pass)
        return [self._busiest_part(part, model_pass) for part in parts]

    def _busiest_part(self, summary: PartSummary, model_pass: Pass) -> PartSummary:
        """The part's summary on the busiest rank of its experts."""
        if self.split.expert == 1:
            return summary
        factor = self.imbalance or even_imbalance(model_pass.rows, self.split.expert)
        return replace(
            summary,
            products=tuple(
                replace(p, m=p.m * factor) if p.name.startswith("expert ") else p
                for p in summary.products
            ),
            exchanges=tuple(
                replace(sent, nbytes=sent.nbytes * factor) if sent.axis is Axis.EXPERT else sent
                for sent in summary.exchanges
            ),
        )

    def _hops_s(self, model_pass: Pass) -> float:
        """Seconds in which hidden states go from stage to stage."""
        if self.pipeline == 1:
            return 0.0
        nbytes = model_pass.rows * self.model.decoder.hidden * self.model.other_bits / 8
        stage = self.split.ranks * self.split.expert
        is_apart = stage * self.pipeline > self.machine.ranks
        spread = Spread(2, self.machine.ranks if is_apart else stage)
        hop_s = self.rank.exchange_s("send", nbytes / self.split.tensor, spread)
        return (self.pipeline - 1) * hop_s


@dataclass(frozen=True, eq=False)
class _KnownSummaries:
    """Summaries of passes that were read before, which takes longer than to time them.

    A mixed step reads two passes, and layouts of a search that differ in sequences read the same.
    """

    model: Architecture
    split: Split
    known: dict[Pass, tuple[PartSummary, ...]] = field(default_factory=dict)

    def of(self, model_pass: Pass) -> tuple[PartSummary, ...]:
        """The summaries of a pass."""
        found = self.known.get(model_pass)
        if found is None:
            found = self.known[model_pass] = summaries(self.model, model_pass, self.split)
        return found


_known_summaries = lru_cache(_MOST_KNOWN_MODELS)(_KnownSummaries)


def even_imbalance(tokens: int, ranks: int) -> float:
    """``1 + sqrt(2 ln(ranks) / tokens a rank)``: load of the busiest of `ranks` under even routing.

    The maximum of as many normal variables of variance and mean ``tokens / ranks``, and at most
    all tokens on one rank.
    """
    return min(1 + math.sqrt(2 * math.log(ranks) * ranks / max(tokens, 1)), float(ranks))


def _single_layer(summary: PartSummary) -> PartSummary:
    """The summary of one of equal layers."""
    return replace(summary, times=min(summary.times, 1))


def _merged_passes(prompts: PartSummary, decodes: PartSummary) -> PartSummary:
    """The summary of two passes through the same layer at once."""
    return replace(
        prompts,
        products=_products(prompts.products, decodes.products),
        elementwise=(*prompts.elementwise, *(_weightless(part) for part in decodes.elementwise)),
        exchanges=tuple(
            replace(first, nbytes=first.nbytes + second.nbytes)
            for first, second in zip(prompts.exchanges, decodes.exchanges, strict=True)
        ),
        cache=Cache(
            prompts.cache.read_bytes + decodes.cache.read_bytes,
            prompts.cache.written_bytes + decodes.cache.written_bytes,
        ),
    )


def _products(prompts: Sequence[Product], decodes: Sequence[Product]) -> tuple[Product, ...]:
    """Products of the same weights merged, with the rows of both; all others of both unchanged."""
    weighted = {product.name: product for product in prompts if product.weight_bits}
    apart = [product for product in (*prompts, *decodes) if not product.weight_bits]
    for added in decodes:
        if not added.weight_bits:
            continue
        product = weighted.get(added.name)
        if product is None:
            weighted[added.name] = added
            continue
        times = max(product.times, added.times)
        rows = (product.m * product.times + added.m * added.times) / times
        weighted[added.name] = replace(product, m=rows, times=times)
    return (*weighted.values(), *apart)


def _weightless(part: Elementwise) -> Elementwise:
    """The elementwise part of a second pass, which reads no parameters again."""
    return replace(part, weight_bytes=0.0)


class QuantileCosts:
    """Costs of steps at a quantile of the model's uncertainty.

    Attributes:
        steps: the steps.
        quantile: a key of `QUANTILES`.
    """

    def __init__(self, steps: ReplicaSteps, quantile: str = "p50") -> None:
        self.steps = steps
        self.quantile = quantile
        self._costs_s: dict[tuple[int, ...], float] = {}
        self._around_s: dict[int, float] = {}

    def prefill(self, prompts: int, tokens: int, past: int) -> float:
        """Seconds of a step of prompts."""
        key = (prompts, tokens, past)
        cost_s = self._costs_s.get(key)
        if cost_s is None:
            cost_s = self._costs_s[key] = self.steps.prefill(*key).at(self.quantile)
        return cost_s

    def decode(self, batch: int, length: int) -> float:
        """Seconds of a step of decodes."""
        key = (batch, length)
        cost_s = self._costs_s.get(key)
        if cost_s is None:
            cost_s = self._costs_s[key] = self.steps.decode(*key).at(self.quantile)
        return cost_s

    def around(self, tokens: int) -> float:
        """Seconds of the host for a request of `tokens` tokens, before its queue and behind it."""
        around_s = self._around_s.get(tokens)
        if around_s is None:
            host = self.steps.host
            factor = math.exp(QUANTILES[self.quantile] * host.request_s.provenance.spread)
            around_s = self._around_s[tokens] = host.around_s(tokens) * factor
        return around_s

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> float:
        """Seconds of a step of both."""
        key = (prompts, tokens, past, batch, length)
        cost_s = self._costs_s.get(key)
        if cost_s is None:
            cost_s = self._costs_s[key] = self.steps.mixed(*key).at(self.quantile)
        return cost_s
