"""Time of a training step by cause, with its interval, and its memory.

    step = pipeline (compute, collectives of layers, bubble)
         + exposed collectives of gradients and weights + optimizer + host

One rank of each stage represents all ranks of that stage. In the last micro batch the gradients of
a layer are reduced while earlier layers run backward; in the first micro batch weights are gathered
while layers with gathered weights run forward. The time of these collectives beyond that compute is
exposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from trnsim.estimate.certainty import judged_estimate
from trnsim.estimate.choice import bytes_per_s, layer_times
from trnsim.estimate.estimate import HOST, Estimate
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.times import LayerTimes, Sources, summed_errors
from trnsim.estimate.training import step_estimate
from trnsim.facts import Interval, assumed
from trnsim.place.machine import Machine
from trnsim.system.train import memory, pipeline
from trnsim.system.train.exchanges import exchanges
from trnsim.system.train.layout import Layout, check
from trnsim.system.train.memory import GRADIENT_BYTES, WEIGHT_BYTES, StageMemory
from trnsim.system.train.optimizers import optimizer_for
from trnsim.system.train.stages import Chunk, StagePart, all_parts, chunks, training_pass
from trnsim.system.train.work import (
    Passes,
    StageWork,
    parameter_exchange_s,
    passes_with_zero,
    passes_without_zero,
)
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

_HOST_S: Final = assumed(
    2e-3, "the host between steps: loss read, next batch given, programs begun"
)
AXES: Final = ("tensor", "context", "expert", "data")
"""Parts of a step that are collectives, by axis of the layout."""
_GRADIENT_PASSES: Final = 3
"""Forward, gradients of inputs, gradients of weights: passes with the same number of FLOPs."""


@dataclass(frozen=True)
class TrainingStep:
    """A training step of a layout.

    Attributes:
        layout: the layout.
        step_s: seconds of the step.
        estimate: time of the step by part: causes of compute, collectives of an axis ("tensor",
            "context", "expert", and the exposed part of "data"), "bubble", "optimizer" and "host".
        parts_s: median seconds by part, with all causes of compute summed as "compute".
        data_hidden_s: seconds of collectives of gradients and weights that compute hides.
        memory: the memory of a rank of each stage.
        flop: useful FLOPs of the step, without masked and recomputed FLOPs.
        mfu: model FLOPs utilization: ``flop / (peak x chips x step)``.
        sequences_per_s: ``global batch / step``.
        tokens_per_s_per_chip: ``global batch x sequence / (step x chips)``.
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


@dataclass(frozen=True)
class _Sync:
    """Collectives of a stage's gradients and weights once a step.

    Attributes:
        reduce_s: seconds of the reduction of gradients.
        gather_s: seconds of the gathering of weights.
        hidden_s: seconds of reduction and gathering that compute hides.
    """

    reduce_s: float
    gather_s: float
    hidden_s: float

    @property
    def exposed_s(self) -> float:
        return self.reduce_s + self.gather_s - self.hidden_s


@dataclass(frozen=True)
class _StageParameters:
    """The parameters of a stage on one rank, as one part, and the number of its layers."""

    part: StagePart
    layers: float


@dataclass(frozen=True)
class _RoughWork:
    """The work of a micro batch on all parts of a model.

    Attributes:
        total: the work of all parts together.
        ends_s: seconds of the last part, the head.
        weights_s: seconds of weight gradients.
    """

    total: StageWork
    ends_s: float
    weights_s: float


class TrainingSteps:
    """Estimates of the steps of any layout of one model on one machine.

    Args:
        model: the architecture.
        machine: the instances.
        times: times of layers; by default the project's own for each dtype.
        measured: a user's measured times of layers, which take precedence in the default.
    """

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
        self._without_zero: dict[tuple[object, ...], tuple[PartSummary, Passes]] = {}
        self._passes: dict[tuple[object, ...], Passes] = {}
        self._rough: dict[tuple[object, ...], tuple[Chunk, _RoughWork]] = {}
        self._flop: dict[int, float] = {}
        self._times_by_dtype: dict[str, LayerTimes] = {}

    def step(self, layout: Layout) -> TrainingStep:
        """The step of a layout.

        Raises:
            BadInput: for a layout that is illegal on the machine or for the model.
            OutOfMemory: if a stage needs more than a rank's HBM.
        """
        check(layout, self.model, self.machine)
        stage_memory = memory.stages(self.model, layout)
        memory.check(stage_memory, layout, self.machine)
        return self.timed(layout, tuple(stage_memory))

    def timed(self, layout: Layout, stage_memory: tuple[StageMemory, ...]) -> TrainingStep:
        """The step of a layout without a check; `stage_memory` is the memory of each stage."""
        stage_chunks = chunks(self.model, layout)
        work = [self._chunk_passes(chunk, layout) for chunk in stage_chunks]
        pipe_s = pipeline.step_s(
            layout.schedule,
            layout.pipeline,
            layout.virtual,
            layout.micro_batches,
            self.costs(work, layout),
        )
        count, rounds = layout.pipeline, layout.micro_batches
        by_stage = [_total_work(work[stage::count]) for stage in range(count)]
        longest_stage = max(range(count), key=lambda stage: by_stage[stage].total_s)
        busiest_work = by_stage[longest_stage].scaled(rounds)
        parameters = [
            _stage_parameters([part for chunk in stage_chunks[stage::count] for part in chunk])
            for stage in range(count)
        ]
        syncs = [
            self._sync(part, stage_work, layout)
            for part, stage_work in zip(parameters, by_stage, strict=True)
        ]
        slowest_sync = max(syncs, key=lambda sync: sync.exposed_s)
        update_s = max(self._update_s(part, layout) for part in parameters)
        flop = self.flop(layout)
        once_per_step_s = {
            "data": busiest_work.data_s + slowest_sync.exposed_s,
            "bubble": max(pipe_s - busiest_work.total_s, 0.0) if layout.pipeline > 1 else 0.0,
            "optimizer": update_s,
        }
        micro_batch = training_pass(layout)
        passes = _passes_estimate(stage_chunks, work, longest_stage, busiest_work, layout)
        passes = judged_estimate(passes, self.model, micro_batch, self.machine, layout.tensor)
        estimate = step_estimate(passes, once_per_step_s, _HOST_S)
        time_s, step_s = estimate.time_s, estimate.interval
        peak, chips = self.machine.peaks[layout.dtype], self.machine.chips
        return TrainingStep(
            layout,
            step_s,
            estimate,
            _by_activity(estimate.parts_s),
            slowest_sync.hidden_s,
            stage_memory,
            flop,
            flop / (peak * chips * time_s),
            step_s.inverse(layout.global_batch),
            step_s.inverse(layout.global_batch * layout.sequence / chips),
        )

    def rough_s(self, layout: Layout) -> float:
        """Rough seconds of a step, without a simulated schedule, by which a search ranks layouts.

        The bubble has its closed form. Stages are equal, except for the head on the last stage.
        """
        parts = all_parts(self.model, layout)
        rough_work = self._rough_work(parts, layout)
        total_work, ends_s, weights_s = rough_work.total, rough_work.ends_s, rough_work.weights_s
        stage_s = (total_work.total_s - ends_s) / layout.pipeline
        saved_s = {"1f1b": 0.0, "zb-h1": 2 * weights_s, "zb-h2": 3 * weights_s}[layout.schedule]
        wait_s = stage_s + 2 * self._transfer_s(layout) - saved_s / layout.pipeline
        bubble_s = (layout.pipeline - 1) * max(wait_s, 0.0) / layout.virtual
        parameters = _stage_parameters(parts, layout.pipeline)
        share = total_work.scaled(1 / layout.pipeline)
        once_per_step_s = self._sync(parameters, share, layout).exposed_s + self._update_s(
            parameters, layout
        )
        return layout.micro_batches * (stage_s + ends_s) + bubble_s + once_per_step_s + _HOST_S

    def _rough_work(self, parts: Chunk, layout: Layout) -> _RoughWork:
        """The work of a micro batch on all parts, cached for layouts of the same `_work_key`."""
        key = (id(parts), *_work_key(layout))
        if key not in self._rough:
            layers = [_repeat_layer(self._part_passes(part, layout), part.times) for part in parts]
            work = _RoughWork(
                _total_work([layers]),
                layers[-1].forward.total_s + layers[-1].backward.total_s,
                sum(layer.weights_s for layer in layers),
            )
            self._rough[key] = parts, work  # keeping the parts keeps their id unique
        return self._rough[key][1]

    def costs(self, work: list[list[Passes]], layout: Layout) -> pipeline.StageCosts:
        """Seconds of each model chunk's operations, and of the transfers between stages."""
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
        """The work of a micro batch on each part of each model chunk."""
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
        """The work of one layer of a part, cached for all layouts with the same `_work_key`."""
        key = (id(part.summary), *_work_key(layout))
        if key not in self._passes:
            without_zero = self._passes_without_zero(part, layout)
            self._passes[key] = passes_with_zero(without_zero, part, layout, self.exchanges)
        return self._passes[key]

    def _passes_without_zero(self, part: StagePart, layout: Layout) -> Passes:
        """The work of one layer without the collectives of ZeRO, so the same for any data ranks."""
        key = (id(part.summary), layout.recompute, layout.dtype)
        if key not in self._without_zero:
            passes = passes_without_zero(part, layout, self._times(layout.dtype), self.exchanges)
            self._without_zero[key] = part.summary, passes  # keeping it keeps its id unique
        return self._without_zero[key][1]

    def _transfer_s(self, layout: Layout) -> float:
        """Seconds of a transfer of activations between stages; each tensor rank sends its share.

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

    def _sync(self, parameters: _StageParameters, work: StageWork, layout: Layout) -> _Sync:
        """The collectives of a stage once a step, and the seconds of them that `work` hides."""
        part = parameters.part
        reduce_s = gather_s = 0.0
        if not layout.shards_gradients:
            kind = "reduce_scatter" if layout.shards_optimizer else "all_reduce"
            reduce_s = parameter_exchange_s(kind, part, GRADIENT_BYTES, layout, self.exchanges)
        if layout.shards_optimizer and not layout.shards_weights:
            width = WEIGHT_BYTES[layout.dtype]
            gather_s = parameter_exchange_s("all_gather", part, width, layout, self.exchanges)
        # The collectives of one layer have no compute of another layer to hide behind.
        hideable_fraction = 1 - 1 / max(parameters.layers, 1)
        forward_s = work.compute_s / _GRADIENT_PASSES
        backward_s = work.compute_s - forward_s
        hidden_s = min(hideable_fraction * reduce_s, backward_s) + min(
            hideable_fraction * gather_s, forward_s
        )
        return _Sync(reduce_s, gather_s, hidden_s)

    def _update_s(self, parameters: _StageParameters, layout: Layout) -> float:
        """Seconds of the optimizer: bytes of state, weights and gradients over HBM bandwidth."""
        part = parameters.part
        parameter_count = part.dense + part.experts
        if layout.shards_optimizer:
            parameter_count = (part.dense + part.experts * layout.expert) / layout.shard_ranks
        width = WEIGHT_BYTES[layout.dtype]
        optimizer = optimizer_for(layout.optimizer, layout.dtype)
        parameter_bytes = optimizer.moved_bytes(width, GRADIENT_BYTES)
        return parameter_count * parameter_bytes / bytes_per_s(self.machine)


def _weighted_sums(
    weighted_figures: Iterable[tuple[Mapping[str, float], float]],
) -> dict[str, float]:
    """Sums by name of several mappings of figures, each weighted by its count."""
    sums: dict[str, float] = {}
    for figures, count in weighted_figures:
        for name, figure in figures.items():
            sums[name] = sums.get(name, 0.0) + count * figure
    return sums


def _passes_estimate(
    pipe: list[Chunk], work: list[list[Passes]], stage: int, stage_work: StageWork, layout: Layout
) -> Estimate:
    """The passes of a step on one stage, with the errors of each layer there.

    Sources are cited for all stages, by part of the model if they differ.
    """
    rounds = layout.micro_batches
    layers = [layer for chunk in work[stage :: layout.pipeline] for layer in chunk]
    causes_s = _weighted_sums((layer.causes_s, rounds * layer.count) for layer in layers)
    causes_s |= {
        "tensor": stage_work.tensor_s,
        "context": stage_work.context_s,
        "expert": stage_work.expert_s,
    }
    errors_s = _weighted_sums(
        (summed_errors(layer.times), rounds * layer.count) for layer in layers
    )
    sources = Sources()
    for part, layer in zip(chain(*pipe), chain(*work), strict=True):
        sources.add("forward", part.summary.name, layer.forward_layer.source)
        sources.add("backward", part.summary.name, layer.backward_layer.source)
    return Estimate(causes_s, errors_s, sources.words())


def _by_activity(parts_s: Mapping[str, float]) -> dict[str, float]:
    """Seconds by part, with all causes of compute summed as "compute"."""
    other_parts = (*AXES, "bubble", "optimizer", HOST)
    computed_s = sum(time_s for name, time_s in parts_s.items() if name not in other_parts)
    return {"compute": computed_s, **{name: parts_s[name] for name in other_parts}}


def _work_key(layout: Layout) -> tuple[object, ...]:
    """The fields of a layout that the work of a layer depends on, besides its summary."""
    zero_fields = (layout.zero, layout.data) if layout.shards_gradients else (0, 0)
    return (layout.recompute, layout.dtype, *zero_fields)


def _repeat_layer(layer: Passes, count: float) -> Passes:
    return replace(
        layer,
        forward=layer.forward.scaled(count),
        backward=layer.backward.scaled(count),
        weights_s=count * layer.weights_s,
        count=count * layer.count,
    )


def _total_work(work: list[list[Passes]]) -> StageWork:
    sum_of_work = StageWork()
    for chunk in work:
        for layer in chunk:
            sum_of_work = sum_of_work + layer.forward + layer.backward
    return sum_of_work


def _stage_parameters(parts: Sequence[StagePart], stages: int = 1) -> _StageParameters:
    """The parameters of a stage that has an equal share, one of `stages`, of some parts."""
    first_part = parts[0]
    dense = sum(part.times / stages * part.dense for part in parts)
    experts = sum(part.times / stages * part.experts for part in parts)
    part = StagePart(first_part.summary, 1, first_part.tower, first_part.layer, dense, experts)
    return _StageParameters(part, sum(part.times / stages for part in parts if part.is_layer))
