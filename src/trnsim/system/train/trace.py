"""Perfetto trace of a training step's pipeline: a track for each stage."""

from __future__ import annotations

from typing import Final

from trnsim.errors import BadInput
from trnsim.estimate.measured import MeasuredTimes
from trnsim.place.machine import Machine
from trnsim.profile.formats.spans import NamedSpan, perfetto_spans
from trnsim.system.train import pipeline
from trnsim.system.train.layout import Layout
from trnsim.system.train.step import TrainingSteps
from trnsim.workload.architecture import Architecture

_MOST_OPERATIONS: Final = 1 << 20
"""Operations that a viewer shows."""


def perfetto(
    model: Architecture, machine: Machine, layout: Layout, measured: MeasuredTimes | None = None
) -> bytes:
    """The trace of one data rank's pipeline; a user's measured times take precedence.

    Raises:
        BadInput: the step has more operations than a viewer shows.
    """
    stages, chunks = layout.pipeline, layout.virtual
    operations = 2 * stages * chunks * layout.micro_batches
    if operations > _MOST_OPERATIONS:
        raise BadInput(
            f"--trace: a step has {operations:,} operations; at most {_MOST_OPERATIONS:,}",
            fix="use a smaller --global-batch",
        )
    steps = TrainingSteps(model, machine, measured=measured)
    costs = steps.costs(steps.work(layout), layout)
    orders = pipeline.orders(layout.schedule, stages, chunks, layout.micro_batches)
    schedule = pipeline.run(orders, costs)
    tracks = {
        f"stage {stage}": [_named_span(span, stages, chunks) for span in spans]
        for stage, spans in enumerate(schedule.stages)
    }
    if costs.transfer_s and stages > 1:
        tracks["transfers"] = _transfers(schedule, costs.transfer_s, stages * chunks)
    return perfetto_spans(f"{model.name}: {layout}", tracks)


def _named_span(span: pipeline.StageSpan, stages: int, chunks: int) -> NamedSpan:
    kind, chunk, micro_batch = span.operation
    chunk_words = f", part {chunk // stages}" if chunks > 1 else ""
    return NamedSpan(f"{pipeline.KINDS[kind]} {micro_batch}{chunk_words}", span.start_s, span.end_s)


def _transfers(schedule: pipeline.StepSchedule, transfer_s: float, chunks: int) -> list[NamedSpan]:
    """Transfers between stages: activations forward, gradients backward."""
    transfers = []
    for spans in schedule.stages:
        for span in spans:
            kind, chunk, micro_batch = span.operation
            is_sent = (kind == pipeline.FORWARD and chunk < chunks - 1) or (
                kind == pipeline.BACKWARD and chunk > 0
            )
            if is_sent:
                name = f"{pipeline.KINDS[kind]} {micro_batch} of part {chunk}"
                transfers.append(NamedSpan(name, span.end_s, span.end_s + transfer_s))
    return sorted(transfers, key=lambda span: span.start_s)
