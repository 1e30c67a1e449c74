"""The time of a step: blocks of a pass, their layer times, exchanges between ranks, the host.

    step = sum over blocks (layer time + exchanges) + hops of the pipeline + host

A pipeline of p stages takes p groups of sequences in turn: each group's token takes a pass through
all stages, and all groups get theirs in that time. Of n prompts a step takes (n + p - 1) / p
passes, the closed form of a pipeline that fills and empties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trnsim.estimate.times import Sources
from trnsim.facts import Evidence
from trnsim.place.links import Spread, exchange
from trnsim.workload.operators import (
    Axis,
    Block,
    Cache,
    Elementwise,
    Exchange,
    Pass,
    Phase,
    Product,
    Split,
)
from trnsim.workload.passes import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnsim.estimate.times import LayerTimes
    from trnsim.place.machine import Machine
    from trnsim.workload.architecture import Architecture

PARTS: Final = ("weights", "KV", "products", "layers' other", "draft", "exchanges", "host")
"""What a step is made of, in the order in which it is told."""
QUANTILES: Final = {"p10": -1.2815515655446004, "p50": 0.0, "p90": 1.2815515655446004}
"""Quantiles of the standard normal distribution."""
_EXCHANGES: Final = "exchanges"
_HOST: Final = "host"
_OTHER: Final = "layers' other"


@dataclass(frozen=True)
class StepTime:
    """What a step takes.

    Attributes:
        parts_s: seconds by cause, `PARTS`.
        sigma: one sigma of the logarithm of (true / `time_s`).
    """

    parts_s: Mapping[str, float]
    sigma: float

    @property
    def time_s(self) -> float:
        """Median seconds."""
        return sum(self.parts_s.values())

    def at(self, quantile: str) -> float:
        """Seconds at a quantile of `QUANTILES`."""
        return self.time_s * math.exp(QUANTILES[quantile] * self.sigma)


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
    _known: dict[tuple[int, ...], StepTime] = field(default_factory=dict, repr=False)
    _sources: Sources = field(default_factory=Sources, repr=False)

    @property
    def source(self) -> str:
        """Where the times of its layers come from."""
        given = Pass(Phase.DECODE, 1, 1)
        return self.times.of(blocks(self.model, given, self.split)[1], given).source

    @property
    def sources(self) -> dict[str, str]:
        """Where the times of all steps until now come from, by phase."""
        return self._sources.words()

    def prefill(self, prompts: int, tokens: int, past: int) -> StepTime:
        """A step of `prompts` prompts of `tokens` tokens behind `past` that are there."""
        key = (prompts, tokens, past)
        if key not in self._known:
            each, stages = self._each(prompts), self.pipeline
            given = Pass(Phase.PREFILL, each if stages == 1 else 1, tokens, past)
            found = self._of_blocks(self._blocks(self.model, given), given)
            times = 1.0 if stages == 1 else (each + stages - 1) / stages
            self._known[key] = self._whole(found, given, times=times)
        return self._known[key]

    def decode(self, batch: int, length: int) -> StepTime:
        """A step that gives `batch` sequences of `length` tokens their next ones."""
        key = (batch, length)
        if key not in self._known:
            given = self._decoding(batch, length)
            found = self._of_blocks(self._blocks(self.model, given), given)
            self._known[key] = self._whole(found, given, self._drafted(batch, length))
        return self._known[key]

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> StepTime:
        """A step of both: weights are read once, rows are multiplied together."""
        key = (prompts, tokens, past, batch, length)
        if key not in self._known:
            filling = Pass(Phase.PREFILL, self._each(prompts), tokens, past)
            decoding = self._decoding(batch, length)
            one = self._blocks(self.model, filling)
            two = self._blocks(self.model, decoding)
            ahead = len(one) - len(two)  # blocks of an encoder, which decoding does not take
            both = zip(one[ahead:], two, strict=True)
            merged = [*one[:ahead], *(_merged(first, second) for first, second in both)]
            found = self._of_blocks(merged, filling)
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
        parts, _ = self._of_blocks(made, given)
        return self.speculation.tokens * sum(parts.values())

    def _whole(
        self,
        found: tuple[dict[str, float], dict[str, float]],
        given: Pass,
        draft_s: float = 0.0,
        times: float = 1.0,
    ) -> StepTime:
        """`times` passes as a step, and its spread.

        Errors of one source are the same in all layers: they add up, those of others in squares.
        Those of exchanges are in the spread of layers whose rows had exchanges in them.
        A draft errs as the model does.
        """
        parts = {name: time_s * times for name, time_s in found[0].items()}
        parts[_EXCHANGES] += self._hops_s(given)
        passes_s = sum(parts.values())
        errors = [error_s * times * (1 + draft_s / passes_s) for error_s in found[1].values()]
        parts["draft"] += draft_s
        parts[_HOST] += self.host_s
        whole_s = sum(parts.values())
        errors.append(self.host_s * self.host_spread)
        return StepTime(parts, math.sqrt(sum(error_s**2 for error_s in errors)) / whole_s)

    def _of_blocks(
        self, made: Sequence[Block], given: Pass
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds by part, and one sigma of the error by source, in seconds."""
        parts: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        errors: dict[str, float] = {}
        for block in made:
            layer = self.times.of(block, given)
            self._sources.add(given.phase, block.name, layer.source, given)
            for name, time_s in layer.parts_s.items():
                for part, share in _shares(name, block):
                    parts[part] += time_s * share * block.times
            exchanged_s = sum(self._exchange_s(one) * one.times for one in block.exchanges)
            parts[_EXCHANGES] += exchanged_s * block.times
            erring_s = layer.time_s + (exchanged_s if layer.has_exchanges else 0.0)
            error_s = erring_s * layer.spread * block.times
            errors[layer.source] = errors.get(layer.source, 0.0) + error_s
            if not layer.has_exchanges:
                error_s = exchanged_s * Evidence.DERIVED.spread * block.times
                errors[_EXCHANGES] = errors.get(_EXCHANGES, 0.0) + error_s
        return parts, errors

    def _blocks(self, model: Architecture, given: Pass) -> list[Block]:
        return [self._loaded(one, given) for one in blocks(model, given, self.split)]

    def _loaded(self, block: Block, given: Pass) -> Block:
        """The block as the busiest rank of its experts has it."""
        if self.split.expert == 1:
            return block
        factor = self.imbalance or even_imbalance(given.rows, self.split.expert)
        return replace(
            block,
            products=tuple(
                replace(one, m=one.m * factor) if one.name.startswith("expert ") else one
                for one in block.products
            ),
            exchanges=tuple(
                replace(one, nbytes=one.nbytes * factor) if one.axis is Axis.EXPERT else one
                for one in block.exchanges
            ),
        )

    def _exchange_s(self, one: Exchange) -> float:
        if one.axis is Axis.EXPERT:
            spread = Spread(self.split.expert, self.split.tensor)
        else:
            spread = Spread(self.split.tensor)
        return exchange_s(self.machine, one.kind, one.nbytes, spread)

    def _hops_s(self, given: Pass) -> float:
        """Seconds in which hidden states go from stage to stage."""
        if self.pipeline == 1:
            return 0.0
        nbytes = given.rows * self.model.decoder.hidden * self.model.other_bits / 8
        stage = self.split.ranks * self.split.expert
        is_apart = stage * self.pipeline > self.machine.ranks
        spread = Spread(2, self.machine.ranks if is_apart else stage)
        hop_s = exchange_s(self.machine, "send", nbytes / self.split.tensor, spread)
        return (self.pipeline - 1) * hop_s


def exchange_s(machine: Machine, kind: str, nbytes: float, spread: Spread) -> float:
    """Seconds of an exchange of groups of ranks."""
    return exchange(machine.instance.name, machine.lnc, kind, nbytes, spread).time_s


def even_imbalance(tokens: int, ranks: int) -> float:
    """``1 + sqrt(2 ln(ranks) / tokens a rank)``: the most of `ranks` that even chance fills.

    The maximum of as many normal variables of variance and mean ``tokens / ranks``, and at most
    all tokens on one rank.
    """
    return min(1 + math.sqrt(2 * math.log(ranks) * ranks / max(tokens, 1)), float(ranks))


def _shares(name: str, block: Block) -> tuple[tuple[str, float], ...]:
    """The parts of a step to which a part of a layer's time belongs."""
    if name == "HBM":
        kept = block.cache.read_bytes + block.cache.written_bytes
        whole = block.weight_bytes + kept
        share = block.weight_bytes / whole if whole else 1.0
        return (("weights", share), ("KV", 1 - share))
    return ((name, 1.0),) if name in PARTS else ((_OTHER, 1.0),)


def _once(block: Block) -> Block:
    """One of equal layers."""
    return replace(block, times=min(block.times, 1))


def _merged(one: Block, two: Block) -> Block:
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
