from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import fair_rates, simulate

from trnsim.fabric.choice import KINDS
from trnsim.fabric.closed_form import plan_loads, time_s
from trnsim.fabric.fabric import fabric
from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Transfer, phase

TRN2 = fabric("trn2.48xlarge", lnc=2)
START_S, HOP_S = TRN2.start_s, 1.5e-6
LINK = 128e9


def max_min(flows, capacity):
    """Max-min fair rates by the definition, in fractions: raise all open rates together."""
    rates = [Fraction(0)] * len(flows)
    fixed = [False] * len(flows)
    left = [Fraction(one) for one in capacity]
    while not all(fixed):
        steps = [
            room / total
            for resource, room in enumerate(left)
            if (total := sum(w for f, w in uses(flows, fixed, resource)))
        ]
        step = min(steps)
        full = set()
        for resource in range(len(left)):
            total = sum(w for _, w in uses(flows, fixed, resource))
            left[resource] -= step * total
            if total and left[resource] == 0:
                full.add(resource)
        for flow, parts in enumerate(flows):
            if not fixed[flow]:
                rates[flow] += step
                fixed[flow] = any(resource in full for resource, _ in parts)
    return [float(rate) for rate in rates]


def uses(flows, fixed, resource):
    return [
        (flow, weight)
        for flow, parts in enumerate(flows)
        if not fixed[flow]
        for at, weight in parts
        if at == resource
    ]


@settings(max_examples=60)
@given(st.data())
def test_rates_are_max_min_fair(data):
    capacity = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    part = st.tuples(st.integers(0, len(capacity) - 1), st.integers(1, 3))
    flow = st.lists(part, min_size=1, max_size=3, unique_by=lambda one: one[0])
    flows = data.draw(st.lists(flow, min_size=1, max_size=6))
    entries = [(f, r, w) for f, parts in enumerate(flows) for r, w in parts]
    transfer, resource, weight = (np.array(column) for column in zip(*entries, strict=True))
    found = fair_rates(transfer, resource, weight.astype(float), np.array(capacity), len(flows))
    assert found.tolist() == pytest.approx(max_min(flows, capacity))


def test_one_transfer_takes_start_hop_and_its_bytes_over_the_link():
    found = simulate(TRN2, (phase([Transfer(0, 4, 1e9)]),))
    assert found.time_s == pytest.approx(START_S + HOP_S + 1e9 / LINK)
    link = TRN2.names.index("chip 0 to chip 1")
    assert found.nbytes[link] == pytest.approx(1e9)
    assert found.busy_s[link] == pytest.approx(1e9 / LINK)
    assert found.end_s == {0: found.time_s, 4: found.time_s}


def test_two_transfers_share_a_link_until_the_shorter_ends():
    found = simulate(TRN2, (phase([Transfer(0, 4, 3e9), Transfer(1, 5, 1e9)]),))
    assert found.time_s == pytest.approx(START_S + HOP_S + 4e9 / LINK)
    assert found.end_s[5] == pytest.approx(START_S + HOP_S + 2e9 / LINK)


def test_a_phase_waits_for_what_its_senders_get_and_for_nothing_else():
    first = phase([Transfer(0, 4, 1e9), Transfer(8, 12, 3e9)])
    then = phase([Transfer(4, 0, 1e9), Transfer(20, 24, 1e9)])
    found = simulate(TRN2, (first, then))
    assert found.end_s[0] == pytest.approx(START_S + 2 * (HOP_S + 1e9 / LINK))
    assert found.end_s[24] == pytest.approx(START_S + HOP_S + 1e9 / LINK)
    assert found.end_s[12] == found.time_s


def test_a_late_rank_delays_its_partners_alone():
    plan = (phase([Transfer(0, 4, 1e9), Transfer(8, 12, 1e9)]),)
    found = simulate(TRN2, plan, {4: 1e-3})
    assert found.end_s[12] == pytest.approx(START_S + HOP_S + 1e9 / LINK)
    assert found.end_s[0] == pytest.approx(found.end_s[12] + 1e-3)


def test_a_slow_link_holds_up_a_ring():
    slow = type(TRN2)(TRN2.instance, lnc=2, factors={"chip 0 to chip 1": 0.25})
    ring = KINDS["all_gather"][0]
    plans = [ring.plan(RankGroup(one, tuple(range(16))), 64e6) for one in (TRN2, slow)]
    usual, held_up = (simulate(one, p) for one, p in zip((TRN2, slow), plans, strict=True))
    assert held_up.time_s > 1.5 * usual.time_s


@pytest.mark.parametrize("left", [0.25, 0.0])
def test_an_adapter_of_one_node_holds_up_what_takes_it_by_hand(left):
    name = "instance 0, EFA 0, out"
    pair = type(TRN2)(TRN2.instance, nodes=2, lnc=2)
    slow = type(TRN2)(TRN2.instance, nodes=2, lnc=2, factors={name: left})
    rate = pair.capacity[pair.names.index(name)]
    # From chips 0 and 1 of the first node to those of the other, and back.
    plan = (phase([Transfer(0, 64, 1e9), Transfer(4, 68, 1e9), Transfer(64, 0, 1e9)]),)
    usual, held_up = simulate(pair, plan), simulate(slow, plan)
    # Dead, its transfers share the adapter of chip 1; slow, they take four times as long.
    assert held_up.end_s[0] - usual.end_s[0] == pytest.approx((3 if left else 1) * 1e9 / rate)
    assert held_up.time_s == pytest.approx(time_s(slow, plan))
    other = held_up.end_s[4] - usual.end_s[4]
    assert other == pytest.approx(0 if left else 1e9 / rate)
    carried = dict(zip(slow.names, held_up.nbytes, strict=True))
    assert carried[name] == (1e9 if left else 0)


GROUPS = [range(64), range(16), range(4), range(0, 64, 4), (0, 1), (0, 4), range(8)]


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("all_reduce-range(0, 64)")
@pytest.mark.parametrize("ranks", GROUPS, ids=str)
@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce"])
def test_events_and_closed_form_agree_without_contention(kind, ranks):
    group = RankGroup(TRN2, tuple(ranks))
    for one in KINDS[kind]:
        if one.is_possible(group):
            for nbytes in (1024.0, 64e6):
                plan = one.plan(group, nbytes)
                found, closed_s = simulate(TRN2, plan), time_s(TRN2, plan)
                assert found.time_s <= closed_s * (1 + 1e-9)  # ranks need not wait for all others
                assert found.time_s == pytest.approx(closed_s, rel=0.01), one.name
                assert found.nbytes == pytest.approx(plan_loads(TRN2, plan))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather"])
def test_events_and_closed_form_agree_over_instances(kind):
    made = fabric("trn2.48xlarge", nodes=4, lnc=2)
    group = RankGroup(made, tuple(range(256)))
    plan = next(one for one in KINDS[kind] if one.name == "hierarchical").plan(group, 1e8)
    assert simulate(made, plan).time_s == pytest.approx(time_s(made, plan), rel=0.01)
