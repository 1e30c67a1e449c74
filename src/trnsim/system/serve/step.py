"""Time of a step: layers, collectives between ranks, transfers between stages, host.

    step = sum over parts of the model (layers + collectives) + transfers between stages + host

A pipeline of p stages divides sequences into p groups. While one group passes through all stages,
every other group completes a pass as well, so that a decode step takes the time of one pass. A
prefill step of n prompts takes (n + p - 1) / p passes: the pipeline fills and drains.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import Final

from trnsim.estimate.certainty import judged_estimate
from trnsim.estimate.estimate import HOST, QUANTILES, Estimate
from trnsim.estimate.ported import PortedTimes
from trnsim.estimate.rank import Rank
from trnsim.estimate.times import LayerTimes
from trnsim.place.links import Spread
from trnsim.place.machine import Machine
from trnsim.system.expert_load import busiest_summary, imbalance
from trnsim.system.serve.constants import HostTimes
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Pass, Phase, Product, Split
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

_DRAFT_PART: Final = "draft"
_EXCHANGES_PART: Final = "exchanges"
_MOST_CACHED_MODELS: Final = 8
"""Pairs of model and split whose summaries stay cached, a few MB each."""


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding: number of drafted tokens, and the draft model.

    Attributes:
        tokens: tokens drafted for each decode step of a sequence; 0 without speculation.
        draft: the draft model; None for a draft head of one layer on the model itself (EAGLE,
            arXiv:2401.15077).
    """

    tokens: int = 0
    draft: Architecture | None = None


@dataclass(frozen=True, eq=False)
class ReplicaSteps:
    """Estimates of one replica's steps, each made once.

    Attributes:
        model: the architecture, quantized as it is served.
        split: tensor and expert parallel sizes.
        pipeline: number of pipeline stages.
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
        """Seconds of steps at a quantile; all runs share them."""
        if quantile not in self._costs:
            self._costs[quantile] = QuantileCosts(self, quantile)
        return self._costs[quantile]

    @cached_property
    def rank(self) -> Rank:
        """The rank whose time stands for all ranks of a layer."""
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
        """A step of `prompts` prompts: `tokens` tokens of each, after `past` cached ones."""
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
        """A step of prompts and decodes: weights are read once, for the rows of both."""
        key = (prompts, tokens, past, batch, length)
        if key not in self._estimates:
            prefill_pass = Pass(Phase.PREFILL, self._group_size(prompts), tokens, past)
            decode_pass = self._decode_pass(batch, length)
            prefills = self._blocks(self.model, prefill_pass)
            decodes = self._blocks(self.model, decode_pass)
            # Parts of an encoder come first; decodes do not pass through them.
            encoder_parts = len(prefills) - len(decodes)
            pairs = zip(prefills[encoder_parts:], decodes, strict=True)
            merged_parts = [*prefills[:encoder_parts], *(_merged_passes(*pair) for pair in pairs)]
            estimate = self.rank.pass_estimate(merged_parts, prefill_pass)
            draft_s = self._draft_s(batch, length)
            self._estimates[key] = self._step(estimate, prefill_pass, prompts + batch, draft_s)
        return self._estimates[key]

    def _group_size(self, sequences: int) -> int:
        """Sequences of each group of tensor ranks; the groups divide the batch among them."""
        return -(-sequences // self.split.expert)

    def _decode_pass(self, batch: int, length: int) -> Pass:
        tokens = 1 + self.speculation.tokens
        group = -(-self._group_size(batch) // self.pipeline)
        return Pass(Phase.DECODE, group, tokens, max(length - tokens, 0))

    def _draft_s(self, batch: int, length: int) -> float:
        """Seconds of drafting: a pass of one token for each drafted token."""
        if not self.speculation.tokens:
            return 0.0
        group = -(-self._group_size(batch) // self.pipeline)
        model_pass = Pass(Phase.DECODE, group, 1, max(length - 1, 0))
        if self.speculation.draft is not None:
            parts = self._blocks(self.speculation.draft, model_pass)
        else:
            blocks = self._blocks(self.model, model_pass)
            parts = [replace(part, times=min(part.times, 1)) for part in blocks]
        return self.speculation.tokens * self.rank.pass_estimate(parts, model_pass).time_s

    def _step(
        self,
        estimate: Estimate,
        model_pass: Pass,
        sequences: int,
        draft_s: float = 0.0,
        times: float = 1.0,
    ) -> Estimate:
        """The estimate of a step, from that of one pass.

        Args:
            estimate: the estimate of one pass.
            model_pass: the pass.
            sequences: sequences in the step, for the host's time.
            draft_s: seconds of drafting; their relative error is taken to be that of the model.
            times: number of passes, which may be fractional.
        """
        hops_s, host_s = self._hops_s(model_pass), self.host.step_overhead_s(sequences)
        spread = self.host.step_s.provenance.spread
        is_ported = isinstance(self.times, PortedTimes)
        tensor = self.split.tensor
        estimate = judged_estimate(
            estimate, self.model, model_pass, self.machine, tensor, is_ported=is_ported
        )
        estimate = estimate.scaled(times).plus(_EXCHANGES_PART, hops_s)
        if draft_s:
            estimate = estimate.with_parts_in_proportion({_DRAFT_PART: draft_s})
        return estimate.plus(HOST, host_s, source=HOST, spread=spread)

    def _blocks(self, model: Architecture, model_pass: Pass) -> list[PartSummary]:
        """Summaries of the parts of a model, on the busiest expert rank.

        An expert rank gets the assignments of as many tokens as its own group has, in the mean.
        """
        parts = _summary_cache(model, self.split).of(model_pass)
        if model.experts is None or self.split.expert == 1:
            return list(parts)
        mean_assignments = model_pass.rows * model.experts.per_token
        factor = self.imbalance or imbalance(mean_assignments, self.split.expert)
        return [busiest_summary(part, factor) for part in parts]

    def _hops_s(self, model_pass: Pass) -> float:
        """Seconds of the transfers of hidden states between stages."""
        if self.pipeline == 1:
            return 0.0
        nbytes = model_pass.rows * self.model.decoder.hidden * self.model.other_bits / 8
        stage = self.split.ranks * self.split.expert
        is_apart = stage * self.pipeline > self.machine.ranks
        spread = Spread(2, self.machine.ranks if is_apart else stage)
        hop_s = self.rank.exchange_s("send", nbytes / self.split.tensor, spread)
        return (self.pipeline - 1) * hop_s


@dataclass(frozen=True, eq=False)
class _SummaryCache:
    """Cached summaries of the passes of a model under a split.

    A summary takes longer to make than to time. A mixed step needs two of them, and layouts of a
    search that differ only in sequences need the same.
    """

    model: Architecture
    split: Split
    parts: dict[Pass, tuple[PartSummary, ...]] = field(default_factory=dict)

    def of(self, model_pass: Pass) -> tuple[PartSummary, ...]:
        """The summaries of a pass."""
        parts = self.parts.get(model_pass)
        if parts is None:
            parts = self.parts[model_pass] = summaries(self.model, model_pass, self.split)
        return parts


_summary_cache = lru_cache(_MOST_CACHED_MODELS)(_SummaryCache)


def _merged_passes(prompts: PartSummary, decodes: PartSummary) -> PartSummary:
    """The summary of a prefill and a decode pass through the same layer, merged into one pass."""
    return replace(
        prompts,
        products=_products(prompts.products, decodes.products),
        elementwise=(
            *prompts.elementwise,
            # The pass of prompts reads the parameters already.
            *(replace(part, weight_bytes=0.0) for part in decodes.elementwise),
        ),
        exchanges=tuple(
            replace(prompt_exchange, nbytes=prompt_exchange.nbytes + decode_exchange.nbytes)
            for prompt_exchange, decode_exchange in zip(
                prompts.exchanges, decodes.exchanges, strict=True
            )
        ),
        cache=prompts.cache + decodes.cache,
    )


def _products(prompts: Sequence[Product], decodes: Sequence[Product]) -> tuple[Product, ...]:
    """Matrix products of two passes; products of the same weights become one, with all rows.

    Attentions of a layer have products of the same names, in the same order in both passes.
    """
    weight_products = _numbered_products(prompts)
    weightless_products = [product for product in (*prompts, *decodes) if not product.weight_bits]
    for key, decode in _numbered_products(decodes).items():
        product = weight_products.get(key)
        if product is None:
            weight_products[key] = decode
            continue
        times = max(product.times, decode.times)
        rows = (product.m * product.times + decode.m * decode.times) / times
        weight_products[key] = replace(product, m=rows, times=times)
    return (*weight_products.values(), *weightless_products)


def _numbered_products(products: Sequence[Product]) -> dict[tuple[str, int], Product]:
    """Products of weights by name, and by number among those of one name."""
    product_by_key: dict[tuple[str, int], Product] = {}
    counts = Counter[str]()
    for product in products:
        if product.weight_bits:
            product_by_key[product.name, counts[product.name]] = product
            counts[product.name] += 1
    return product_by_key


class QuantileCosts:
    """Seconds of steps at a quantile of their estimates, as `StepCosts`; each is computed once.

    Args:
        steps: the estimates of steps.
        quantile: a key of `QUANTILES`.
    """

    def __init__(self, steps: ReplicaSteps, quantile: str = "p50") -> None:
        def quantile_s(estimate: Callable[..., Estimate]) -> Callable[..., float]:
            return cache(lambda *shape: estimate(*shape).quantile_s(quantile))

        self.prefill = quantile_s(steps.prefill)
        self.decode = quantile_s(steps.decode)
        self.mixed = quantile_s(steps.mixed)
        self._host = steps.host
        self._host_factor = math.exp(QUANTILES[quantile] * steps.host.request_s.provenance.spread)

    def request_overhead_s(self, tokens: int) -> float:
        """Seconds of host time, outside of steps, of a request with a prompt of `tokens` tokens."""
        return self._host.request_overhead_s(tokens) * self._host_factor
