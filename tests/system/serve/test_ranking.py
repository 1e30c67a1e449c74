import pytest
from serve_cases import PATTERN, deployed

from trnsim.system.serve.capacity import LoadTest
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.events import Router
from trnsim.system.serve.ranking import Ranking, layout
from trnsim.system.serve.sizing import Spare, units_for

pytestmark = pytest.mark.usefixtures("short_runs")

UNITS = [
    deployed(tensor=tensor, max_num_seqs=sequences)
    for tensor in (2, 8, 16)
    for sequences in (1, 4, 16)
]


def ranking(slo, **how):
    return Ranking(UNITS, PATTERN, Router.ROUND_ROBIN, slo, **how)


@pytest.mark.parametrize("slo", [Slo(0.3, 0.012), Slo(0.2, 0.03)])
def test_no_layout_keeps_more_than_the_one_that_is_found(slo):
    best = ranking(slo).best()
    for unit in UNITS:
        test = LoadTest(unit, PATTERN, Router.ROUND_ROBIN)
        limits = test.limits(slo)
        if limits.is_met(test.unloaded_figures()):
            assert not test.is_within(limits, 1.05 * best.capacity.per_s, 2048)


def test_a_rate_is_served_by_the_layout_that_keeps_the_most_of_equal_cost():
    """Not by the fastest: its most load would be a twentieth."""
    slo = Slo(0.3, 0.03)
    free = ranking(slo).best()
    slow = ranking(slo, rate_per_s=1.0, spare=Spare.INSTANCE).best()
    assert slow.instance_rate_per_s == pytest.approx(free.instance_rate_per_s, rel=0.05)
    assert slow.unit.engine.max_num_seqs > 1
    assert slow.tried == len(UNITS)


@pytest.mark.parametrize("rate_per_s", [90.0, 250.0])
def test_no_layout_serves_a_rate_with_fewer_instances(rate_per_s):
    """An exhaustive search: each layout is run at what one instance less would have to keep."""
    slo = Slo(0.3, 0.03)
    best = ranking(slo, rate_per_s=rate_per_s, spare=Spare.INSTANCE).best()
    instances = units_for(rate_per_s, best.capacity.per_s, 1.0)
    assert instances > 2
    for unit in UNITS:
        test = LoadTest(unit, PATTERN, Router.ROUND_ROBIN)
        limits = test.limits(slo)
        needed_per_s = rate_per_s / (instances - 2) * 1.02  # bisection ends at 1 %
        assert not test.is_within(limits, needed_per_s, best.capacity.requests)


def test_the_winner_alone_is_measured_in_the_longest_runs(monkeypatch):
    """Of nine layouts several are compared; the sampling error of the others does not matter."""
    measured, tried = [], []
    own, long = LoadTest.final_capacity, LoadTest.highest_rate_in_long_runs
    monkeypatch.setattr(
        LoadTest, "final_capacity", lambda *given: measured.append(given[0]) or own(*given)
    )
    monkeypatch.setattr(
        LoadTest, "highest_rate_in_long_runs", lambda *given: tried.append(1) or long(*given)
    )
    best = ranking(Slo(0.3, 0.03)).best()
    assert measured == [best.test]
    assert tried
    assert best.requests == best.capacity.requests


def test_nothing_is_best_where_no_layout_keeps_the_limits():
    assert ranking(Slo(tpot_s=1e-4)).best() is None


def test_progress_names_the_layouts():
    told = []
    ranking(Slo(0.3, 0.03), tell=told.append).best()
    assert told[0].startswith("layout 1 of 9: ")
    assert any(words.startswith("capacity of ") for words in told)


def test_a_layout_in_words():
    assert layout(deployed()) == "4 x TP8, 4 sequences"
