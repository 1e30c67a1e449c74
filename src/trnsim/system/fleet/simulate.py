"""Simulation of a plan in steps of 5 minutes: requests served, tokens trained, and cost.

UltraServers are counted, not simulated one by one, so that a year of half a million chips is a few
arrays. Requests beyond a service's capacity in a step miss the SLO; none waits for the next step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from trnsim.system.fleet.conditions import FleetConditions
from trnsim.system.fleet.demand import DAY_HOURS, HOUR_STEPS, STEP_S, Array
from trnsim.system.fleet.need import ready_steps
from trnsim.system.fleet.plan import Counts, FleetPlan, level_changes
from trnsim.system.fleet.scenario import WATTS_PER_KW, Scenario, Service, TrainingJobKind

_FAILURE_SEED: Final = 1_000_003
"""Number in the seed of failures, which makes them independent of the random demand."""


@dataclass(frozen=True)
class FleetOutcome:
    """Requests, tokens and USD of a plan, by draw.

    Attributes:
        requests: requests to each service ``[services, draws, hours]``.
        missed: requests to each service outside its SLO ``[services, draws, hours]``.
        tokens: tokens that were trained and kept ``[jobs, draws, hours]``.
        useful_chip_hours: chip-hours of serving and of training that is kept ``[draws]``.
        usd: chips, energy and missed requests, less the worth of tokens ``[draws]``.
        cost_usd: chips, energy and missed requests ``[draws]``.
        energy_kwh: energy of all chips; None if watts are unknown.
    """

    requests: Array
    missed: Array
    tokens: Array
    useful_chip_hours: Array
    chip_hours: float
    usd: Array
    cost_usd: Array
    energy_kwh: float | None
    days: int

    @property
    def missed_part(self) -> Array:
        """Fraction of all requests outside the SLO ``[draws]``."""
        requests = self.requests.sum(axis=(0, 2))
        part: Array = self.missed.sum(axis=(0, 2)) / np.maximum(requests, 1e-300)
        return part

    @property
    def tokens_per_day(self) -> Array:
        """Trained tokens a day ``[draws]``."""
        rate: Array = self.tokens.sum(axis=(0, 2)) / self.days
        return rate

    @property
    def utilisation(self) -> Array:
        """``useful chip-hours / all chip-hours`` ``[draws]``."""
        return self.useful_chip_hours / self.chip_hours


def simulate(scenario: Scenario, plan: FleetPlan, conditions: FleetConditions) -> FleetOutcome:
    """The outcome of `plan` under `conditions`."""
    failed_blocks = _failed_blocks(scenario, plan, conditions)
    generator = (
        None if conditions.seed is None else np.random.default_rng([conditions.seed, _FAILURE_SEED])
    )
    requests, missed, useful_chip_hours = [], [], np.zeros(conditions.draws)
    for index, service in enumerate(scenario.services):
        capacity_per_s = _capacity_per_s(
            scenario, service, plan.services[:, index], failed_blocks[index], generator
        )
        demand = conditions.demand[index]
        missed_requests = np.maximum(demand - capacity_per_s, 0.0) * STEP_S
        requests.append(_by_hour(demand * STEP_S))
        missed.append(_by_hour(missed_requests))
        served_requests = requests[-1] - missed[-1]
        replica_hours = served_requests.sum(axis=1) / (service.requests_per_s * HOUR_STEPS * STEP_S)
        useful_chip_hours += replica_hours * service.replica_chips
    tokens = []
    for index in range(len(scenario.jobs)):
        job_tokens, chip_hours = _trained_tokens(
            scenario, plan, index, failed_blocks[len(scenario.services) + index], generator
        )
        tokens.append(_by_hour(job_tokens))
        useful_chip_hours += chip_hours
    return _outcome(scenario, plan, (requests, missed, tokens), useful_chip_hours)


def _by_hour(steps: Array) -> Array:
    """Sums over the steps of each hour: ``[draws, hours]`` of ``[draws, steps]``."""
    sums: Array = steps.reshape(len(steps), -1, HOUR_STEPS).sum(axis=2)
    return sums


def _failed_blocks(scenario: Scenario, plan: FleetPlan, conditions: FleetConditions) -> list[Array]:
    """Blocks lost to failures: one array ``[draws, steps]`` for each service, then for each job.

    Idle blocks are lost first, then blocks of jobs, then of services, the last ones first.
    """
    missing_blocks = np.ceil(conditions.missing_ultraservers / scenario.block_ultraservers)
    blocks = np.concatenate([plan.services, plan.job_blocks(scenario.jobs)], axis=1)
    idle_blocks = scenario.blocks - blocks.sum(axis=1)
    missing_blocks = np.maximum(missing_blocks - np.repeat(idle_blocks, HOUR_STEPS), 0.0)
    services = len(scenario.services)
    order = [*range(blocks.shape[1] - 1, services - 1, -1), *range(services - 1, -1, -1)]
    failed_blocks: dict[int, Array] = {}
    for index in order:
        failed_blocks[index] = np.minimum(missing_blocks, np.repeat(blocks[:, index], HOUR_STEPS))
        missing_blocks = missing_blocks - failed_blocks[index]
    return [failed_blocks[index] for index in range(blocks.shape[1])]


def _capacity_per_s(
    scenario: Scenario,
    service: Service,
    blocks: Counts,
    failed_blocks: Array,
    generator: np.random.Generator | None,
) -> Array:
    """Requests a second that a service can serve ``[draws, steps]``.

    Blocks received in an hour serve once they have started; blocks given up stop at once.
    """
    hourly_blocks = np.repeat(blocks[:, None], HOUR_STEPS, axis=1).astype(float)
    unready_steps = ready_steps(scenario, service)
    hourly_blocks[1:, :unready_steps] = np.minimum(
        hourly_blocks[1:, :unready_steps], blocks[:-1, None]
    )
    serving_blocks = np.maximum(hourly_blocks.reshape(-1) - failed_blocks, 0.0)
    block_rate = scenario.block_chips / service.replica_chips * service.requests_per_s
    if generator is None:
        return serving_blocks * scenario.block_requests_per_s(service)
    failures = generator.poisson(
        serving_blocks * (scenario.block_chips * STEP_S / scenario.fleet.chip_mtbf_s)
    )
    capacity: Array = block_rate * np.maximum(
        serving_blocks - failures * (service.start_s / STEP_S), 0.0
    )
    return capacity


def _trained_tokens(
    scenario: Scenario,
    plan: FleetPlan,
    job_index: int,
    failed_blocks: Array,
    generator: np.random.Generator | None,
) -> tuple[Array, Array]:
    """Tokens of a kind of job ``[draws, steps]``, and useful chip-hours ``[draws]``.

    Each failure costs the mean loss of a failure, work since the last checkpoint included, so that
    a step may have negative tokens.
    """
    job, counts = scenario.jobs[job_index], plan.jobs[job_index]
    rates = np.array([level.kept_tokens_per_s for level in job.levels])
    useful_chips = np.array([level.kept * level.chips for level in job.levels])
    stopped_share = np.clip(scenario.stop_s(job) / STEP_S - np.arange(HOUR_STEPS), 0.0, 1.0)
    changes = level_changes(counts)

    def sum_running(amounts: Array) -> Array:
        """A sum over jobs by step ``[1, steps]``, without jobs that are changing width."""
        by_hour = (counts @ amounts)[:, None] - (changes @ amounts)[:, None] * stopped_share
        by_step: Array = by_hour.reshape(1, -1)
        return by_step

    blocks = np.repeat(plan.job_blocks(scenario.jobs)[:, job_index], HOUR_STEPS)
    share = 1.0 - np.minimum(failed_blocks * _step_blocks(job) / np.maximum(blocks, 1), 1.0)
    if generator is not None:
        share = share + _deviation(scenario, plan, job_index, share.shape, generator)
    chip_hours = (sum_running(useful_chips) * share).sum(axis=1) / HOUR_STEPS
    return sum_running(rates) * share * STEP_S, chip_hours


def _step_blocks(job: TrainingJobKind) -> int:
    """Blocks that a job loses if one of its blocks fails: a step of width, or its only width."""
    widths = [level.blocks for level in job.levels[1:]]
    return max((next_width - width for width, next_width in pairwise(widths)), default=widths[-1])


def _deviation(
    scenario: Scenario,
    plan: FleetPlan,
    job_index: int,
    shape: tuple[int, ...],
    generator: np.random.Generator,
) -> Array:
    """Relative deviation of tokens from their mean, by the failures of each step ``shape``."""
    job, counts = scenario.jobs[job_index], plan.jobs[job_index]
    chips = np.repeat(counts @ np.array([level.chips for level in job.levels]), HOUR_STEPS)
    rates = np.array([level.tokens_per_s for level in job.levels])
    kept_rates = np.array([level.kept_tokens_per_s for level in job.levels])
    full_tokens, kept_tokens = (
        np.repeat(counts @ per_job, HOUR_STEPS) for per_job in (rates, kept_rates)
    )
    loss_ratio = (full_tokens - kept_tokens) / np.maximum(kept_tokens, 1e-300)
    mean = chips * (STEP_S / scenario.fleet.chip_mtbf_s)
    failures = generator.poisson(np.broadcast_to(mean, shape))
    deviation: Array = np.where(
        mean > 0, loss_ratio * (1.0 - failures / np.maximum(mean, 1e-300)), 0.0
    )
    return deviation


def _outcome(
    scenario: Scenario,
    plan: FleetPlan,
    hourly: tuple[list[Array], list[Array], list[Array]],
    useful_chip_hours: Array,
) -> FleetOutcome:
    draws, hours = len(useful_chip_hours), scenario.hours
    requests, missed, tokens = (
        np.stack(arrays) if arrays else np.zeros((0, draws, hours)) for arrays in hourly
    )
    fleet = scenario.fleet
    chip_hours = float(fleet.chips * hours)
    cost = np.full(draws, chip_hours * fleet.usd_per_chip_hour)
    energy = _energy_kwh(scenario, plan)
    if energy is not None:
        cost += energy * fleet.usd_per_kwh
    for index, service in enumerate(scenario.services):
        cost += missed[index].sum(axis=1) * service.usd_per_missed_request
    worth = np.zeros(draws)
    for index, job in enumerate(scenario.jobs):
        worth += tokens[index].sum(axis=1) * job.usd_per_token
    return FleetOutcome(
        requests=requests,
        missed=missed,
        tokens=tokens,
        useful_chip_hours=useful_chip_hours,
        chip_hours=chip_hours,
        usd=cost - worth,
        cost_usd=cost,
        energy_kwh=energy,
        days=hours // DAY_HOURS,
    )


def _energy_kwh(scenario: Scenario, plan: FleetPlan) -> float | None:
    """Energy of all chips; spares and chips that wait are idle."""
    watts = scenario.fleet.watts
    if watts is None:
        return None
    serving = float(plan.services.sum()) * scenario.block_chips
    training = float(plan.job_blocks(scenario.jobs).sum()) * scenario.block_chips
    idle_chip_hours = scenario.fleet.chips * scenario.hours - serving - training
    return (
        serving * watts.serving + training * watts.training + idle_chip_hours * watts.idle
    ) / WATTS_PER_KW
