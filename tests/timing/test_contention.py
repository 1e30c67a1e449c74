"""Transfers beside collectives: work is conserved, nothing is faster, nothing takes a second."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnsim
from trnsim.isa import DmaCopy, Engine
from trnsim.memory import Memory
from trnsim.timing import choose_order, recorded_placements
from trnsim.timing.contention import TakenInterval, transfer_time_s, with_contention


@pytest.mark.parametrize(
    ("start_s", "length_s", "taken", "wanted_s"),
    [
        (0, 4, [], 4),
        (0, 4, [(4, 8, 0.5)], 4),
        (8, 4, [(4, 8, 0.5)], 4),
        (0, 4, [(0, 8, 0.5)], 8),
        (0, 4, [(2, 4, 0.5)], 5),
        (3, 4, [(2, 4, 0.5)], 4.5),
        (0, 4, [(1, 3, 1.0)], 6),
        (1, 4, [(1, 3, 1.0), (3, 5, 0.5)], 7),
        (0, 4, [(1, 2, 0.5), (5, 7, 0.5)], 4.5),
        (0, 4, [(2, 2, 1.0)], 4),
    ],
)
def test_a_transfer_has_what_is_left(start_s, length_s, taken, wanted_s):
    windows = [TakenInterval(*one) for one in taken]
    assert transfer_time_s(start_s, length_s, windows) == pytest.approx(wanted_s)


@given(
    st.floats(0, 20),
    st.floats(0.1, 10),
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(0, 1)), max_size=6),
)
def test_what_it_misses_is_what_was_taken_of_it(start_s, length_s, gaps):
    taken, at_s = [], 0.0
    for gap_s, wide_s, share in gaps:
        taken.append(TakenInterval(at_s + gap_s, at_s + gap_s + wide_s, share))
        at_s += gap_s + wide_s
    end_s = start_s + transfer_time_s(start_s, length_s, taken)
    missed_s = sum(
        max(min(one.end_s, end_s) - max(one.start_s, start_s), 0.0) * one.share for one in taken
    )
    assert end_s - start_s - missed_s == pytest.approx(length_s)


RANKS, LOADS = 2, 100
X = np.zeros((128, 2048), np.float32)


@nki.jit
def beside(x, message, loads):
    """All-reduces a message, and loads x into eight tensors in turn."""
    tiles = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(8)]
    if message.shape[0] > 1:
        src = nl.ndarray(message.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(message.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        nisa.dma_copy(dst=src, src=message)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(RANKS))]), nl.add)
    for number in range(loads):
        nisa.dma_copy(dst=tiles[number % 8], src=x)
    return x


def ran(rows, loads, lnc=1, target="trn2"):
    """Rank 1 of a world in which `rows` of a message are all-reduced; 1 for none."""
    inputs = [(X, np.zeros((rows, 2048), np.float32), loads)] * RANKS
    world = trnsim.run(beside[lnc], ranks=RANKS, inputs=inputs, target=target, numerics=False)
    return world.runs[1].timeline


def device_s(*given):
    return ran(*given).device_time_s


@pytest.mark.slow
@pytest.mark.parametrize(("target", "lnc"), [("trn2", 1), ("trn2", 2), ("trn1", 1)])
def test_beside_a_collective_loads_take_longer_and_never_longer_than_one_after_the_other(
    target, lnc
):
    alone_s = device_s(1, LOADS, lnc, target)
    times_s = [device_s(rows, LOADS, lnc, target) for rows in (256, 1024, 4096)]
    exchanges_s = [device_s(rows, 0, lnc, target) for rows in (256, 1024, 4096)]
    assert alone_s < times_s[0]
    assert times_s == sorted(times_s)
    for both_s, exchange_s in zip(times_s, exchanges_s, strict=True):
        assert max(alone_s, exchange_s) <= both_s <= alone_s + exchange_s


def test_without_a_collective_nothing_changes(bench):
    work = bench()
    work.issue(
        DmaCopy(
            work.empty((128, 64)), work.tile(np.zeros((128, 64), np.float32), memory=Memory.HBM)
        )
    )
    tables = [recorded_placements(work.program)]
    order = choose_order([work.program], work.core)
    assert with_contention([work.program], work.core, order, tables) is order


def test_only_loads_beside_the_collective_are_slower():
    timeline = ran(4096, LOADS)
    spans = list(timeline.spans())
    (reduced,) = (s for s in spans if s.engine is Engine.collective)
    loads = [s for s in spans if s.engine is Engine.dma][1:]
    alone_s = timeline.program.instruction(loads[0].index).cost.interval_s
    share = timeline.program.instruction(reduced.index).cost.engine_share
    assert 0.1 < share < 1
    inside = 0
    for span in loads:
        lasted_s = span.busy_until_s - span.start_s
        is_beside = span.start_s < reduced.busy_until_s and span.busy_until_s > reduced.start_s
        assert (lasted_s > alone_s * (1 + 1e-6)) == is_beside
        if span.start_s >= reduced.start_s and span.busy_until_s <= reduced.busy_until_s:
            inside += 1
            assert lasted_s == pytest.approx(alone_s / (1 - share))
    assert inside
