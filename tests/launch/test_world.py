from dataclasses import replace

import pytest
from rank_figures_made import figures

from trnsim.arch import target
from trnsim.estimate.program import estimate_program
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.launch.world import world

FABRIC = fabric("trn2.48xlarge", lnc=2, ranks_per_node=8)
BYTES = 1 << 22


def of(pairs, kind="allreduce", nbytes=BYTES, calls=5, on=FABRIC):
    """The world of ranks that make one collective in these groups."""
    return world(
        on, [figures(rank, [(kind, nbytes, group, calls)]) for group in pairs for rank in group]
    )


def test_groups_that_work_at_once_are_one_row_and_share_the_links():
    # Ranks 0-3 are one chip, 4-7 the other: each of four groups crosses between them.
    crossing = [(rank, rank + 4) for rank in range(4)]
    (row,) = of(crossing).collectives
    assert (row.groups, row.calls) == (tuple(crossing), 5)
    alone = time_on(FABRIC, "all_reduce", BYTES, [crossing[0]]).time_s
    assert row.time_s == time_on(FABRIC, "all_reduce", BYTES, crossing).time_s > 2 * alone


def test_groups_that_share_a_rank_or_lie_otherwise_are_rows_of_their_own():
    apart = of([(0, 1), (1, 2)])
    assert sorted(one.groups for one in apart.collectives) == [((0, 1),), ((1, 2),)]
    otherwise = of([(0, 1), (3, 4)])  # within a chip, and between two
    assert sorted(one.groups for one in otherwise.collectives) == [((0, 1),), ((3, 4),)]


@pytest.mark.parametrize("nodes", [1, 2])
def test_bytes_of_links_are_those_of_the_algorithm(nodes):
    on = fabric("trn2.48xlarge", nodes=nodes, lnc=2, ranks_per_node=8 // nodes)
    found = of([tuple(range(8))], on=on)
    (row,) = found.collectives
    sent = sum(nbytes for name, nbytes, _ in found.links if "DMA" in name)
    local = sum(
        one.nbytes[one.sources == one.targets].sum() * one.repeat for one in row.choice.plan
    )
    assert sent == pytest.approx(row.moved_bytes + row.calls * local)
    assert any("EFA" in name for name, _, _ in found.links) == (nodes == 2)
    assert [row[2] for row in found.links] == sorted((r[2] for r in found.links), reverse=True)


def test_times_of_ranks_are_those_of_their_step():
    ranks = tuple(range(8))
    figured = [
        figures(rank, [("allreduce", BYTES, ranks, 1)], 1e-3 + rank * 1e-6) for rank in ranks
    ]
    found = world(FABRIC, [*reversed(figured)])
    time_s = found.collectives[0].time_s
    assert [one.rank for one in found.ranks] == list(ranks)
    assert found.skew_s == pytest.approx(7e-6)
    assert [tuple(one.place) for one in found.ranks[3:5]] == [(0, 0, 3), (0, 1, 0)]
    for one in found.ranks:
        assert one.step.exchanged_s == pytest.approx(time_s)
        assert one.step.exposed_s == pytest.approx(time_s)
        assert one.step.total_s == pytest.approx(one.device_time_s + time_s)


def test_eager_ranks_pay_the_start_of_a_program():
    ranks = tuple(range(8))
    collective = ("allreduce", BYTES, ranks, 1)
    inside, started = (
        world(FABRIC, [figures(rank, [collective], floor=floor) for rank in ranks])
        for floor in ("PROGRAM", "HOST")
    )
    fabric_time = time_on(FABRIC, "all_reduce", BYTES, [ranks], Floor.HOST)
    (row,) = started.collectives
    assert row.time_s == fabric_time.time_s > inside.collectives[0].time_s
    assert (inside.collectives[0].floor_text, row.floor_text) == (
        "inside a program",
        "started by the host",
    )
    assert started.ranks[0].step.exchanged_s == pytest.approx(row.time_s)
    both = world(
        FABRIC,
        [figures(0, [collective], floor="PROGRAM"), figures(1, [collective], floor="HOST")],
    )
    assert sorted(one.floor_text for one in both.collectives) == [
        "inside a program",
        row.floor_text,
    ]


def test_ranks_that_have_other_bytes_in_one_exchange_made_one():
    given = [("alltoall_base", 64 + rank, (0, 1), 1) for rank in range(2)]
    (row,) = world(FABRIC, [figures(rank, [one]) for rank, one in enumerate(given)]).collectives
    assert (row.nbytes, row.calls, row.groups) == (65, 1, ((0, 1),))


def test_ranks_without_figures_and_kinds_without_a_time():
    found = of([(0, 2)], kind="monitored_barrier")
    assert found.absent == [1, 3, 4, 5, 6, 7]
    (row,) = found.collectives
    assert (row.choice, row.time_s, row.moved_bytes) == (None, 0.0, 0)
    nothing = world(FABRIC, [])
    assert (nothing.ranks, nothing.skew_s, nothing.links) == ((), 0.0, [])


def test_a_slow_link_slows_what_takes_it():
    ranks = [tuple(range(8))]
    slow = replace(FABRIC, factors={"chip 0 to chip 1": 0.1})
    assert of(ranks, on=slow).collectives[0].time_s > of(ranks).collectives[0].time_s


def test_an_adapter_that_fails_slows_the_exchange_and_another_carries_its_bytes():
    on = fabric("trn2.48xlarge", nodes=2, lnc=2, ranks_per_node=4)
    ranks = [tuple(range(8))]
    whole = of(ranks, on=on)
    name = "instance 0, EFA 0, out"
    slow, dead = (of(ranks, on=replace(on, factors={name: left})) for left in (0.25, 0.0))
    carried = {one: nbytes for one, nbytes, _ in whole.links}
    assert slow.collectives[0].time_s > 1.2 * whole.collectives[0].time_s
    # One of sixteen adapters is used, so that the next one takes it all in the same time.
    assert dead.collectives[0].time_s == pytest.approx(whole.collectives[0].time_s)
    assert {one: nbytes for one, nbytes, _ in dead.links} == {
        one.replace(name, "instance 0, EFA 1, out"): nbytes for one, nbytes in carried.items()
    }


def test_the_interval_is_that_of_a_program_of_the_slowest_ranks_step():
    pair = of([(0, 1)])
    rank = max(pair.ranks, key=lambda each: each.step.total_s)
    assert pair.slowest is rank
    low_s, high_s = pair.interval_s
    whole = estimate_program(target("trn2"), {"step": rank.step.total_s})
    assert (low_s, high_s) == pytest.approx((whole.quantile_s("p10"), whole.quantile_s("p90")))
    assert low_s < rank.step.total_s < high_s
    assert world(FABRIC, []).interval_s is None
