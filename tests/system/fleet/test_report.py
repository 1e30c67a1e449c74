"""Results as JSON."""

import json

import pytest

from trnsim.system.fleet.comparison import compare
from trnsim.system.fleet.report import values


@pytest.fixture
def made(scenario_of):
    found = scenario_of({"s: 90}": "s: 150, p10: 0.5, p90: 1.2}"})
    return values(found, compare(found, ("separate", "threshold"), draws=3), 0)


def test_it_is_json_with_all_that_a_page_of_the_day_needs(made):
    assert json.loads(json.dumps(made)) == made
    one = made["policies"]["threshold"]
    assert len(made["hours"]) == 24
    for name in ("p10", "p50", "p90"):
        assert len(made["demand"]["chat"][name]) == 24
        assert len(one["requests_missed"]["chat"][name]) == 24
        assert len(one["tokens"]["big"][name]) == 24
    assert set(one["chips"]) == {"chat", "big"}


def test_chips_of_an_hour_are_those_of_its_buildings(made):
    one = made["policies"]["threshold"]
    for hour, buildings in enumerate(one["buildings_first_day"]):
        for name, chips in one["chips"].items():
            blocks = sum(shares.get(name, 0) for shares in buildings.values())
            assert blocks * made["block_chips"] == chips[hour]


def test_usd_are_found_again_from_its_own_figures(made):
    one = made["policies"]["threshold"]["expected"]
    chips_usd = made["chips"] * made["usd_per_chip_hour"] * 24
    assert one["usd"] == pytest.approx(chips_usd - one["training_usd"])
    assert one["usd_per_day"]["sum"] == pytest.approx(one["usd"])
    parts = [one["usd_per_day"][name] for name in ("chips", "energy", "missed", "worth")]
    assert one["usd_per_day"]["sum"] == pytest.approx(sum(parts[:3]) - parts[3])


def test_each_draw_has_its_misses_and_tokens(made):
    assert made["draws"] == 3
    for one in made["policies"].values():
        assert {len(each) for each in one["draws"]["requests_missed"].values()} == {3}
        tokens = one["draws"]["tokens"]["big"]
        assert sorted(tokens)[1] == pytest.approx(one["tokens_per_day"]["p50"], rel=1e-6)
