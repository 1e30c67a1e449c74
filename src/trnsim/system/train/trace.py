"""The pipeline of a training step as a Perfetto trace: a track for each stage."""

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


def perfetto(
    model: Architecture, machine: Machine, layout: Layout, measured: MeasuredTimes | None = None
) -> bytes:
    """The trace of one data rank's pipeline; a user's measured times take precedence.

    Raises:
        BadInput: it has more operations than a viewer shows.
    """
    stages, parts = layout.pipeline, layout.virtual
    operations = 2 * stages * parts * layout.micro_batches
    if operations > _MOST_OPERATIONS:
        raise BadInput(
            f"--trace: a step has {operations:,} operations; at most {_MOST_OPERATIONS:,}",
            fix="use a smaller --global-batch",
        )
    steps = TrainingSteps(model, machine, measured=measured)
    costs = steps.costs(steps.work(layout), layout)
    orders = pipeline.orders(layout.schedule, stages, parts, layout.micro_batches)
    schedule = pipeline.run(orders, costs)
    tracks = {
        f"stage {at}": [_named_span(span, stages, parts) for span in spans]
        for at, spans in enumerate(schedule.stages)
    }
    if costs.transfer_s and stages > 1:
        tracks["transfers"] = _transfers(schedule, costs.transfer_s, stages * parts)
    return perfetto_spans(f"{model.name}: {layout}", tracks)


def _named_span(span: pipeline.StageSpan, stages: int, parts: int) -> NamedSpan:
    kind, part, micro_batch = span.operation
    place = f", part {part // stages}" if parts > 1 else ""
    return NamedSpan(f"{pipeline.KINDS[kind]} {micro_batch}{place}", span.start_s, span.end_s)


def _transfers(schedule: pipeline.StepSchedule, transfer_s: float, parts: int) -> list[NamedSpan]:
    """Transfers between stages: results ahead, gradients back."""
    transfers = []
    for spans in schedule.stages:
        for span in spans:
            kind, part, micro_batch = span.operation
            is_sent = (kind == pipeline.FORWARD and part < parts - 1) or (
                kind == pipeline.BACKWARD and part > 0
            )
            if is_sent:
                name = f"{pipeline.KINDS[kind]} {micro_batch} of part {part}"
                transfers.append(NamedSpan(name, span.end_s, span.end_s + transfer_s))
    return sorted(transfers, key=lambda span: span.start_s)
