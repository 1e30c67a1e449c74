import pytest
from fleet_cases import made_of
from shown_pages import Shown, at

from trnsim.cli.plan.fleet_charts import coloured_names, day, dollars, misses, needed_chips, worth


@pytest.fixture(scope="module")
def made():
    return made_of()


def test_a_day_has_the_chips_of_each_hour_and_what_is_idle(made):
    shown = Shown(day(made, "threshold", 0, "Monday"))
    assert len(shown.drawn) == 24 * 3
    for place, value in shown.drawn:
        assert at(made, place) == value
    by_hour = [sum(chips[hour] for chips in made["policies"]["threshold"]["chips"].values())
               for hour in range(24)]  # fmt: skip
    assert max(by_hour) <= made["usable_chips"]


def test_demand_needs_parts_of_replicas(made):
    (one,) = made["services"]
    (p10, p50, p90) = (needed_chips(made, name) for name in ("p10", "p50", "p90"))
    assert p50[12] == pytest.approx(
        made["demand"]["chat"]["p50"][12] * one["replica_chips"] / one["requests_per_s"]
    )
    assert all(low <= mid <= high for low, mid, high in zip(p10, p50, p90, strict=True))
    assert 'class="line outer"' in day(made, "threshold", 0, "")


def test_a_fleet_without_services_has_no_lines(made):
    bare = made | {"services": [], "demand": {}}
    assert "polyline" not in day(bare, "threshold", 0, "")
    assert coloured_names(bare) == [("c0", "research"), ("c1", "tuning")]


def test_misses_costs_and_worth_are_those_of_the_file(made):
    for markup, count in ((misses(made, "separate"), 24), (dollars(made), 6), (worth(made), 2)):
        shown = Shown(markup)
        assert len(shown.drawn) == count
        for place, value in shown.drawn:
            assert at(made, place) == value
