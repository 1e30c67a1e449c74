import pytest
from serve_cases import load_test, measured_capacity

from trnsim.system.serve.capacity import Capacity
from trnsim.system.serve.curve import curve
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.sizing import Sizing, Spare

pytestmark = pytest.mark.usefixtures("short_runs")


@pytest.fixture(scope="module")
def points(short_runs):  # noqa: ARG001
    test = load_test()
    capacity = measured_capacity(test, Slo(0.3, 0.03), 30.0)
    return capacity, curve(
        test, capacity, Sizing(3, capacity.per_s, Spare.NONE, 0, 5.0), 60.0, [5.0]
    )


def test_a_curve_goes_from_a_tenth_of_the_most_load_to_beyond_it(points):
    capacity, found = points
    loads = [point.requests_per_s for point in found]
    assert loads == sorted(loads)
    assert 5.0 in loads
    assert loads[-1] == pytest.approx(3.15 * capacity.per_s)
    assert [point.is_kept for point in found][-2:] == [True, False]


def test_latencies_at_the_most_load_are_within_the_limits_and_beyond_them_above(points):
    """By runs of the length that measured it; longer or shorter ones have another P99."""
    _, found = points
    at_most, beyond = found[-2].latencies_s, found[-1].latencies_s
    assert at_most["ttft_p99_s"] <= 0.3
    assert at_most["tpot_p99_s"] <= 0.03
    assert beyond["ttft_p99_s"] > 0.3 or beyond["tpot_p99_s"] > 0.03


def test_latencies_grow_with_the_load_and_cost_falls(points):
    _, found = points
    waits = [point.latencies_s["ttft_p99_s"] for point in found]
    assert waits[-1] > waits[0]
    costs = [point.usd_per_million_tokens for point in found]
    assert costs == sorted(costs, reverse=True)
    tokens_per_s = found[0].output_tokens_per_s
    assert tokens_per_s == pytest.approx(32 * found[0].requests_per_s, rel=0.02)
    assert costs[0] == pytest.approx(60 / 3600 / tokens_per_s * 1e6)


def test_without_a_capacity_there_is_no_curve_and_without_a_price_no_cost():
    test = load_test()
    none = Capacity(0.0, Slo(), "", 0.0, 0)
    assert curve(test, none, Sizing(1, 0.0, Spare.NONE, 0, None), 1.0) == ()
    some = Capacity(5.0, Slo(1.0), "ttft", 0.0, 256)
    (first, *_) = curve(test, some, Sizing(1, 5.0, Spare.NONE, 0, None), None)
    assert first.usd_per_million_tokens is None
