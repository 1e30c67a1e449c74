"""bn_stats and bn_aggr: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT16
from trnsim.errors import IllegalInstruction, Unspecified
from trnsim.isa import BnAggr, BnStats
from trnsim.memory import Memory, Tile

SHAPES = [(1, 2), (3, 7), (128, 4), (4, 3, 5), (2, 512)]


def statistics(values):
    values = [float(x) for x in values]
    mean = sum(values) / len(values)
    return len(values), mean, sum((x - mean) ** 2 for x in values)


@given(
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from([FLOAT32, BFLOAT16, FLOAT16, INT16]),
    memory=st.sampled_from([Memory.SBUF, Memory.PSUM]),
)
def test_even_and_odd_elements_are_counted_apart(bench, random, shape, dtype, memory):
    work = bench()
    data = work.tile(random(shape) * 3 + 1, dtype, memory)
    dst = work.issue(BnStats(work.empty((shape[0], 6)), data))
    for found, row in zip(dst.load(), data.load().reshape(shape[0], -1), strict=True):
        expected = (*statistics(row[0::2]), *statistics(row[1::2]))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@given(st.sampled_from(SHAPES), st.integers(1, 4), st.sampled_from([FLOAT32, BFLOAT16]))
def test_the_aggregate_is_the_mean_and_the_population_variance(bench, random, shape, parts, dtype):
    work = bench()
    stats = work.empty((shape[0], parts, 6))
    tiles = [work.tile(random(shape, seed=i) * (i + 1) + i) for i in range(parts)]
    for i, tile in enumerate(tiles):
        part = Tile(stats.storage, stats.dtype, stats.pattern.select(1, i))
        work.issue(BnStats(part, tile))
    dst = work.issue(BnAggr(work.empty((shape[0], 2), dtype), stats))
    values = np.concatenate([t.load().reshape(shape[0], -1) for t in tiles], axis=1).astype(float)
    expected = np.stack((values.mean(axis=1), values.var(axis=1)), axis=1)
    tolerance = 2**-8 if dtype is BFLOAT16 else 1e-5
    np.testing.assert_allclose(dst.load(), expected, rtol=tolerance, atol=1e-4)


def test_a_large_mean_does_not_spoil_the_variance(bench):
    work = bench()
    data = work.tile(np.array([[10000.0, 10001.0, 10002.0, 10003.0]], "f4"))
    stats = work.issue(BnStats(work.empty((1, 6)), data))
    assert work.issue(BnAggr(work.empty((1, 2)), stats)).load().tolist() == [[10001.5, 1.25]]


def test_of_one_element_the_odd_part_counts_nothing(bench):
    work = bench()
    stats = work.issue(BnStats(work.empty((1, 6)), work.tile(np.array([[7.0]], "f4"))))
    assert stats.load().tolist() == [[1, 7, 0, 0, 0, 0]]
    assert work.issue(BnAggr(work.empty((1, 2)), stats)).load().tolist() == [[7, 0]]


def test_the_mean_of_nothing_is_unspecified(bench):
    work = bench()
    stats = work.tile(np.array([[1, 5, 0], [0, 5, 0]], np.float32))
    with pytest.raises(Unspecified, match="counts of a partition add up to 0"):
        work.issue(BnAggr(work.empty((2, 2)), stats))


def refused(work, message, made):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made.verify(work.core)
    assert caught.value.fix
    assert caught.value.source


def test_at_most_512_elements_a_partition_have_statistics(bench):
    work = bench()
    dst = work.empty((4, 6))
    BnStats(dst, work.empty((4, 512))).verify(work.core)
    BnStats(dst, work.empty((4, 2, 256))).verify(work.core)
    message = r"513\] float32, 513 elements a partition; legal on NeuronCore-v3: up to 512"
    refused(work, message, BnStats(dst, work.empty((4, 513))))


def test_statistics_are_six_elements_a_partition_and_aggregates_two(bench):
    work = bench()
    data, stats = work.empty((4, 8)), work.empty((4, 12))
    BnStats(work.empty((4, 2, 3)), data).verify(work.core)
    for width in (5, 7, 2):
        made = BnStats(work.empty((4, width)), data)
        refused(work, rf"dst is SBUF \[4, {width}\] float32; legal: 6 elements a partition", made)
    BnAggr(work.empty((4, 2)), stats).verify(work.core)
    for width in (1, 3, 6):
        made = BnAggr(work.empty((4, width)), stats)
        refused(work, rf"dst is SBUF \[4, {width}\] float32; legal: 2 elements a partition", made)
    refused(work, "axis P is 3 elsewhere but 4", BnAggr(work.empty((3, 2)), stats))


def test_aggregates_take_whole_triples(bench):
    work = bench()
    dst = work.empty((4, 2))
    for width in (3, 6, 9):
        BnAggr(dst, work.empty((4, width))).verify(work.core)
    for width in (1, 2, 4, 7):
        message = f"{width} elements a partition; legal: a multiple of 3"
        refused(work, message, BnAggr(dst, work.empty((4, width))))


@pytest.mark.parametrize("F", [3, 63, 66, 510])
def test_statistics_cost_a_cycle_an_element_and_aggregates_13_a_triple(bench, core, F):
    work = bench(core)
    data, hz = work.empty((4, F)), core.vector_clock_hz
    assert work.cycles(BnStats(work.empty((4, 6)), data), hz) == pytest.approx(max(64, F))
    aggregate = BnAggr(work.empty((4, 2)), data)
    assert work.cycles(aggregate, hz) == pytest.approx(max(64, 13 * F / 3))
