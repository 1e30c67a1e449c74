"""Plans that `trnsim plan train --output plan.json` stored, as specs of the jobs that run them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.job import Job
from trnsim.jobs.planned import planned_job
from trnsim.jobs.spec import JobSpec
from trnsim.place.machine import machine
from trnsim.reader import ForeignRecord, SourcePlace, between, declared, record
from trnsim.system.train.layout import Layout

_SCHEMA: Final = "plan-train/1"


@dataclass(frozen=True, kw_only=True)
class _StoredPlan(ForeignRecord):
    """The fields of a stored plan that a job needs."""

    instance: str
    instances: int = between("number of instances", 1, 1e6)
    model: str = declared("", help="name of the model")
    steps: float = declared(0.0, help="optimizer steps of the run", minimum=0)
    layout: Layout


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    items = range(len(root.value)) if isinstance(root.value, list) else ()
    for place in [root, *(root.inner(index) for index in items)]:
        if isinstance(place.value, dict) and place.value.get("schema") == _SCHEMA:
            yield place


def _read(place: SourcePlace) -> JobSpec:
    plan = record(_StoredPlan, place)
    plan_machine = machine(plan.instance, plan.instances)
    job = planned_job(plan_machine, plan.layout, model=plan.model, steps=round(plan.steps))
    return JobSpec("plan", job, place.line)


def _write(job: Job) -> str:
    del job
    raise BadInput(
        "--as plan: a plan is no spec of a job",
        fix="trnsim plan train --output plan.json writes one",
    )


FORMAT: Final = JobFormat(
    name="plan",
    title="stored plan of training",
    suffix=".json",
    places=_places,
    read=_read,
    write=_write,
)
