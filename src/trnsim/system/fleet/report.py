"""Results as JSON: figures by policy, and hour by hour who has which chips."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trnsim.system.fleet.demand import DAY_HOURS, HOUR_STEPS
from trnsim.system.fleet.placing import placed
from trnsim.system.fleet.splitting import splits
from trnsim.system.fleet.worth import perfect_usd, planned_usd
from trnsim.uncertainty import interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.system.fleet.comparison import Result
    from trnsim.system.fleet.demand import Array
    from trnsim.system.fleet.scenario import Scenario
    from trnsim.system.fleet.simulate import Outcome

_DECIMALS: Final = 6


def values(scenario: Scenario, results: dict[str, Result], seed: int) -> dict[str, Any]:
    """All that a page of the fleet's day needs, in SI units, chips and USD."""
    fleet = scenario.fleet
    return {
        "name": scenario.name,
        "seed": seed,
        "draws": max((len(one.outcome.usd) for one in results.values()), default=0),
        "start": scenario.start.isoformat(),
        "days": scenario.days,
        "planned_for": scenario.planning.demand,
        "chips": fleet.chips,
        "spare_chips": sum(fleet.spares.values()) * fleet.ultraserver_chips,
        "buildings": dict(fleet.ultraservers),
        "block_chips": scenario.block_chips,
        "usable_chips": scenario.blocks * scenario.block_chips,
        "chip_mtbf_s": fleet.chip_mtbf_s,
        "usd_per_chip_hour": fleet.usd_per_chip_hour,
        "usd_per_kwh": fleet.usd_per_kwh,
        "price": fleet.price,
        "services": [
            {
                "name": one.name,
                "replica_chips": one.replica_chips,
                "requests_per_s": one.requests_per_s,
                "ready_s": scenario.ready_s(one),
                "usd_per_missed_request": one.usd_per_missed_request,
                "basis": one.basis,
            }
            for one in scenario.services
        ],
        "jobs": [
            {
                "name": one.name,
                "count": one.count,
                "stop_s": scenario.stop_s(one),
                "usd_per_million_tokens": one.usd_per_token * 1e6,
                "levels": [asdict(level) for level in one.levels],
                "basis": one.basis,
            }
            for one in scenario.jobs
        ],
        "hours": [scenario.local(hour).isoformat() for hour in range(scenario.hours)],
        "demand": {
            one.name: {name: _hourly(getattr(one.curve, name)) for name in ("p10", "p50", "p90")}
            for one in scenario.services
        },
        "policies": {name: _policy(scenario, one) for name, one in results.items()},
        "perfect_sharing_training_usd": perfect_usd(scenario),
        "splits": [
            {
                "jobs": one.jobs,
                "chips": one.chips,
                "mtbf_s": one.lost.mtbf_s,
                "goodput": one.lost.goodput,
            }
            for one in splits(fleet)
        ],
    }


def _hourly(steps: Array) -> list[float]:
    """The mean of each hour."""
    found: list[float] = steps.reshape(-1, HOUR_STEPS).mean(axis=1).round(_DECIMALS).tolist()
    return found


def _policy(scenario: Scenario, result: Result) -> dict[str, Any]:
    plan, outcome = result.plan, result.outcome
    days = scenario.days
    blocks = plan.job_blocks(scenario.jobs)
    return {
        "own_plan": result.own,
        "utilisation": asdict(interval(outcome.utilisation)),
        "missed_part": asdict(interval(outcome.missed_part)),
        "tokens_per_day": asdict(interval(outcome.tokens_per_day)),
        "usd_per_day": asdict(interval(outcome.usd / days)),
        "cost_usd_per_day": asdict(interval(outcome.cost_usd / days)),
        "energy_kwh_per_day": None if outcome.energy_kwh is None else outcome.energy_kwh / days,
        "expected": {
            "missed_part": float(result.expected.missed_part[0]),
            "usd": float(result.expected.usd[0]),
            "training_net_usd": planned_usd(scenario, plan),
            "training_usd": float(result.expected.cost_usd[0] - result.expected.usd[0]),
            "requests_missed": {name: one[0] for name, one in _missed(scenario, result.expected)},
            "tokens": {name: one[0] for name, one in _tokens(scenario, result.expected)},
            "usd_per_day": _usd_per_day(scenario, result.expected),
        },
        "draws": {
            "requests_missed": dict(_missed(scenario, outcome)),
            "tokens": dict(_tokens(scenario, outcome)),
        },
        "chips": {
            one.name: (plan.services[:, at] * scenario.block_chips).tolist()
            for at, one in enumerate(scenario.services)
        }
        | {
            one.name: (blocks[:, at] * scenario.block_chips).tolist()
            for at, one in enumerate(scenario.jobs)
        },
        "jobs_by_level": {
            one.name: counts.tolist() for one, counts in zip(scenario.jobs, plan.jobs, strict=True)
        },
        "requests_missed": {
            one.name: _percentiles(outcome.missed[at]) for at, one in enumerate(scenario.services)
        },
        "tokens": {
            one.name: _percentiles(outcome.tokens[at]) for at, one in enumerate(scenario.jobs)
        },
        "buildings_first_day": [placed(scenario, plan, hour) for hour in range(DAY_HOURS)],
    }


def _missed(scenario: Scenario, outcome: Outcome) -> Iterator[tuple[str, list[float]]]:
    """Requests outside the SLO of each service, by draw."""
    for one, drawn in zip(scenario.services, outcome.missed, strict=True):
        yield one.name, drawn.sum(axis=1).tolist()


def _tokens(scenario: Scenario, outcome: Outcome) -> Iterator[tuple[str, list[float]]]:
    """Tokens of each job, by draw."""
    for one, drawn in zip(scenario.jobs, outcome.tokens, strict=True):
        yield one.name, drawn.sum(axis=1).tolist()


def _usd_per_day(scenario: Scenario, outcome: Outcome) -> dict[str, float]:
    """USD of a day by cause: chips, energy, missed requests, less the worth of tokens."""
    fleet, days = scenario.fleet, scenario.days
    missed = (
        one.usd_per_missed_request * float(drawn[0].sum())
        for one, drawn in zip(scenario.services, outcome.missed, strict=True)
    )
    return {
        "chips": outcome.chip_hours * fleet.usd_per_chip_hour / days,
        "energy": (outcome.energy_kwh or 0.0) * fleet.usd_per_kwh / days,
        "missed": sum(missed) / days,
        "worth": float(outcome.cost_usd[0] - outcome.usd[0]) / days,
        "sum": float(outcome.usd[0]) / days,
    }


def _percentiles(draws: Array) -> dict[str, list[float]]:
    """P10, P50 and P90 of each hour, of ``[draws, hours]``."""
    p10, p50, p90 = np.percentile(draws, [10, 50, 90], axis=0).round(_DECIMALS).tolist()
    return {"p10": p10, "p50": p50, "p90": p90}
