"""The cost of a transfer: turns in a queue, packets on 16 engines, the way to the reader."""

from math import ceil, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT32, INT32, UINT8
from trnsim.isa import DgeMode, DmaCopy
from trnsim.isa.dma.transfer import count_runs, engines_used
from trnsim.memory import Memory, Tile, VectorIndex

HBM, SBUF = Memory.HBM, Memory.SBUF
US, GB = 1e-6, 1e9


def load(work, shape, dtype=BFLOAT16, mode=DgeMode.unknown):
    """The cost of a contiguous load."""
    dst, src = work.empty(shape, dtype), work.empty(shape, dtype, HBM)
    return work.cost(DmaCopy(dst, src, dge_mode=mode))


def columns(tile, first, end):
    """Some columns of all rows."""
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(1, first, end))


# Against what is published of Trn2: nki-dma-intro-3.png, -5.png and -7.png


def test_one_engine_moves_32_kib_in_1416_ns(bench, core_v3):
    work = bench(core_v3, has_values=False)
    cost = load(work, (4, 4096))
    alone_s = cost.interval_s + cost.latency_s - (0.75 + 0.3) * US
    assert alone_s == pytest.approx(1.416 * US, rel=0.02)
    assert cost.interval_s == pytest.approx(alone_s / 16)


def test_sixteen_engines_move_rows_of_256_bytes_in_1207_ns_and_their_reader_starts_later(
    bench, core_v3
):
    cost = load(bench(core_v3, has_values=False), (128, 128))
    assert cost.interval_s == pytest.approx(97e-9, rel=0.1)
    assert cost.interval_s + cost.latency_s == pytest.approx((1.207 + 0.3) * US, rel=0.05)


# Against what is published of Trn1: matrix_multiplication.rst of SDK 2.26, by differences of three
# matmuls: 0.288 us for [128, 128] and 1.275 us for [128, 512] in bfloat16; nki_perf_guide/fig30.png


@pytest.mark.parametrize(("row_elements", "published_us"), [(128, 0.288), (512, 1.275)])
def test_short_rows_are_slow_on_v2(bench, core_v2, row_elements, published_us):
    work = bench(core_v2, has_values=False)
    rows = columns(work.empty((128, 8192), BFLOAT16, HBM), 0, row_elements)
    cost = work.cost(DmaCopy(work.empty((128, row_elements), BFLOAT16), rows))
    assert cost.interval_s == pytest.approx(published_us * US, rel=0.1)


def test_between_1_and_4_kib_the_rate_of_v2_grows_with_the_length(bench, core_v2):
    """What is published allows 1 to 2 times the time of 1 KiB for a row of 2 KiB."""
    work = bench(core_v2, has_values=False)
    costs = [load(work, (128, nbytes), UINT8) for nbytes in (1024, 2048, 4096)]
    assert costs[1].interval_s / costs[0].interval_s == pytest.approx(1.31, abs=0.01)
    assert costs[2].interval_s * core_v2.dma_bytes_per_s == pytest.approx(128 * 4096)


def test_rows_of_4_kib_are_not(bench, core_v2):
    cost = load(bench(core_v2, has_values=False), (128, 1024), FLOAT32)
    assert cost.interval_s == pytest.approx(1.81 * US, rel=0.1)


@given(st.integers(1, 128), st.integers(1, 8192))
def test_longer_rows_never_take_less_time(bench, core, rows, columns):
    work = bench(core, has_values=False)
    costs = [load(work, shape, UINT8) for shape in ((rows, columns), (rows, columns + 1))]
    assert costs[0].interval_s <= costs[1].interval_s
    for cost in costs:
        assert cost.interval_s >= rows * columns / core.dma_bytes_per_s


# Packets and engines


@pytest.mark.parametrize("nbytes", [1, 4096, 4097, 16 * 4096, 2 * 1024**2])
def test_a_contiguous_copy_within_hbm_uses_an_engine_for_each_4_kib(bench, core_v3, nbytes):
    """A single run had one engine: 92 us for what a strided copy of 2 MiB does in 6.8."""
    work = bench(core_v3, has_values=False)
    cost = work.cost(DmaCopy(*(work.empty((1, nbytes), UINT8, HBM) for _ in range(2))))
    engines = min(16, ceil(nbytes / 4096))
    moving_s = max(12e-9, nbytes / (23 * GB * engines))
    idle_s = (0.75 + 0.3 + 0.3 * (engines - 1) / 15) * US
    assert cost.interval_s + cost.latency_s == pytest.approx(moving_s + idle_s)


def test_a_contiguous_copy_takes_no_longer_than_a_strided_one(bench, core):
    work = bench(core, has_values=False)
    whole, wide = work.empty((1024, 1024), BFLOAT16, HBM), work.empty((1024, 2048), BFLOAT16, HBM)
    strided = work.cost(DmaCopy(columns(wide, 0, 1024), whole))
    other = work.cost(DmaCopy(work.empty((1024, 1024), BFLOAT16, HBM), whole))
    assert other.interval_s <= strided.interval_s
    assert other.latency_s <= strided.latency_s * (1 + 1e-9)


@pytest.mark.parametrize(("partitions", "engines"), [(1, 1), (8, 1), (9, 2), (127, 16), (128, 16)])
def test_an_engine_serves_eight_partitions(bench, core_v3, partitions, engines):
    work = bench(core_v3, has_values=False)
    tile = work.empty((partitions, 8192))
    assert engines_used(core_v3, (tile, work.empty((1, 1), memory=HBM)), 10**6) == engines
    assert engines_used(core_v3, (tile,), 1) == 1


@pytest.mark.parametrize(
    ("memory", "shape", "permutation", "runs"),
    [
        (HBM, (4, 6), (0, 1), 1),
        (HBM, (4, 6), (1, 0), 24),
        (HBM, (4, 1, 6), (1, 0, 2), 1),
        (HBM, (2, 3, 5), (1, 0, 2), 6),
        (SBUF, (4, 6), (0, 1), 4),
        (SBUF, (4, 2, 3), (0, 2, 1), 24),
        (SBUF, (1, 1), (0, 1), 1),
    ],
)
def test_a_run_ends_where_memory_is_not_contiguous(bench, memory, shape, permutation, runs):
    tile = bench().empty(shape, memory=memory)
    turned = Tile(tile.storage, tile.dtype, tile.pattern.permute(permutation))
    counted = count_runs(turned)
    assert (counted, type(counted)) == (runs, int)
    assert prod(turned.shape) == prod(shape)


def test_each_row_by_an_index_is_a_run(bench):
    work = bench()
    index, rows = work.empty((128, 2), INT32), work.empty((256, 8), FLOAT32, HBM)
    picked = Tile(rows.storage, FLOAT32, rows.pattern, VectorIndex(index, 32, 256))
    assert count_runs(rows) == 1
    assert count_runs(picked.without_bytes()) == 256


# Issue


@pytest.mark.parametrize("mode", list(DgeMode))
def test_a_static_transfer_is_only_triggered(bench, core_v3, core_v4, mode):
    for core in (core_v3, core_v4):
        cost = load(bench(core, has_values=False), (16, 128), mode=mode)
        assert cost.issue_s == pytest.approx((0.1 if mode is DgeMode.none else 0.6) * US)


def test_before_v3_all_are_static(bench, core_v2):
    for mode in (DgeMode.unknown, DgeMode.none, DgeMode.swdge):
        cost = load(bench(core_v2, has_values=False), (16, 128), mode=mode)
        assert cost.issue_s == pytest.approx(0.1 * US)
