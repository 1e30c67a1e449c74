"""The speed of single passes: encoders, images and pairs, at the batch that gives the most."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from trnsim.decide.times.families import CLIP, DIFFUSION, ENCODERS, NETWORKS, Family
from trnsim.decide.times.speed import Speed, doubts
from trnsim.errors import EmulatorError, InternalError
from trnsim.estimate.choice import DENOISER, NETWORK
from trnsim.place.machine import machine
from trnsim.system.infer.estimate import InferenceEstimate, estimate
from trnsim.system.infer.parts import Asked, inference
from trnsim.workload.captured import Captured
from trnsim.workload.operators import Phase

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Catalogue
    from trnsim.decide.inventory.workload import Workload

BATCHES: Final = (1, 2, 4, 8, 16, 32)
"""Tried where the inventory names none."""
_TENTH: Final = 1.2815515655446004


def speed(workload: Workload, name: str, rows: Catalogue | None = None) -> Speed:
    """Items a second on the type `name`.

    Of the batches whose latency is kept, the one with most items a second is taken; where none is,
    the quickest.

    Raises:
        EmulatorError: no batch can run.
    """
    taken, is_met = chosen(workload, name, rows)
    return _speed(workload, name, taken, is_met, rows)


def chosen(
    workload: Workload, name: str, rows: Catalogue | None = None
) -> tuple[InferenceEstimate, bool | None]:
    """The estimate of that batch, and whether its latency is kept; None without a limit.

    Raises:
        EmulatorError: no batch can run.
    """
    limit = workload.slo.latency_s
    found: list[InferenceEstimate] = []
    refused: EmulatorError | None = None
    for batch in (workload.shape.batch,) if workload.shape.batch else BATCHES:
        try:
            found.append(estimate(workload.model_path, name, _asked(workload, batch), rows=rows))
        except EmulatorError as error:
            refused = error
            break
    if not found:
        raise refused or InternalError("no batch was tried")
    kept = [one for one in found if limit is None or one.latency_s.p50 <= limit]
    if kept:
        taken = max(kept, key=lambda one: one.items_per_s.p50)
    else:
        taken = min(found, key=lambda one: one.latency_s.p50)
    return taken, None if limit is None else bool(kept)


def _asked(workload: Workload, batch: int) -> Asked:
    shape = workload.shape
    return Asked(batch=batch, sequence=shape.sequence, image=shape.image, steps=shape.steps)


def _speed(
    workload: Workload,
    name: str,
    taken: InferenceEstimate,
    is_met: bool | None,
    rows: Catalogue | None,
) -> Speed:
    chip = machine(name, rows=rows).chip
    parts = inference(workload.model_path, _asked(workload, taken.batch)).parts
    read = [part.model for part in parts if isinstance(part.model, Captured)]
    kind = ""
    if read:
        kind = DENOISER if any(one.is_of_diffusers for one in read) else NETWORK
    family = _family(taken, kind)
    sigma = math.log(taken.latency_s.p90 / taken.latency_s.p50) / _TENTH
    return Speed(
        units_per_s=taken.items_per_s.p50,
        group=1,
        doubts=doubts(chip, kind or Phase.ENCODE, sigma),
        family=family.name,
        is_validated=family.is_validated(chip),
        error=family.error,
        is_met=is_met,
        layout=f"{taken.copies} copies of batch {taken.batch}",
        ms={cause: 1e3 * time_s for cause, time_s in taken.estimate.parts_s.items() if time_s},
        notes=taken.notes,
    )


def _family(taken: InferenceEstimate, kind: str) -> Family:
    if kind:
        return DIFFUSION if kind == DENOISER else NETWORKS
    return CLIP if taken.item == "pair" else ENCODERS
