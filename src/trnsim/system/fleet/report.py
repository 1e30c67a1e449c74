"""Results as JSON: figures by policy, and the allocation of chips by hour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from trnsim.system.fleet.comparison import PolicyResult
from trnsim.system.fleet.demand import DAY_HOURS, HOUR_STEPS, Array
from trnsim.system.fleet.placing import building_shares
from trnsim.system.fleet.scenario import Scenario
from trnsim.system.fleet.simulate import FleetOutcome
from trnsim.system.fleet.splitting import splits
from trnsim.system.fleet.worth import perfect_usd, planned_usd
from trnsim.uncertainty import interval

_DECIMALS: Final = 6


def values(scenario: Scenario, results: dict[str, PolicyResult], seed: int) -> dict[str, Any]:
    """All values of a comparison, in SI units, chips and USD."""
    fleet = scenario.fleet
    return {
        "name": scenario.name,
        "seed": seed,
        "draws": max((len(result.outcome.usd) for result in results.values()), default=0),
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
                "name": service.name,
                "replica_chips": service.replica_chips,
                "requests_per_s": service.requests_per_s,
                "ready_s": scenario.ready_s(service),
                "usd_per_missed_request": service.usd_per_missed_request,
                "basis": service.basis,
            }
            for service in scenario.services
        ],
        "jobs": [
            {
                "name": job.name,
                "count": job.count,
                "stop_s": scenario.stop_s(job),
                "usd_per_million_tokens": job.usd_per_token * 1e6,
                "levels": [asdict(level) for level in job.levels],
                "basis": job.basis,
            }
            for job in scenario.jobs
        ],
        "hours": [scenario.local_time(hour).isoformat() for hour in range(scenario.hours)],
        "demand": {
            service.name: {
                name: _hourly(getattr(service.curve, name)) for name in ("p10", "p50", "p90")
            }
            for service in scenario.services
        },
        "policies": {name: _policy(scenario, result) for name, result in results.items()},
        "perfect_sharing_training_usd": perfect_usd(scenario),
        "splits": [
            {
                "jobs": split.jobs,
                "chips": split.chips,
                "mtbf_s": split.goodput.mtbf_s,
                "goodput": split.goodput.goodput,
            }
            for split in splits(fleet)
        ],
    }


def _hourly(steps: Array) -> list[float]:
    """The mean of each hour."""
    means: list[float] = steps.reshape(-1, HOUR_STEPS).mean(axis=1).round(_DECIMALS).tolist()
    return means


def _policy(scenario: Scenario, result: PolicyResult) -> dict[str, Any]:
    plan, outcome = result.plan, result.outcome
    days = scenario.days
    blocks = plan.job_blocks(scenario.jobs)
    return {
        "own_plan": result.is_own_plan,
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
            "requests_missed": {
                name: runs[0] for name, runs in _missed_requests(scenario, result.expected)
            },
            "tokens": {name: runs[0] for name, runs in _tokens(scenario, result.expected)},
            "usd_per_day": _usd_per_day(scenario, result.expected),
        },
        "draws": {
            "requests_missed": dict(_missed_requests(scenario, outcome)),
            "tokens": dict(_tokens(scenario, outcome)),
        },
        "chips": {
            service.name: (plan.services[:, index] * scenario.block_chips).tolist()
            for index, service in enumerate(scenario.services)
        }
        | {
            job.name: (blocks[:, index] * scenario.block_chips).tolist()
            for index, job in enumerate(scenario.jobs)
        },
        "jobs_by_level": {
            job.name: counts.tolist() for job, counts in zip(scenario.jobs, plan.jobs, strict=True)
        },
        "requests_missed": {
            service.name: _percentiles(outcome.missed[index])
            for index, service in enumerate(scenario.services)
        },
        "tokens": {
            job.name: _percentiles(outcome.tokens[index]) for index, job in enumerate(scenario.jobs)
        },
        "buildings_first_day": [building_shares(scenario, plan, hour) for hour in range(DAY_HOURS)],
    }


def _missed_requests(
    scenario: Scenario, outcome: FleetOutcome
) -> Iterator[tuple[str, list[float]]]:
    """Requests outside the SLO of each service, by draw."""
    for service, by_draw in zip(scenario.services, outcome.missed, strict=True):
        yield service.name, by_draw.sum(axis=1).tolist()


def _tokens(scenario: Scenario, outcome: FleetOutcome) -> Iterator[tuple[str, list[float]]]:
    """Tokens of each job, by draw."""
    for job, by_draw in zip(scenario.jobs, outcome.tokens, strict=True):
        yield job.name, by_draw.sum(axis=1).tolist()


def _usd_per_day(scenario: Scenario, outcome: FleetOutcome) -> dict[str, float]:
    """USD of a day by cause: chips, energy, missed requests, less the worth of tokens."""
    fleet, days = scenario.fleet, scenario.days
    missed_usd = (
        service.usd_per_missed_request * float(by_draw[0].sum())
        for service, by_draw in zip(scenario.services, outcome.missed, strict=True)
    )
    return {
        "chips": outcome.chip_hours * fleet.usd_per_chip_hour / days,
        "energy": (outcome.energy_kwh or 0.0) * fleet.usd_per_kwh / days,
        "missed": sum(missed_usd) / days,
        "worth": float(outcome.cost_usd[0] - outcome.usd[0]) / days,
        "sum": float(outcome.usd[0]) / days,
    }


def _percentiles(draws: Array) -> dict[str, list[float]]:
    """P10, P50 and P90 of each hour, of ``[draws, hours]``."""
    p10, p50, p90 = np.percentile(draws, [10, 50, 90], axis=0).round(_DECIMALS).tolist()
    return {"p10": p10, "p50": p50, "p90": p90}
