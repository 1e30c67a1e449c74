"""The fields of a scenario's file: a fleet, its services and jobs, and a period of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from trnsim.arch.catalogue import catalogue
from trnsim.price import KINDS
from trnsim.reader import FileRecord, Rule, between, declared
from trnsim.system.fleet import demand
from trnsim.system.fleet.demand_file import YEARS
from trnsim.system.fleet.scenario import HOUR_S
from trnsim.system.train.run import (
    CHECKPOINT_S,
    CHIP_MTBF_S,
    RECOVERY_S,
    REPAIR_S,
    STRAGGLER_SPREAD,
)

_MODEL_HELP: Final = "a name of trnsim models, or the path of a config.json beside the scenario"
MOST_CHIPS: Final = 10_000_000
"""Largest number of chips of a fleet."""
_MOST_BUILDINGS: Final = 10_000
_MOST_REPLICA_CHIPS: Final = 1_000_000
_MOST_HOURS: Final = 1e12
_MOST_PER_S: Final = 1e12
_MOST_TOKENS: Final = 10_000_000
_MOST_TOKENS_PER_S: Final = 1e15
_MOST_JOBS: Final = 1000
_MOST_USD: Final = 1e9
_YEAR_HOURS: Final = 8784
_YEAR_DAYS: Final = 366
_WEEK_HOURS: Final = 168


def _zone(text: str) -> ZoneInfo:
    try:
        return ZoneInfo(text)
    except (OSError, KeyError) as error:
        raise ValueError(text) from error


def _day(text: str) -> date:
    day = date.fromisoformat(text)
    if day.year not in YEARS:
        raise ValueError(text)
    return day


def _seconds(meaning: str, default: float = 0.0) -> Any:
    return between(meaning, 0, HOUR_S, default, unit="s")


@dataclass(frozen=True, kw_only=True)
class WattsFields(FileRecord):
    """Power of a chip, which determines the cost of energy."""

    serving: float = between("while it serves", 0, 1e5, unit="W")
    training: float = between("while it trains", 0, 1e5, unit="W")
    idle: float = between("while it has no work", 0, 1e5, unit="W")


@dataclass(frozen=True, kw_only=True)
class FleetFields(FileRecord):
    """The chips of a scenario."""

    instance: str = declared(help="the instance type", legal=lambda: sorted(catalogue().instances))
    ultraserver_chips: int | None = between(
        "chips of an UltraServer; those of an instance if empty", 1, MOST_CHIPS, None
    )
    buildings: int | dict[str, int] = between(
        "how many equal buildings, or the UltraServers of each by its name",
        1,
        _MOST_BUILDINGS,
        each=Rule(minimum=1, maximum=MOST_CHIPS),
    )
    ultraservers: int | None = between(
        "UltraServers of each of equal buildings", 1, MOST_CHIPS, None
    )
    spares: int | None = declared(
        None,
        help="spare UltraServers of each building; if empty, enough for repairs in 90 % of hours",
        minimum=0,
    )
    chip_mtbf_hours: float = between(
        "mean time between failures of a chip", 1, _MOST_HOURS, CHIP_MTBF_S / HOUR_S, unit="hours"
    )
    repair_hours: float = between(
        "time of a repair", 0, _YEAR_HOURS, REPAIR_S / HOUR_S, unit="hours"
    )
    usd_per_chip_hour: float | None = between(
        "price of a chip, in place of price", 0, 1e6, None, unit="USD/hour"
    )
    price: str = declared(
        "capacity_block", help="kind of purchase whose public price is taken", legal=KINDS
    )
    usd_per_kwh: float = between("price of energy", 0, 1000, 0.0, unit="USD/kWh")
    watts_per_chip: WattsFields | None = declared(None, help="power of a chip")


@dataclass(frozen=True, kw_only=True)
class PlanningFields(FileRecord):
    """Settings of the planning of a fleet."""

    demand: Literal["p50", "p90"] = declared("p90", help="the demand that plans are made for")
    horizon_hours: int = between("time that a plan covers", 1, _WEEK_HOURS, 24, unit="hours")
    replan_hours: int = between(
        "time between plans, at most horizon_hours", 1, _WEEK_HOURS, 1, unit="hours"
    )


@dataclass(frozen=True, kw_only=True)
class ShapeFields(FileRecord):
    """Demand that follows the hours of a day and the days of a week."""

    peak_requests_per_s: float = between(
        "median demand in an hour for which both shapes are 1", 0, _MOST_PER_S, unit="requests/s"
    )
    hours: tuple[float, ...] = between(
        "shape of a day, hour by hour from midnight",
        demand.DAY_HOURS,
        demand.DAY_HOURS,
        demand.DAY_SHAPE,
        each=Rule(minimum=0, maximum=1),
    )
    weekdays: tuple[float, ...] = between(
        "shape of a week from Monday",
        demand.WEEK_DAYS,
        demand.WEEK_DAYS,
        demand.WEEK_SHAPE,
        each=Rule(minimum=0, maximum=1),
    )
    p10: float = between("the tenth percentile over the median", 0, 1, 1.0)
    p90: float = between("the ninetieth percentile over the median", 1, 1000, 1.0)


@dataclass(frozen=True, kw_only=True)
class ServiceFields(FileRecord):
    """A service; its replicas are given, or planned for a model within an SLO."""

    replica_chips: int | None = between(
        "chips of a replica, in place of model", 1, _MOST_REPLICA_CHIPS, None
    )
    requests_per_s: float | None = between(
        "rate of a replica, in place of model", 1e-9, _MOST_PER_S, None, unit="requests/s"
    )
    model: str = declared("", help=_MODEL_HELP)
    slo_ttft_s: float | None = between(
        "limit of the time to the first token", 1e-6, HOUR_S, None, unit="s"
    )
    slo_tpot_s: float | None = between(
        "limit of the time of each further token", 1e-6, HOUR_S, None, unit="s"
    )
    input_tokens: int = between("length of a request", 1, _MOST_TOKENS, 2048)
    output_tokens: int = between("length of its answer", 1, _MOST_TOKENS, 256)
    drain_s: float = _seconds("time in which a replica ends its requests")
    weights_s: float = _seconds("time to load weights")
    programs_s: float = _seconds("time to load programs")
    usd_per_missed_request: float = between(
        "cost of a request that is not served", 0, _MOST_USD, 0.0, unit="USD"
    )
    demand: str | ShapeFields = declared(
        help="path of a table beside the scenario, or the shapes of a day and a week"
    )


@dataclass(frozen=True, kw_only=True)
class JobFields(FileRecord):
    """A kind of training job, which runs at several widths."""

    count: int = between("jobs of this kind", 1, _MOST_JOBS, 1)
    within: Literal["building", "fleet"] = declared("building", help="where all its chips lie")
    smallest_chips: int = declared(help="the smallest width", unit="chips", minimum=1)
    largest_chips: int = declared(help="the largest width", unit="chips", minimum=1)
    step_chips: int | None = declared(
        None,
        help="chips from a width to the next; those of a block if empty",
        unit="chips",
        minimum=1,
    )
    tokens_per_s: dict[int, float] | None = declared(
        None,
        help="rate by chips, in place of model; interpolated linearly",
        minimum=1,
        each=Rule(unit="tokens/s", minimum=1e-9, maximum=_MOST_TOKENS_PER_S),
    )
    model: str = declared("", help=_MODEL_HELP)
    usd_per_million_tokens: float | None = between(
        "worth of tokens; what they cost if empty", 0, _MOST_USD, None, unit="USD"
    )
    save_s: float = _seconds("time to save before a change of width")
    restore_s: float = _seconds("time to load after one")
    programs_s: float = _seconds("time to load programs after one")
    checkpoint_s: float = _seconds("time of a checkpoint", CHECKPOINT_S)
    recovery_s: float = _seconds("time to start again after a failure", RECOVERY_S)
    straggler_spread: float = between("spread of the times of chips", 0, 1, STRAGGLER_SPREAD)


@dataclass(frozen=True, kw_only=True)
class ScenarioFields(FileRecord):
    """A fleet and its work during some days."""

    name: str = declared("", help="name of the scenario; that of the file if empty")
    timezone: ZoneInfo = declared(
        help="zone of local times",
        parse=_zone,
        legal="a name as America/New_York, or UTC",
        example="UTC",
    )
    start: date = declared(help="the first day", parse=_day, legal="a day as 2026-03-02")
    days: int = between("how many days", 1, _YEAR_DAYS, unit="days")
    fleet: FleetFields = declared(help="the chips")
    planning: PlanningFields | None = declared(None, help="how it is planned")
    services: dict[str, ServiceFields] | None = declared(None, help="services by name", minimum=1)
    jobs: dict[str, JobFields] | None = declared(None, help="kinds of jobs by name", minimum=1)
