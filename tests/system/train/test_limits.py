import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from trnsim.errors import BadInput
from trnsim.system.train import limits as limits_module
from trnsim.system.train.limits import RunLimits, runs_on_enough

DAY_S = 86400.0


@dataclass(frozen=True)
class Timed:
    """A run: instances, days, and thousands of USD."""

    count: int
    days: float
    kusd: float | None
    sizes: tuple = ()

    @property
    def machine(self):
        return SimpleNamespace(count=self.count, chips=16 * self.count)

    @property
    def time_s(self):
        return SimpleNamespace(p50=self.days * DAY_S)

    @property
    def usd(self):
        return None if self.kusd is None else SimpleNamespace(p50=self.kusd * 1e3)


SMALL, MIDDLE, LARGE = Timed(1, 8, 10), Timed(2, 4.5, 11), Timed(4, 2.5, 13)
FREE = Timed(8, 1, None)
RUNS = [SMALL, MIDDLE, LARGE, FREE]


@pytest.mark.parametrize(
    ("days", "usd", "best", "nearest"),
    [
        (8, None, SMALL, SMALL),
        (7.99, None, MIDDLE, MIDDLE),
        (2.5, 13e3, LARGE, LARGE),
        (2.4, None, FREE, FREE),
        (2.4, 13e3, None, FREE),  # in time, without a price
        (0.5, None, None, FREE),
        (None, 12e3, MIDDLE, MIDDLE),
        (None, 13e3, LARGE, LARGE),
        (None, 9e3, None, SMALL),
        (3, 12e3, None, LARGE),
    ],
)
def test_the_cheapest_run_in_time_is_the_best_and_with_a_budget_alone_the_shortest(
    days, usd, best, nearest
):
    limits = RunLimits(None if days is None else days * DAY_S, usd)
    index = limits.best(RUNS)
    assert (None if index is None else RUNS[index]) == best
    assert RUNS[limits.nearest(RUNS)] == nearest


@pytest.mark.parametrize(
    ("limits", "feasible"),
    [
        (RunLimits(0.5 * DAY_S), [(1, None)]),
        (RunLimits(None, 9e3), [(None, 10e3)]),
        (RunLimits(3 * DAY_S, 12e3), [(4.5, 12e3), (3, 13e3)]),
        (RunLimits(2 * DAY_S, 12e3), [(4.5, 12e3)]),
        (RunLimits(2 * DAY_S, 5e3), [(2.5, 13e3)]),
    ],
)
def test_feasible_limits_are_kept_by_a_run(limits, feasible):
    found = limits.feasible([*RUNS, Timed(99, math.inf, None)])
    assert [(one.deadline_s and one.deadline_s / DAY_S, one.usd) for one in found] == feasible
    assert all(one.best(RUNS) is not None for one in found)


def test_nothing_is_feasible_where_nothing_has_a_price():
    assert RunLimits(None, 1e3).feasible([FREE]) == ()


def test_limits_are_told_in_words():
    assert str(RunLimits(36 * 3600, 1e5)) == "a deadline of 1.5 d and a budget of 100,000 USD"
    assert not RunLimits()
    assert RunLimits(1.0)
    assert RunLimits(None, 1.0)


def estimator(work_days, legal=lambda _: True, serial_days=0.0):
    """Runs of work that divides among instances but for a serial part; each costs 1 kUSD a day."""
    asked = []

    def estimated(count):
        count = 1 if count is None else count
        asked.append(count)
        if not legal(count):
            raise BadInput("no layout")
        days = work_days / count + serial_days
        return Timed(count, days, days * count)

    return estimated, asked


@pytest.fixture(autouse=True)
def _sizes_of_fakes(monkeypatch):
    monkeypatch.setattr(
        limits_module, "compare_runs", lambda runs: [SimpleNamespace(sizes=tuple(runs))]
    )


def cheapest_by_hand(estimated, limits, legal=lambda _: True):
    every = [estimated(count) for count in range(1, 65) if legal(count)]
    kept = [run for run in every if run.days * DAY_S <= limits.deadline_s]
    return min(kept, key=lambda run: run.count) if kept else None


@pytest.mark.parametrize("serial_days", [0.0, 0.5])
@pytest.mark.parametrize("days", [100, 99, 40, 14, 13.5, 7.3, 2.1])
def test_the_fewest_instances_that_meet_a_deadline_are_found(days, serial_days):
    estimated, asked = estimator(100.0, serial_days=serial_days)
    limits = RunLimits(days * DAY_S)
    runs = runs_on_enough(estimated, limits)
    found = runs[limits.nearest(runs)]
    by_hand = cheapest_by_hand(estimated, limits)
    assert found.days <= days
    # Linear speedup asks for the number; what is lost beyond it costs a few more.
    assert by_hand.count <= found.count <= by_hand.count * (1.1 if not serial_days else 1.35) + 1
    assert len(asked[: asked.index(found.count) + 1]) <= 8


def test_numbers_that_have_no_layout_are_passed_over():
    def legal(count):
        return count & (count - 1) == 0

    estimated, _ = estimator(100.0, legal)
    limits = RunLimits(14 * DAY_S)
    runs = runs_on_enough(estimated, limits)
    assert runs[limits.nearest(runs)].count == 8


def test_a_model_that_fits_on_no_fewer_than_any_region_has_is_run_on_these():
    limits = RunLimits(DAY_S)
    runs = runs_on_enough(lambda count: Timed(count or 32_768, 10, None), limits)
    assert [run.count for run in runs] == [32_768]


def test_a_deadline_that_more_instances_do_not_reach_ends_the_search():
    estimated, asked = estimator(10.0, serial_days=2.0)
    limits = RunLimits(DAY_S)
    runs = runs_on_enough(estimated, limits)
    assert limits.best(runs) is None
    assert runs[limits.nearest(runs)].days < 2.05
    assert len(asked) <= 9


def test_a_budget_alone_is_used_up():
    estimated, _ = estimator(100.0, serial_days=0.5)  # n instances cost 100 + n / 2 kUSD
    limits = RunLimits(None, 104.1e3)
    runs = runs_on_enough(estimated, limits)
    assert runs[limits.nearest(runs)].count == 8
    assert [run.count for run in runs] == [1, 2, 4, 8, 16]
