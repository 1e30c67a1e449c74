"""A scenario from its YAML file. Errors name file, line, field and legal values."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, time
from pathlib import Path
from typing import Final

from trnsim.errors import BadInput
from trnsim.reader import read as read_record
from trnsim.system.fleet.fields import PlanningFields, ScenarioFields
from trnsim.system.fleet.fleets import fleet_of
from trnsim.system.fleet.jobs import job_of
from trnsim.system.fleet.placing import job_buildings
from trnsim.system.fleet.scenario import HOUR_S, Scenario, TrainingJobKind
from trnsim.system.fleet.services import service_of
from trnsim.system.fleet.setting import Setting

_FIX: Final = (
    "write it as examples/fleet.yaml; docs/generated/user-files.md, Scenarios of a fleet, has all "
    "fields"
)


def read(path: Path, tell: Callable[[str], None] = lambda _: None) -> Scenario:
    """The scenario that the YAML file at `path` holds.

    Args:
        path: the file; files that it names lie beside it.
        tell: called with a line on the current computation.

    Raises:
        BadInput: a field is unknown, missing or illegal.
    """
    fields = read_record(ScenarioFields, path, _FIX)
    start = datetime.combine(fields.start, time(), tzinfo=fields.timezone)
    instance, fleet = fleet_of(fields.fleet)
    setting = Setting(fleet, instance, path.parent, fields.timezone, start, fields.days, tell)
    services = tuple(
        service_of(name, service_fields, setting)
        for name, service_fields in (fields.services or {}).items()
    )
    # The least block of UltraServers that holds whole replicas of every service.
    block_ultraservers = math.lcm(
        *(-(-service.replica_chips // fleet.ultraserver_chips) for service in services)
    )
    if all(
        count - fleet.spares[name] < block_ultraservers
        for name, count in fleet.ultraservers.items()
    ):
        raise fields.refused(
            "services",
            f"whole replicas of all services take {block_ultraservers} UltraServers, which no "
            "building has beside its spares",
            "reduce replica_chips",
        )
    planning = fields.planning or PlanningFields()
    _check_planning(planning)
    scenario = Scenario(
        name=fields.name or path.stem,
        start=start,
        days=fields.days,
        fleet=fleet,
        services=services,
        jobs=_jobs(fields, setting, block_ultraservers * fleet.ultraserver_chips),
        planning=planning,
        block_ultraservers=block_ultraservers,
    )
    _check_hour(fields, scenario)
    try:
        job_buildings(scenario.jobs, scenario.building_blocks)
    except BadInput as error:
        raise fields.refused("jobs", error.reason, error.fix) from None
    return scenario


def _check_hour(fields: ScenarioFields, scenario: Scenario) -> None:
    """Refuse services and jobs that need more than an hour to start on blocks of another user.

    Raises:
        BadInput: names the service or the job.
    """
    starts = [
        ("services", service.name, scenario.ready_s(service)) for service in scenario.services
    ]
    # a job that receives blocks stops, and starts again at its new width
    starts += [("jobs", job.name, scenario.stop_s(job)) for job in scenario.jobs]
    for field, name, start_s in starts:
        if start_s > HOUR_S:
            raise fields.refused(
                field,
                f"starts {start_s:,.0f} s after it was given blocks, {scenario.handover_s:,.0f} s "
                f"of which their last user takes to leave; legal: up to {HOUR_S:,} s in all, as "
                "plans are made by the hour",
                "reduce drain_s and save_s, or the times to load weights and programs",
                item=name,
            )


def _check_planning(fields: PlanningFields) -> None:
    if fields.replan_hours > fields.horizon_hours:
        raise fields.refused("replan_hours", f"legal: from 1 to {fields.horizon_hours}")


def _jobs(
    fields: ScenarioFields, setting: Setting, block_chips: int
) -> tuple[TrainingJobKind, ...]:
    if fields.jobs is None and fields.services is None:
        raise fields.refused("jobs", "a fleet has work: give services, jobs or both")
    jobs = fields.jobs or {}
    for name in jobs:
        if name in (fields.services or {}):
            why = "a service has this name already"
            raise fields.refused("jobs", why, "take another", item=name)
    return tuple(
        job_of(name, job_fields, setting, block_chips) for name, job_fields in jobs.items()
    )
