"""Speed of inference without generated tokens (kind "infer"), at the batch of the highest rate.

Models are encoders, vision models, image and text pairs, captured networks and diffusion.
"""

from __future__ import annotations

import math
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times.families import CLIP, DIFFUSION, ENCODERS, NETWORKS, RowFamily
from trnsim.decide.times.speed import Speed, phase_sigmas
from trnsim.errors import EmulatorError, InternalError
from trnsim.estimate.choice import DENOISER, NETWORK
from trnsim.facts import P90_SIGMAS
from trnsim.place.machine import machine
from trnsim.system.infer.estimate import InferenceEstimate, estimate
from trnsim.system.infer.parts import InputSizes, inference
from trnsim.workload.captured import CapturedModel
from trnsim.workload.operators import Phase

BATCHES: Final = (1, 2, 4, 8, 16, 32)
"""Batch sizes to try if the inventory states none."""


def speed(workload: Workload, name: str, rows: Catalogue | None = None) -> Speed:
    """Speed of the workload on the type `name`, in items a second.

    The batch size gives the most items a second within the latency limit; if none is within it, the
    lowest latency.

    Raises:
        EmulatorError: no batch can run.
    """
    best, is_met = best_estimate(workload, name, rows)
    return _speed(workload, name, best, is_met, rows)


def best_estimate(
    workload: Workload, name: str, rows: Catalogue | None = None
) -> tuple[InferenceEstimate, bool | None]:
    """Estimate at the batch size that `speed` takes, and whether it is within the latency limit.

    The second value is None without a limit.

    Raises:
        EmulatorError: no batch can run.
    """
    limit = workload.slo.latency_s
    trials: list[InferenceEstimate] = []
    refusal: EmulatorError | None = None
    for batch in (workload.shape.batch,) if workload.shape.batch else BATCHES:
        try:
            trials.append(
                estimate(workload.model_path, name, _input_sizes(workload, batch), rows=rows)
            )
        except EmulatorError as error:
            refusal = error
            break
    if not trials:
        raise refusal or InternalError("no batch was tried")
    trials_in_time = [trial for trial in trials if limit is None or trial.latency_s.p50 <= limit]
    if trials_in_time:
        best = max(trials_in_time, key=lambda trial: trial.items_per_s.p50)
    else:
        best = min(trials, key=lambda trial: trial.latency_s.p50)
    return best, None if limit is None else bool(trials_in_time)


def _input_sizes(workload: Workload, batch: int) -> InputSizes:
    shape = workload.shape
    return InputSizes(batch=batch, sequence=shape.sequence, image=shape.image, steps=shape.steps)


def _speed(
    workload: Workload,
    name: str,
    best: InferenceEstimate,
    is_met: bool | None,
    rows: Catalogue | None,
) -> Speed:
    chip = machine(name, rows=rows).chip
    parts = inference(workload.model_path, _input_sizes(workload, best.batch)).parts
    graphs = [part.model for part in parts if isinstance(part.model, CapturedModel)]
    graph_kind = ""
    if graphs:
        graph_kind = DENOISER if any(graph.is_of_diffusers for graph in graphs) else NETWORK
    family = _family(best, graph_kind)
    sigma = math.log(best.latency_s.p90 / best.latency_s.p50) / P90_SIGMAS
    return Speed(
        units_per_s=best.items_per_s.p50,
        group=1,
        sigmas=phase_sigmas(chip, graph_kind or Phase.ENCODE, sigma),
        family=family.name,
        is_validated=family.is_accurate and best.estimate.is_validated,
        error=family.error,
        is_met=is_met,
        layout=f"{best.copies} copies of batch {best.batch}",
        ms={cause: 1e3 * time_s for cause, time_s in best.estimate.parts_s.items() if time_s},
        notes=best.notes,
    )


def _family(best: InferenceEstimate, graph_kind: str) -> RowFamily:
    """Family of an estimate; `graph_kind` is "" unless the model is a captured graph."""
    if graph_kind:
        return DIFFUSION if graph_kind == DENOISER else NETWORKS
    return CLIP if best.item == "pair" else ENCODERS
