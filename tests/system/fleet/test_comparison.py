"""Policies side by side; plans beside a checker that shares no code with them."""

from collections import Counter

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.system.fleet import comparison
from trnsim.system.fleet.comparison import compare, policy_plan
from trnsim.system.fleet.placing import building_shares
from trnsim.system.fleet.policies import threshold
from trnsim.system.fleet.reading import read
from trnsim.system.fleet.worth import perfect_usd

CURVES = 20
SCENARIO = """\
timezone: America/New_York
start: 2026-03-07
days: 1
fleet:
  instance: trn2.48xlarge
  ultraserver_chips: 64
  buildings: {{north: 22, south: 14}}
  spares: 1
  usd_per_chip_hour: 1.5
planning: {{demand: p50}}
services:
  chat:
    replica_chips: 16
    requests_per_s: 8
    drain_s: 60
    weights_s: 300
    demand: {{peak_requests_per_s: {peak}, hours: [{hours}]}}
  code:
    replica_chips: 128
    requests_per_s: 30
    weights_s: 500
    demand: {{peak_requests_per_s: {other}}}
jobs:
  research:
    smallest_chips: 256
    largest_chips: 1280
    step_chips: 128
    tokens_per_s: {{256: 0.5e6, 1280: 2.2e6}}
    save_s: 60
    restore_s: {restore}
  tuning:
    count: 3
    smallest_chips: 128
    largest_chips: 256
    tokens_per_s: {{128: 0.23e6, 256: 0.44e6}}
    restore_s: 120
"""


def scenario_at(number, folder):
    """The scenario with a demand curve of its own, drawn."""
    draw = np.random.default_rng(number)
    wave = 0.55 + 0.35 * np.sin((np.arange(24) + draw.uniform(0, 24)) / 24 * 2 * np.pi)
    hours = np.clip(wave + draw.normal(0, 0.08, 24), 0.05, 0.99)
    path = folder / f"{number}.yaml"
    path.write_text(
        SCENARIO.format(
            peak=draw.integers(300, 900),
            other=draw.integers(30, 220),
            hours=", ".join(f"{one:.3f}" for one in hours),
            restore=draw.integers(60, 1800),
        )
    )
    return read(path)


def check(scenario, plan):
    """Every rule that a plan keeps, from its numbers alone.

    Raises:
        AssertionError: it breaks one.
    """
    servers = dict(scenario.fleet.ultraservers)
    jobs = {job.name: [level.chips for level in job.levels] for job in scenario.jobs}
    for hour in range(scenario.days * 24):
        total = 0
        for at, service in enumerate(scenario.services):
            chips = int(plan.services[hour, at]) * scenario.block_chips
            assert chips >= 0
            assert chips % service.replica_chips == 0, "a part of a replica"
            total += chips
        for counts, (job, widths) in zip(plan.jobs, jobs.items(), strict=True):
            running = [int(one) for one in counts[hour]]
            assert min(running) >= 0
            assert sum(running) == next(one.count for one in scenario.jobs if one.name == job)
            total += sum(n * chips for n, chips in zip(running, widths, strict=True))
        usable = sum(scenario.fleet.ultraserver_chips * (count - 1) for count in servers.values())
        assert total <= usable, "more chips than there are"


def check_places(scenario, plan, hour):
    """Whole UltraServers of one building for every job that asks for it; no building overfull.

    Raises:
        AssertionError: a rule is broken.
    """
    where = building_shares(scenario, plan, hour)
    seen = Counter()
    for building, shares in where.items():
        used = sum(shares.values()) * scenario.block_ultraservers
        assert used <= scenario.fleet.ultraservers[building] - 1
        seen.update(shares)
    for at, service in enumerate(scenario.services):
        assert seen[service.name] == plan.services[hour, at]
    for job, counts in zip(scenario.jobs, plan.jobs, strict=True):
        widths = [level.chips // 64 // scenario.block_ultraservers for level in job.levels]
        assert seen[job.name] == counts[hour] @ widths
        if job.count == 1:
            assert sum(job.name in shares for shares in where.values()) <= 1


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """Scenarios with curves of their own, and both policies' results."""
    pytest.importorskip("highspy")
    folder = tmp_path_factory.mktemp("curves")
    found = [scenario_at(number, folder) for number in range(CURVES)]
    both = ("threshold", "solver")
    return [(one, compare(one, both, draws=1)) for one in found]


@pytest.mark.slow
def test_the_solvers_plan_costs_at_most_the_thresholds_at_no_more_misses(curves):
    gains = []
    for _, found in curves:
        plain, best = found["threshold"].expected, found["solver"].expected
        assert best.missed.sum() <= plain.missed.sum() + 1e-6
        assert best.usd[0] <= plain.usd[0]
        gains.append((plain.usd[0] - best.usd[0]) / plain.usd[0])
    assert sum(found["solver"].is_own_plan for _, found in curves) >= CURVES * 3 // 4
    assert max(gains) > 0.01


def test_no_plan_is_worth_more_than_perfect_sharing(curves):
    for scenario, found in curves:
        one = found["solver"].expected
        assert one.cost_usd[0] - one.usd[0] <= perfect_usd(scenario) * (1 + 1e-9)


def test_plans_pass_a_checker_that_shares_no_code_with_them(curves):
    for scenario, found in curves:
        for result in found.values():
            check(scenario, result.plan)
            for hour in (0, 7, 13, 23):
                check_places(scenario, result.plan, hour)


def test_the_checker_finds_a_plan_that_has_too_much(curves):
    scenario, found = curves[0]
    plan = found["solver"].plan
    more = type(plan)("more", plan.services + 40, plan.jobs)
    with pytest.raises(AssertionError, match="more chips than there are"):
        check(scenario, more)


def test_a_worse_plan_of_the_solver_gives_way_to_the_thresholds(scenario_of, monkeypatch):
    found = scenario_of()
    plan = threshold(found)
    waiting = np.zeros_like(plan.jobs[0])
    waiting[:, 0] = 1
    idle = type(plan)("solver", plan.services, (waiting,))
    monkeypatch.setattr(comparison, "solver_plan", lambda *_: idle)
    best, is_own = policy_plan(found, "solver", lambda _: None)
    assert not is_own
    assert (best.jobs[0] == plan.jobs[0]).all()


def test_sharing_brings_more_than_two_fleets(scenario_of):
    found = compare(
        scenario_of({"s: 90}": "s: 150, p90: 1.1}"}), ("separate", "threshold"), draws=2
    )
    apart, shared = found["separate"].outcome, found["threshold"].outcome
    assert shared.tokens_per_day.min() > apart.tokens_per_day.max()
    assert shared.usd.max() < apart.usd.min()


def test_a_policy_that_is_not_known_is_refused(scenario_of):
    with pytest.raises(BadInput, match="legal: separate, threshold, solver"):
        policy_plan(scenario_of(), "best", lambda _: None)
