"""The time of a training step by cause, with its interval, and its memory.

    step = pipeline (computing, exchanges of layers, bubble)
         + exchanges of gradients and weights that nothing hides + optimizer + host

One rank of each stage stands for all that have the same layers. Gradients of a layer are reduced
while earlier layers compute theirs, in the last micro batch; weights are gathered while the first
micro batch passes layers that have theirs. What exceeds that is exposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trnsim.estimate.certainty import FEW, judged
from trnsim.estimate.choice import bytes_per_s, layer_times
from trnsim.estimate.estimate import EXCHANGES, HOST, Estimate
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.times import LayerTimes, Sources
from trnsim.fabric.constants import BANDWIDTHS
from trnsim.facts import Interval, assumed
from trnsim.place.machine import Machine
from trnsim.system.train import memory, pipeline
from trnsim.system.train.exchanges import exchanges
from trnsim.system.train.layout import Layout, check
from trnsim.system.train.memory import WEIGHT_BYTES, StageMemory
from trnsim.system.train.stages import Chunk, StagePart, all_parts, chunks, training_pass
from trnsim.system.train.work import (
    GRADIENT_BYTES,
    Passes,
    StageWork,
    shared_s,
    still_passes,
    with_movement,
)
from trnsim.workload.architecture import Architecture
from trnsim.workload.gradients import OPTIMIZERS
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

_HOST_S: Final = assumed(
    2e-3, "the host between steps: loss read, next batch given, programs begun"
)
AXES: Final = ("tensor", "context", "expert", "data")
"""Parts of a step that are exchanges, by axis of the layout."""
_GRADIENT_PASSES: Final = 3
"""Forward and two gradients, each with as many multiplications."""


@dataclass(frozen=True)
class TrainingStep:
    """A training step of a layout.

    Attributes:
        layout: the layout.
        step_s: seconds.
        estimate: its time. Its parts are causes of computing, exchanges between ranks of an axis
            ("tensor", "context", "expert", "data", the last one as far as it is exposed), "bubble",
            "optimizer" and "host".
        parts_s: median seconds by what a rank does: "compute" stands for all causes of computing.
        data_hidden_s: seconds of exchanges of gradients and weights behind computing.
        memory: the memory of a rank of each stage.
        flop: useful FLOPs of a step, masked and repeated ones left out.
        mfu: these over the peak FLOPs of all chips in that time.
        sequences_per_s: ``global batch / step``.
        tokens_per_s_per_chip: ``global batch sequence / (step chips)``.
    """

    layout: Layout
    step_s: Interval
    estimate: Estimate
    parts_s: dict[str, float]
    data_hidden_s: float
    memory: tuple[StageMemory, ...]
    flop: float
    mfu: float
    sequences_per_s: Interval
    tokens_per_s_per_chip: Interval


def _inverse(time_s: Interval, count: float) -> Interval:
    return Interval(count / time_s.p90, count / time_s.p50, count / time_s.p10)


@dataclass(frozen=True)
class _Sync:
    """Seconds of a stage's reduction of gradients and gathering of weights, once a step."""

    reduced_s: float
    gathered_s: float
    hidden_s: float

    @property
    def exposed_s(self) -> float:
        return self.reduced_s + self.gathered_s - self.hidden_s


@dataclass(frozen=True)
class _Held:
    """A part with the parameters of all parts of a stage, and the number of its layers."""

    part: StagePart
    layers: float


@dataclass(frozen=True)
class _RoughWork:
    """The work of a micro batch on all parts of a model.

    Attributes:
        total: the work of all parts together.
        ends_s: seconds of the last one.
        weights_s: seconds of gradients of weights.
    """

    total: StageWork
    ends_s: float
    weights_s: float


class TrainingSteps:
    """Steps of layouts of one model on one machine."""

    def __init__(
        self,
        model: Architecture,
        machine: Machine,
        times: LayerTimes | None = None,
        *,
        measured: MeasuredTimes | None = None,
    ) -> None:
        self.model = model
        self.machine = machine
        self.exchanges = exchanges(machine)
        self._own_times = times
        self._measured = measured
        self._still: dict[tuple[object, ...], tuple[PartSummary, Passes]] = {}
        self._passes: dict[tuple[object, ...], Passes] = {}
        self._rough: dict[tuple[object, ...], tuple[Chunk, _RoughWork]] = {}
        self._flop: dict[int, float] = {}
        self._times_by_dtype: dict[str, LayerTimes] = {}

    def step(self, layout: Layout) -> TrainingStep:
        """The step of a layout.

        Raises:
            BadInput: the machine or the model cannot have it.
            OutOfMemory: a stage needs more than a rank's HBM.
        """
        check(layout, self.model, self.machine)
        needed = memory.stages(self.model, layout)
        memory.check(needed, layout, self.machine)
        return self.timed(layout, tuple(needed))

    def timed(self, layout: Layout, needed: tuple[StageMemory, ...]) -> TrainingStep:
        """The step of a layout that is legal and fits."""
        pipe = chunks(self.model, layout)
        work = [self._chunk_passes(chunk, layout) for chunk in pipe]
        pipe_s = pipeline.step_s(
            layout.schedule,
            layout.pipeline,
            layout.virtual,
            layout.micro_batches,
            self.costs(work, layout),
        )
        count, rounds = layout.pipeline, layout.micro_batches
        by_stage = [_total_work(work[at::count]) for at in range(count)]
        busiest = max(by_stage, key=lambda stage: stage.total_s).times(rounds)
        held = [_held([part for chunk in pipe[at::count] for part in chunk]) for at in range(count)]
        shared = [self._sync(held[at], by_stage[at], layout) for at in range(count)]
        slowest = max(shared, key=lambda stage: stage.exposed_s)
        update_s = max(self._update_s(part, layout) for part in held)
        stage = by_stage.index(max(by_stage, key=lambda stage: stage.total_s))
        layers = [layer for chunk in work[stage::count] for layer in chunk]
        passes_estimate = replace(
            self._passes_estimate(layers, busiest, layout), sources=_sources(pipe, work)
        )
        once_s = {
            "data": busiest.data_s + slowest.exposed_s,
            "bubble": max(pipe_s - busiest.total_s, 0.0) if layout.pipeline > 1 else 0.0,
            "optimizer": update_s,
        }
        estimate = _whole_step(passes_estimate, once_s)
        time_s, step_s, flop = estimate.time_s, estimate.interval, self.flop(layout)
        peak, chips = self.machine.peak(layout.dtype), self.machine.chips
        return TrainingStep(
            layout,
            step_s,
            estimate,
            _by_rank(estimate.parts_s),
            slowest.hidden_s,
            needed,
            flop,
            flop / (peak * chips * time_s),
            _inverse(step_s, layout.global_batch),
            _inverse(step_s, layout.global_batch * layout.sequence / chips),
        )

    def _passes_estimate(self, layers: list[Passes], work: StageWork, layout: Layout) -> Estimate:
        """The passes of a step on one stage: as sure as one of them alone is."""
        rounds = layout.micro_batches
        exchanged_s = {"tensor": work.tensor_s, "context": work.context_s, "expert": work.expert_s}
        errors_s = _sums((layer.errors_s, rounds * layer.count) for layer in layers)
        causes_s = _sums((layer.causes_s, rounds * layer.count) for layer in layers)
        return judged(
            Estimate(causes_s | exchanged_s, errors_s),
            self.model,
            training_pass(layout),
            self.machine,
            layout.tensor,
        )

    def rough_s(self, layout: Layout) -> float:
        """Seconds of a step by the bubble's closed form, with equal stages but for the last.

        No schedule is run: a search ranks layouts by it.
        """
        parts = all_parts(self.model, layout)
        rough = self._rough_work(parts, layout)
        total, ends_s, weights_s = rough.total, rough.ends_s, rough.weights_s
        stage_s = (total.total_s - ends_s) / layout.pipeline
        shorter = {"1f1b": 0.0, "zb-h1": 2 * weights_s, "zb-h2": 3 * weights_s}[layout.schedule]
        waits = stage_s + 2 * self._transfer_s(layout) - shorter / layout.pipeline
        bubble_s = (layout.pipeline - 1) * max(waits, 0.0) / layout.virtual
        held = _held(parts, layout.pipeline)
        share = total.times(1 / layout.pipeline)
        once_s = self._sync(held, share, layout).exposed_s + self._update_s(held, layout)
        return layout.micro_batches * (stage_s + ends_s) + bubble_s + once_s + _HOST_S

    def _rough_work(self, parts: Chunk, layout: Layout) -> _RoughWork:
        """The work of a micro batch on all parts, computed once for all layouts that share it."""
        key = (id(parts), *_work_key(layout))
        if key not in self._rough:
            layers = [_repeat_layer(self._part_passes(part, layout), part.times) for part in parts]
            work = _RoughWork(
                _total_work([layers]),
                layers[-1].forward.total_s + layers[-1].backward.total_s,
                sum(layer.weights_s for layer in layers),
            )
            self._rough[key] = parts, work  # the parts are kept, so that no others can have the id
        return self._rough[key][1]

    def costs(self, work: list[list[Passes]], layout: Layout) -> pipeline.StageCosts:
        """The seconds of each part's operations, and of the transfers between stages."""
        is_split = layout.schedule != "1f1b"
        weights = [sum(layer.weights_s for layer in chunk) if is_split else 0.0 for chunk in work]
        return pipeline.StageCosts(
            [sum(layer.forward.total_s for layer in chunk) for chunk in work],
            [
                sum(layer.backward.total_s for layer in chunk) - split_s
                for chunk, split_s in zip(work, weights, strict=True)
            ],
            weights,
            self._transfer_s(layout),
        )

    def work(self, layout: Layout) -> list[list[Passes]]:
        """The work of a micro batch on each part of the pipeline."""
        return [self._chunk_passes(chunk, layout) for chunk in chunks(self.model, layout)]

    def flop(self, layout: Layout) -> float:
        """Useful FLOPs of a step."""
        if layout.sequence not in self._flop:
            blocks = summaries(self.model, Pass(Phase.TRAIN, 1, layout.sequence))
            self._flop[layout.sequence] = sum(block.times * block.useful_flop for block in blocks)
        return _GRADIENT_PASSES * layout.global_batch * self._flop[layout.sequence]

    def _times(self, dtype: str) -> LayerTimes:
        if self._own_times:
            return self._own_times
        if dtype not in self._times_by_dtype:
            times = layer_times(self.machine, "train", dtype, measured=self._measured)
            self._times_by_dtype[dtype] = times
        return self._times_by_dtype[dtype]

    def _chunk_passes(self, chunk: Chunk, layout: Layout) -> list[Passes]:
        return [_repeat_layer(self._part_passes(part, layout), part.times) for part in chunk]

    def _part_passes(self, part: StagePart, layout: Layout) -> Passes:
        """The work of one of a part's layers, computed once for all layouts that share it."""
        key = (id(part.summary), *_work_key(layout))
        if key not in self._passes:
            still = self._still_passes(part, layout)
            self._passes[key] = with_movement(still, part, layout, self.exchanges)
        return self._passes[key]

    def _still_passes(self, part: StagePart, layout: Layout) -> Passes:
        """The work of a layer without what ZeRO moves, whose time depends on the data ranks."""
        key = (id(part.summary), layout.recompute, layout.dtype)
        if key not in self._still:
            times = self._times(layout.dtype)
            # The summary is kept, so that no other can have its id.
            self._still[key] = part.summary, still_passes(part, layout, times, self.exchanges)
        return self._still[key][1]

    def _transfer_s(self, layout: Layout) -> float:
        """Seconds in which a stage sends activations to the next, each tensor rank its share.

        Source: Narayanan et al. 2021 (arXiv:2104.04473), section 4.1, scatter and gather.
        """
        if layout.pipeline == 1:
            return 0.0
        rows = layout.micro_batch * layout.sequence / layout.context
        nbytes = WEIGHT_BYTES[layout.dtype] * rows * self.model.decoder.hidden
        spreads = layout.spreads
        sent_s = self.exchanges.time_s("send", nbytes / layout.tensor, spreads["pipeline"])
        if layout.is_sequence:
            return sent_s
        return sent_s + self.exchanges.time_s("all_gather", nbytes, spreads["tensor"])

    def _sync(self, held: _Held, work: StageWork, layout: Layout) -> _Sync:
        """The exchanges of a stage once a step, and the part that computing hides."""
        total, layers = held.part, held.layers
        reduced_s = gathered_s = 0.0
        if not layout.shards_optimizer:
            reduced_s = shared_s("all_reduce", total, GRADIENT_BYTES, layout, self.exchanges)
        elif not layout.shards_gradients:
            reduced_s = shared_s("reduce_scatter", total, GRADIENT_BYTES, layout, self.exchanges)
        if layout.shards_optimizer and not layout.shards_weights:
            width = WEIGHT_BYTES[layout.dtype]
            gathered_s = shared_s("all_gather", total, width, layout, self.exchanges)
        beside = 1 - 1 / max(layers, 1)  # the last layer's have nothing to hide behind
        forward_s = work.compute_s / _GRADIENT_PASSES
        backward_s = work.compute_s - forward_s
        hidden_s = min(beside * reduced_s, backward_s) + min(beside * gathered_s, forward_s)
        return _Sync(reduced_s, gathered_s, hidden_s)

    def _update_s(self, held: _Held, layout: Layout) -> float:
        """Seconds in which the optimizer's state crosses HBM."""
        total = held.part
        parameters = total.dense + total.experts
        if layout.shards_optimizer:
            parameters = (total.dense + total.experts * layout.expert) / layout.shard
        width = WEIGHT_BYTES[layout.dtype]
        moved = OPTIMIZERS[layout.optimizer].moved_bytes(width, GRADIENT_BYTES)
        return parameters * moved / bytes_per_s(self.machine)


def _sums(counted: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Sums by name of figures, each times its count."""
    sums: dict[str, float] = {}
    for figures, count in counted:
        for name, figure in figures.items():
            sums[name] = sums.get(name, 0.0) + count * figure
    return sums


def _whole_step(passes_estimate: Estimate, once_s: Mapping[str, float]) -> Estimate:
    """A step: its passes, and parts that have their relative error.

    Rows of whole steps have exchanges of data ranks in them; times that a user measured have not.
    """
    estimate, alike_s = passes_estimate, dict(once_s)
    if not any(source.startswith(FEW) for source in estimate.errors_s):
        spread = BANDWIDTHS.provenance.spread
        estimate = estimate.plus("data", alike_s.pop("data"), source=EXCHANGES, spread=spread)
    return estimate.with_parts_in_proportion(alike_s).plus(HOST, float(_HOST_S))


def _by_rank(parts_s: Mapping[str, float]) -> dict[str, float]:
    """Seconds by what a rank does, of seconds by cause."""
    others = (*AXES, "bubble", "optimizer", HOST)
    computed_s = sum(time_s for name, time_s in parts_s.items() if name not in others)
    return {"compute": computed_s, **{name: parts_s[name] for name in others}}


def _sources(pipe: list[Chunk], work: list[list[Passes]]) -> dict[str, str]:
    """Sources of the times of both passes, by part where these differ."""
    sources = Sources()
    for chunk, passed in zip(pipe, work, strict=True):
        for part, layer in zip(chunk, passed, strict=True):
            sources.add("forward", part.summary.name, layer.ahead.source)
            sources.add("backward", part.summary.name, layer.back.source)
    return sources.words()


def _work_key(layout: Layout) -> tuple[object, ...]:
    """The fields that the work of a layer depends on, beside its summary."""
    moved = (layout.zero, layout.data) if layout.shards_gradients else (0, 0)
    return (layout.recompute, layout.dtype, *moved)


def _repeat_layer(layer: Passes, count: float) -> Passes:
    return replace(
        layer,
        forward=layer.forward.times(count),
        backward=layer.backward.times(count),
        weights_s=count * layer.weights_s,
        count=count * layer.count,
    )


def _total_work(work: list[list[Passes]]) -> StageWork:
    total = StageWork()
    for chunk in work:
        for layer in chunk:
            total = total + layer.forward + layer.backward
    return total


def _held(parts: Sequence[StagePart], stages: int = 1) -> _Held:
    """What a stage holds of these parts, of which each of `stages` has an equal share."""
    first = parts[0]
    dense = sum(part.times / stages * part.dense for part in parts)
    experts = sum(part.times / stages * part.experts for part in parts)
    part = StagePart(first.summary, 1, first.tower, first.layer, dense, experts)
    return _Held(part, sum(part.times / stages for part in parts if part.is_layer))
