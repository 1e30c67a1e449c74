"""A workload of a company: its model, monthly volume, current deployment and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final, Literal

from trnsim.errors import SourceLine
from trnsim.system.serve.demand import Slo
from trnsim.workload.architecture import Architecture

Kind = Literal["train", "serve", "infer"]
"""Training, serving of a model that generates tokens, and inference without generated tokens."""

VolumeUnit = Literal["tokens_per_month", "items_per_month", "gpu_hours"]
"""Tokens that are trained on or generated, sequences or images, or accelerator-hours, a month."""

PortState = Literal["tuned", "as-ported"]
"""States of a model's port to AWS's chips: members of `trnsim.estimate.ported.Port`."""

KINDS: Final[tuple[Kind, ...]] = ("train", "serve", "infer")
VOLUME_UNITS: Final[tuple[VolumeUnit, ...]] = ("tokens_per_month", "items_per_month", "gpu_hours")
_LIMITS_BY_KIND: Final[dict[Kind, tuple[str, ...]]] = {
    "train": ("deadline_hours",),
    "serve": ("ttft_s", "tpot_s", "latency_s"),
    "infer": ("latency_s", "deadline_hours"),
}
"""Fields of the limits that apply to each kind of workload; other limits have no effect."""


@dataclass(frozen=True)
class CurrentDeployment:
    """Instances that run a workload today, with their bill and region.

    Attributes:
        instance: instance type, a name of the catalogue.
        count: number of instances, or None if not stated.
        kind: kind of purchase, one of `trnsim.price.quotes.KINDS`.
        region: code of the AWS region, or None if not stated.
    """

    instance: str
    count: int | None
    kind: str
    usd_per_month: float
    region: str | None


@dataclass(frozen=True)
class Shape:
    """Lengths and sizes of a pass of the model; None if not stated.

    Attributes:
        sequence: tokens of a sequence in training, or in inference of kind "infer".
        input_len: tokens of a request.
        output_len: tokens of an answer.
        batch: sequences or images of a training step or of a pass.
        image: pixels of an image along a side.
        steps: passes of the model for one item, such as denoising steps.
    """

    sequence: int | None = None
    input_len: int | None = None
    output_len: int | None = None
    batch: int | None = None
    image: int | None = None
    steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload of an inventory.

    Attributes:
        model_path: file from which `model` was read.
        volume: work of a month, in `volume_unit`.
        current: instances that run it today, with their bill and region.
        shape: lengths and sizes of a pass of the model.
        slo: limits of latency.
        deadline_hours: hours within which a month's training or offline inference must end.
        sources: program files and folders to scan.
        staff_weeks: engineer-weeks that the company can give to a migration.
        other_clouds: clouds other than AWS on which the workload runs too.
        is_portability_needed: True if the same program must run on the other clouds.
        framework: framework of the programs: "pytorch", "jax", "tensorflow", "cuda" or "other".
        is_committed_to_aws: True if the company means to stay with AWS; None if not stated.
        peak_ratio: demand of the busiest hour over the mean.
        port_state: state of the model's port to AWS's chips.
        as_of: last day of the bill in `current`; None if not stated.
        line: file and line of the row in the inventory, for errors.
        assumptions: assumptions in place of values that the inventory does not state.
    """

    name: str
    kind: Kind
    model: Architecture
    model_path: Path
    volume: float
    volume_unit: VolumeUnit
    current: CurrentDeployment
    line: SourceLine
    shape: Shape = field(default_factory=Shape)
    slo: Slo = field(default_factory=Slo)
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

    @property
    def is_always_on(self) -> bool:
        """True if users wait for the answers, so that instances are on all month."""
        return self.kind == "serve" or (self.kind == "infer" and self.slo.latency_s is not None)

    @property
    def stated_limits(self) -> dict[str, float]:
        """Limits of latency and of the deadline that the inventory states, by field."""
        slo = self.slo
        limits = {
            "ttft_s": slo.ttft_s,
            "tpot_s": slo.tpot_s,
            "latency_s": slo.latency_s,
            "deadline_hours": self.deadline_hours,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def limits(self) -> dict[str, float]:
        """The stated limits of the kind, which placements must keep; no deadline if always on."""
        return {
            name: limit
            for name, limit in self.stated_limits.items()
            if name in _LIMITS_BY_KIND[self.kind]
            and not (self.is_always_on and name == "deadline_hours")
        }
