"""What follows from a scenario."""

import pytest

from trnsim.system.fleet.scenario import spares_for


def test_a_hand_over_takes_the_longest_drain_or_checkpoint(scenario_of):
    found = scenario_of(
        {
            "requests_per_s: 10": "requests_per_s: 10\n    drain_s: 60\n    weights_s: 200",
            "checkpoint_s: 0": "checkpoint_s: 0\n    save_s: 90\n    restore_s: 30",
        }
    )
    assert found.handover_s == 90
    assert found.ready_s(found.services[0]) == 290
    assert found.stop_s(found.jobs[0]) == 120


def test_what_failures_take_of_a_service_is_its_time_to_start(scenario_of):
    found = scenario_of(
        {
            "requests_per_s: 10": "requests_per_s: 10\n    weights_s: 360",
            "chip_mtbf_hours: 1e12": "chip_mtbf_hours: 640",
        }
    )
    (chat,) = found.services
    assert found.failed_part(chat) == pytest.approx(0.01)  # a failure each 10 hours, 0.1 h each
    assert found.block_requests_per_s(chat) == pytest.approx(9.9)


def test_local_hours_follow_the_clock(scenario_of):
    found = scenario_of({"UTC": "Europe/Berlin", "2026-03-02": "2026-03-29"})
    assert [found.local_time(hour).hour for hour in range(4)] == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("ultraservers", "repaired", "spares"),
    [
        (1, 0.1, 0),
        (100, 0.0, 0),
        (100, 0.01, 2),
        (260, 0.03, 12),
        (10, 2.0, 9),
        (100_000, 0.03, 3071),
    ],
)
def test_spares_are_the_ninetieth_percentile_of_poissons_distribution(
    ultraservers, repaired, spares
):
    assert spares_for(ultraservers, repaired) == pytest.approx(spares, abs=1)
