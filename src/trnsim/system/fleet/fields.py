"""The file of a scenario: a fleet, its services and jobs, the time that is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from trnsim.arch.catalogue import catalogue
from trnsim.price import KINDS
from trnsim.reader import Record, Rule, declared
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

_MOST_CHIPS: Final = 10_000_000
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


def _zone(given: str) -> ZoneInfo:
    try:
        return ZoneInfo(given)
    except (OSError, KeyError) as error:
        raise ValueError(given) from error


def _day(given: str) -> date:
    day = date.fromisoformat(given)
    if day.year not in YEARS:
        raise ValueError(given)
    return day


def _seconds(what: str, default: float = 0.0) -> Any:
    return declared(default, help=what, unit="s", least=0, most=HOUR_S)


@dataclass(frozen=True, kw_only=True)
class WattsFields(Record):
    """Power of a chip, for what energy costs."""

    serving: float = declared(help="while it serves", unit="W", least=0, most=1e5)
    training: float = declared(help="while it trains", unit="W", least=0, most=1e5)
    idle: float = declared(help="while it has no work", unit="W", least=0, most=1e5)


@dataclass(frozen=True, kw_only=True)
class FleetFields(Record):
    """The chips of a scenario."""

    instance: str = declared(help="the instance type", legal=lambda: sorted(catalogue().instances))
    ultraserver_chips: int | None = declared(
        None,
        help="chips of an UltraServer; those of an instance if empty",
        least=1,
        most=_MOST_CHIPS,
    )
    buildings: int | dict[str, int] = declared(
        help="how many equal buildings, or the UltraServers of each by its name",
        least=1,
        most=_MOST_BUILDINGS,
        each=Rule(least=1, most=_MOST_CHIPS),
    )
    ultraservers: int | None = declared(
        None, help="UltraServers of each of equal buildings", least=1, most=_MOST_CHIPS
    )
    spares: int | None = declared(
        None,
        help="spare UltraServers of each building; those under repair nine times in ten if empty",
        least=0,
    )
    chip_mtbf_hours: float = declared(
        CHIP_MTBF_S / HOUR_S,
        help="mean time between failures of a chip",
        unit="hours",
        least=1,
        most=_MOST_HOURS,
    )
    repair_hours: float = declared(
        REPAIR_S / HOUR_S, help="time of a repair", unit="hours", least=0, most=_YEAR_HOURS
    )
    usd_per_chip_hour: float | None = declared(
        None, help="price of a chip, in place of price", unit="USD/hour", least=0, most=1e6
    )
    price: str = declared(
        "capacity_block", help="kind of purchase whose public price is taken", legal=KINDS
    )
    usd_per_kwh: float = declared(0.0, help="price of energy", unit="USD/kWh", least=0, most=1000)
    watts_per_chip: WattsFields | None = declared(None, help="power of a chip")


@dataclass(frozen=True, kw_only=True)
class PlanningFields(Record):
    """How the fleet is planned."""

    demand: Literal["p50", "p90"] = declared("p90", help="the demand that plans are made for")
    horizon_hours: int = declared(
        24, help="time that a plan covers", unit="hours", least=1, most=_WEEK_HOURS
    )
    replan_hours: int = declared(
        1, help="time between plans, at most horizon_hours", unit="hours", least=1, most=_WEEK_HOURS
    )


@dataclass(frozen=True, kw_only=True)
class ShapeFields(Record):
    """Demand that follows the hours of a day and the days of a week."""

    peak_requests_per_s: float = declared(
        help="the median where both shapes are one", unit="requests/s", least=0, most=_MOST_PER_S
    )
    hours: tuple[float, ...] = declared(
        demand.HOURS,
        help="shape of a day, hour by hour from midnight",
        least=demand.DAY_HOURS,
        most=demand.DAY_HOURS,
        each=Rule(least=0, most=1),
    )
    weekdays: tuple[float, ...] = declared(
        demand.WEEKDAYS,
        help="shape of a week from Monday",
        least=demand.WEEK_DAYS,
        most=demand.WEEK_DAYS,
        each=Rule(least=0, most=1),
    )
    p10: float = declared(1.0, help="the tenth percentile over the median", least=0, most=1)
    p90: float = declared(1.0, help="the ninetieth percentile over the median", least=1, most=1000)


@dataclass(frozen=True, kw_only=True)
class ServiceFields(Record):
    """A service; its replicas are given, or planned for a model within an SLO."""

    replica_chips: int | None = declared(
        None, help="chips of a replica, in place of model", least=1, most=_MOST_REPLICA_CHIPS
    )
    requests_per_s: float | None = declared(
        None,
        help="rate of a replica, in place of model",
        unit="requests/s",
        least=1e-9,
        most=_MOST_PER_S,
    )
    model: str = declared("", help="path of a config.json beside the scenario")
    slo_ttft_s: float | None = declared(
        None, help="limit of the time to the first token", unit="s", least=1e-6, most=HOUR_S
    )
    slo_tpot_s: float | None = declared(
        None, help="limit of the time of each further token", unit="s", least=1e-6, most=HOUR_S
    )
    input_tokens: int = declared(2048, help="length of a request", least=1, most=_MOST_TOKENS)
    output_tokens: int = declared(256, help="length of its answer", least=1, most=_MOST_TOKENS)
    drain_s: float = _seconds("time in which a replica ends its requests")
    weights_s: float = _seconds("time to load weights")
    programs_s: float = _seconds("time to load programs")
    usd_per_missed_request: float = declared(
        0.0, help="cost of a request that is not served", unit="USD", least=0, most=_MOST_USD
    )
    demand: str | ShapeFields = declared(
        help="path of a table beside the scenario, or the shapes of a day and a week"
    )


@dataclass(frozen=True, kw_only=True)
class JobFields(Record):
    """A kind of training job, which runs at several widths."""

    count: int = declared(1, help="jobs of this kind", least=1, most=_MOST_JOBS)
    within: Literal["building", "fleet"] = declared("building", help="where all its chips lie")
    smallest_chips: int = declared(help="the smallest width", unit="chips", least=1)
    largest_chips: int = declared(help="the largest width", unit="chips", least=1)
    step_chips: int | None = declared(
        None, help="between widths; a block if empty", unit="chips", least=1
    )
    tokens_per_s: dict[int, float] | None = declared(
        None,
        help="rate by chips, in place of model; straight lines lie between",
        least=1,
        each=Rule(unit="tokens/s", least=1e-9, most=_MOST_TOKENS_PER_S),
    )
    model: str = declared("", help="path of a config.json beside the scenario")
    usd_per_million_tokens: float | None = declared(
        None, help="worth of tokens; what they cost if empty", unit="USD", least=0, most=_MOST_USD
    )
    save_s: float = _seconds("time to save before a change of width")
    restore_s: float = _seconds("time to load after one")
    programs_s: float = _seconds("time to load programs after one")
    checkpoint_s: float = _seconds("time of a checkpoint", CHECKPOINT_S)
    recovery_s: float = _seconds("time to start again after a failure", RECOVERY_S)
    straggler_spread: float = declared(
        STRAGGLER_SPREAD, help="spread of the times of chips", least=0, most=1
    )


@dataclass(frozen=True, kw_only=True)
class ScenarioFields(Record):
    """A fleet and what it does for some days."""

    name: str = declared("", help="name of the scenario; that of the file if empty")
    timezone: ZoneInfo = declared(
        help="zone of local times", parse=_zone, legal="a name as America/New_York, or UTC"
    )
    start: date = declared(help="the first day", parse=_day, legal="a day as 2026-03-02")
    days: int = declared(help="how many days", unit="days", least=1, most=_YEAR_DAYS)
    fleet: FleetFields = declared(help="the chips")
    planning: PlanningFields | None = declared(None, help="how it is planned")
    services: dict[str, ServiceFields] | None = declared(None, help="services by name", least=1)
    jobs: dict[str, JobFields] | None = declared(None, help="kinds of jobs by name", least=1)
