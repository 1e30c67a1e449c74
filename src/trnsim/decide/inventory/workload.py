"""A workload of a company: its model, volume, instances, bill and limits of today."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final, Literal

from trnsim.errors import SourceLine
from trnsim.workload.architecture import Architecture

__all__ = [
    "KINDS", "VOLUME_UNITS", "Current", "Kind", "PortState", "Shape", "VolumeUnit", "Workload",
    "WorkloadSlo",
]  # fmt: skip

Kind = Literal["train", "serve", "infer"]
"""Training, serving of a model that writes tokens, and single passes (encoders, images)."""

VolumeUnit = Literal["tokens_per_month", "items_per_month", "gpu_hours"]
"""Tokens trained on or written; sequences or images passed; hours of accelerators a month."""

PortState = Literal["tuned", "as-ported"]
"""States of a port to AWS's chips, by `trnsim.estimate.ported.Port`."""

KINDS: Final[tuple[Kind, ...]] = ("train", "serve", "infer")
VOLUME_UNITS: Final[tuple[VolumeUnit, ...]] = ("tokens_per_month", "items_per_month", "gpu_hours")


@dataclass(frozen=True)
class Current:
    """Instances, bill and region of a workload today.

    Attributes:
        instance: name of the instance in the catalogue.
        count: number of instances, or None if not stated.
        kind: kind of purchase, one of `trnsim.price.quotes.KINDS`.
        usd_per_month: bill of the workload.
        region: code of the AWS region, or None if not stated.
    """

    instance: str
    count: int | None
    kind: str
    usd_per_month: float
    region: str | None


@dataclass(frozen=True)
class Shape:
    """Lengths and sizes of a pass; None if not stated.

    Attributes:
        sequence: tokens of a sequence that is trained on or passed.
        input_len: tokens of a request.
        output_len: tokens of an answer.
        batch: sequences or images of a step or a pass.
        image: pixels of an image along a side.
        steps: passes that make one item, such as denoising steps.
    """

    sequence: int | None = None
    input_len: int | None = None
    output_len: int | None = None
    batch: int | None = None
    image: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class WorkloadSlo:
    """Limits of latency that `percentile` percent of requests must keep; None without a limit.

    Attributes:
        ttft_s: time to the first token.
        tpot_s: time for each further token.
        latency_s: time of a whole request or pass.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None
    percentile: float = 99


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload of an inventory.

    Attributes:
        model_path: file from which `model` was read.
        volume: work of a month, in `volume_unit`.
        deadline_hours: hours within which a month's training must end.
        sources: program files and folders to scan.
        staff_weeks: engineer-weeks that the company can give to a migration.
        other_clouds: clouds other than AWS on which it also runs.
        is_portability_needed: True if it must run on them unchanged.
        framework: framework of its programs, one of the legal values of the field.
        peak_ratio: demand of the busiest hour over the mean.
        port_state: state of the model's port to AWS's chips.
        as_of: last day of the bill that `current` repeats.
        line: line of its row in the inventory, for errors.
        assumptions: assumptions in place of values that the inventory does not state.
    """

    name: str
    kind: Kind
    model: Architecture
    model_path: Path
    volume: float
    volume_unit: VolumeUnit
    current: Current
    line: SourceLine
    shape: Shape = field(default_factory=Shape)
    slo: WorkloadSlo = field(default_factory=WorkloadSlo)
    deadline_hours: float | None = None
    sources: tuple[Path, ...] = ()
    staff_weeks: float | None = None
    other_clouds: tuple[str, ...] = ()
    is_portability_needed: bool = False
    framework: str | None = None
    is_committed_to_aws: bool | None = None
    peak_ratio: float | None = None
    port_state: PortState = "tuned"
    as_of: date | None = None
    assumptions: tuple[str, ...] = ()
