"""What jobs are worth."""

import numpy as np
import pytest

from trnsim.system.fleet import worth
from trnsim.system.fleet.need import needs
from trnsim.system.fleet.plan import FleetPlan

CHANGING = {"checkpoint_s: 0": "checkpoint_s: 0\n    restore_s: 360"}


def test_an_hour_is_worth_its_tokens(scenario_of):
    found = scenario_of()
    usd = worth.hourly_usd(found, found.jobs[0])
    assert usd == pytest.approx(np.arange(11) * 64.0)  # what the chips cost


def test_energy_is_paid_beyond_that_of_idle_chips(scenario_of):
    watts = "usd_per_chip_hour: 1\n  usd_per_kwh: 0.1\n"
    watts += "  watts_per_chip: {serving: 400, training: 500, idle: 100}"
    found = scenario_of(
        {"usd_per_chip_hour: 1": watts, "640: 1e4}": "640: 1e4}\n    usd_per_million_tokens: 0"}
    )
    assert worth.hourly_usd(found, found.jobs[0])[-1] == pytest.approx(-640 * 0.04)


def test_a_change_costs_the_tokens_of_its_time_at_the_new_width(scenario_of):
    found = scenario_of(CHANGING)
    usd, cost = (one(found, found.jobs[0]) for one in (worth.hourly_usd, worth.entering_usd))
    assert cost == pytest.approx(usd / 10)


def test_a_plan_is_worth_its_hours_less_its_changes(scenario_of):
    found = scenario_of(CHANGING)
    counts = np.zeros((24, 11), np.int64)
    counts[:12, 10] = counts[12:, 5] = 1
    plan = FleetPlan("a", np.zeros((24, 1), np.int64), (counts,))
    assert worth.planned_usd(found, plan) == pytest.approx(64 * (12 * 10 + 12 * 5 - 0.5))


def test_perfect_sharing_has_every_free_block_at_no_cost(scenario_of):
    found = scenario_of(
        {
            "{peak_requests_per_s: 90}": "{peak_requests_per_s: 190}",
            "checkpoint_s: 0": "checkpoint_s: 0\n    restore_s: 360",
        }
    )
    free = 20 - needs(found, "p90")[:, 0]
    assert worth.perfect_usd(found) == pytest.approx(64.0 * np.minimum(free, 10).sum())


def test_perfect_sharing_may_mix_widths(scenario_of):
    found = scenario_of(
        {
            "{peak_requests_per_s: 90}": "{peak_requests_per_s: 145}",
            "largest_chips: 640": "largest_chips: 640\n    step_chips: 576",
        }
    )
    free = np.minimum(20 - needs(found, "p90")[:, 0], 10)
    assert worth.perfect_usd(found) == pytest.approx(64.0 * free.sum())
