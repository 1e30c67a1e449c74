"""A scenario from its YAML file. Every error names file, line, field and what is legal."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trnsim import yaml_file
from trnsim.errors import BadInput
from trnsim.system.fleet import demand_file
from trnsim.system.fleet.fields import Fields, refused
from trnsim.system.fleet.fleets import fleet_of
from trnsim.system.fleet.jobs import JOB, job_of
from trnsim.system.fleet.placing import homes
from trnsim.system.fleet.scenario import Planning, Scenario
from trnsim.system.fleet.services import SERVICE, service_of
from trnsim.system.fleet.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.system.fleet.scenario import Job, Service

_TOP: Final = ("name", "timezone", "start", "days", "fleet", "planning", "services", "jobs")
_PLANNING: Final = ("demand", "horizon_hours", "replan_hours")
_YEAR_DAYS: Final = 366
_WEEK_HOURS: Final = 168


def read(path: Path, tell: Callable[[str], None] = lambda _: None) -> Scenario:
    """The scenario that the YAML file at `path` holds.

    Args:
        path: the file; files that it names lie beside it.
        tell: called with what is computed.

    Raises:
        BadInput: a field is unknown, missing or not what is legal.
    """
    top = Fields.of(yaml_file.read(path), "", _TOP)
    zone = _zone(top)
    start = datetime.combine(_day(top), time(), tzinfo=zone)
    days = top.whole("days", least=1, most=_YEAR_DAYS)
    instance, fleet = fleet_of(top)
    setting = Setting(fleet, instance, path.parent, zone, start, days, tell)
    services = _services(top, setting)
    block = math.lcm(*(-(-one.replica_chips // fleet.ultraserver_chips) for one in services))
    if all(count - fleet.spares[at] < block for at, count in fleet.ultraservers.items()):
        raise top.refused(
            "services",
            f"whole replicas of all services take {block} UltraServers, which no building has "
            "beside its spares",
            "reduce replica_chips",
        )
    found = Scenario(
        name=top.text("name", path.stem),
        start=start,
        days=days,
        fleet=fleet,
        services=services,
        jobs=_jobs(top, setting, block * fleet.ultraserver_chips),
        planning=_planning(top),
        block_ultraservers=block,
    )
    try:
        homes(found.jobs, found.building_blocks)
    except BadInput as error:
        raise refused(top.value("jobs").line, "jobs", error.reason, error.fix) from None
    return found


def _zone(top: Fields) -> ZoneInfo:
    try:
        return ZoneInfo(top.text("timezone"))
    except (OSError, ValueError, KeyError):
        raise top.refused("timezone", "legal: a name as America/New_York, or UTC") from None


def _day(top: Fields) -> date:
    try:
        found = date.fromisoformat(top.text("start"))
    except ValueError:
        found = date.min
    if found.year not in demand_file.YEARS:
        raise top.refused("start", "legal: a day as 2026-03-02")
    return found


def _planning(top: Fields) -> Planning:
    if "planning" not in top:
        return Planning()
    fields = top.mapping("planning", _PLANNING)
    horizon = fields.whole("horizon_hours", least=1, most=_WEEK_HOURS, default=24)
    return Planning(
        fields.one_of("demand", ("p50", "p90"), "p90"),
        horizon,
        fields.whole("replan_hours", least=1, most=horizon, default=1),
    )


def _services(top: Fields, setting: Setting) -> tuple[Service, ...]:
    if "services" not in top:
        return ()
    every = top.mapping("services")
    return tuple(service_of(name, every.mapping(name, SERVICE), setting) for name in every.values)


def _jobs(top: Fields, setting: Setting, block_chips: int) -> tuple[Job, ...]:
    if "jobs" not in top:
        if "services" not in top:
            raise top.refused("jobs", "a fleet has work: give services, jobs or both")
        return ()
    every = top.mapping("jobs")
    for name in every.values:
        if "services" in top and name in top.mapping("services"):
            raise every.refused(name, "a service has this name already", "take another")
    return tuple(
        job_of(name, every.mapping(name, JOB), setting, block_chips) for name in every.values
    )
