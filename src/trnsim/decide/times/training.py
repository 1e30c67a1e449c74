"""Speed of training: on the smallest group of instances that holds the model, or a larger one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times.families import TRAINING
from trnsim.decide.times.speed import Speed, phase_sigmas
from trnsim.errors import BadInput, EmulatorError
from trnsim.facts import P90_SIGMAS
from trnsim.place.machine import Machine, machine
from trnsim.system.train.best import BestLayout, best, best_on
from trnsim.system.train.candidates import LayoutRequest
from trnsim.system.train.estimate import usual_request
from trnsim.system.train.run import goodput
from trnsim.workload.operators import Phase

MOST_TIMED: Final = 64
"""Maximum instances of a predicted job; a larger job is assumed to be as fast per instance."""


def speed(workload: Workload, name: str, instances: int, rows: Catalogue | None = None) -> Speed:
    """Speed in tokens a second on at least `instances` of the type `name`.

    The layout is the planner's best on the fewest instances that hold the model, or on about
    `instances` if that is more.

    Raises:
        BadInput: no layout is legal, or several instances are needed and the type has no EFA.
        OutOfMemory: the model does not fit.
    """
    choice = smallest(workload, name, rows)
    notes: tuple[str, ...] = ()
    if instances > choice.machine.count:
        choice = _larger_group(workload, choice, name, min(instances, MOST_TIMED))
        if instances > MOST_TIMED:
            notes = (f"timed on {choice.machine.count} instances",)
    fleet, step = choice.machine, choice.step
    useful_share = goodput(fleet.chips, fleet.count, None).goodput
    layout, description = step.layout, f"{fleet.count} x {fleet.instance.name}, {step.layout}"
    sigma = math.log(step.step_s.p90 / step.step_s.p10) / (2 * P90_SIGMAS)
    return Speed(
        units_per_s=layout.global_batch * layout.sequence / step.step_s.p50 * useful_share,
        group=fleet.count,
        sigmas=phase_sigmas(fleet.chip, Phase.TRAIN, sigma),
        family=TRAINING.name,
        is_validated=TRAINING.is_accurate and step.estimate.is_validated,
        error=TRAINING.error,
        layout=description,
        ms={cause: 1e3 * time_s for cause, time_s in step.parts_s.items() if time_s},
        notes=(*step.estimate.evidence, *notes),
    )


def smallest(workload: Workload, name: str, rows: Catalogue | None = None) -> BestLayout:
    """Best step on the fewest instances of the type `name` that hold the model.

    Raises:
        BadInput: no layout is legal.
        OutOfMemory: the model does not fit.
    """
    job = _job(workload, machine(name, rows=rows))
    return best(workload.model, name, None, job)


def _job(workload: Workload, fleet: Machine) -> LayoutRequest:
    """Request for a layout on `fleet`, with the usual batch unless the workload states one."""
    job = usual_request(workload.model, fleet, workload.shape.sequence)
    batch = workload.shape.batch
    return replace(job, global_batch=batch) if batch else job


def _larger_group(workload: Workload, choice: BestLayout, name: str, count: int) -> BestLayout:
    """Best layout on about `count` instances of the type `name`, or `choice` if none is legal.

    Groups are tried whose size is a multiple of the size of `choice`: the largest up to `count`,
    then the multiple that is a power of two.

    Raises:
        BadInput: the type has no EFA between instances.
    """
    instances = choice.machine.count
    multiple = max(count // instances, 1)
    if not choice.machine.instance.efa_bytes_per_s:
        raise BadInput(f"{count} x {name} are needed, and without EFA they cannot train together")
    for factor in dict.fromkeys((multiple, 1 << (multiple.bit_length() - 1))):
        try:
            job = _job(workload, machine(name, factor * instances))
            return best_on(workload.model, name, factor * instances, job)
        except EmulatorError:
            continue
    return choice
