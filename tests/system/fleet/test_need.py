"""What services need."""

import numpy as np
import pytest

from trnsim.system.fleet import need

RATE = "replica_chips: 64\n    requests_per_s: 10"


@pytest.fixture
def table(tmp_path):
    def write(hours):
        rows = [f"2026-03-02T{at:02}:00,{one}" for at, one in enumerate(hours)]
        (tmp_path / "chat.csv").write_text("\n".join(["time,requests_per_s", *rows]) + "\n")
        return {"{peak_requests_per_s: 90}": "chat.csv"}

    return write


def test_an_hour_needs_whole_blocks_of_its_busiest_step(scenario_of, table):
    found = scenario_of(table([0, 1, 10, 10.5, 20] + [0] * 19))
    assert need.needs(found, "p50")[:6, 0].tolist() == [0, 1, 1, 2, 2, 0]


def test_what_starts_too_late_is_needed_an_hour_before(scenario_of, table):
    slow = {RATE: RATE + "\n    weights_s: 10"}
    found = scenario_of(table([0, 0, 10, 20] + [0] * 20) | slow)
    assert need.ready_steps(found, found.services[0]) == 1
    assert need.needs(found, "p50")[:5, 0].tolist() == [0, 1, 2, 2, 0]


@pytest.mark.parametrize(("weights_s", "steps"), [(0, 0), (1, 1), (300, 1), (301, 2), (3600, 12)])
def test_steps_until_a_block_serves(scenario_of, weights_s, steps):
    found = scenario_of({RATE: f"{RATE}\n    weights_s: {weights_s}"})
    assert need.ready_steps(found, found.services[0]) == steps


@pytest.mark.parametrize(
    "replaced",
    [
        {RATE: "replica_chips: 64\n    requests_per_s: 1e-9", "_s: 90": "_s: 1e12"},
        {RATE: RATE + "\n    weights_s: 3600", "hours: 1e12": "hours: 1"},
    ],
)
def test_a_service_that_no_fleet_serves_needs_every_block(scenario_of, replaced):
    """A block serves 1e-21 of the demand; or restarts after failures take all of its time."""
    found = scenario_of(replaced)
    wanted = need.needs(found, "p50")
    assert need.allotment(found, wanted).tolist() == [[found.blocks]] * 24


def test_a_service_without_demand_or_rate_needs_no_block(scenario_of):
    found = scenario_of(
        {RATE: RATE + "\n    weights_s: 3600", "hours: 1e12": "hours: 1", "_s: 90": "_s: 0"}
    )
    assert not need.needs(found, "p50").any()


def test_what_can_be_given_goes_to_the_first(scenario_of):
    wanted = np.array([[5, 5], [25, 5], [18, 5]])
    assert need.allotment(scenario_of(), wanted).tolist() == [[5, 5], [20, 0], [18, 2]]
