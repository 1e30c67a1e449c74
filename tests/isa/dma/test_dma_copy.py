"""dma_copy: values, legality, price."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnsim
from trnsim import nki
from trnsim.arch import NEURONCORE_V2, has_dtype
from trnsim.dtypes import (
    ALL,
    BFLOAT16,
    FLOAT8_E5M2_X4,
    FLOAT32,
    INT32,
    UINT8,
    UINT32,
    round_to,
)
from trnsim.errors import IllegalInstruction, NotModelled, UninitializedRead
from trnsim.isa import DgeMode, DmaCopy, Engine, OobMode, Reciprocal, TensorPartitionReduce
from trnsim.memory import Memory, ScalarIndex, Tile, VectorIndex
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

HBM, SBUF, PSUM = Memory.HBM, Memory.SBUF, Memory.PSUM
DTYPES = [d for d in ALL if has_dtype(d.name)(NEURONCORE_V2)]


@given(st.sampled_from([HBM, SBUF]), st.sampled_from([HBM, SBUF]), st.sampled_from(DTYPES))
def test_bytes_arrive_as_they_are_where_dtypes_agree(bench, random, to, source, dtype):
    work = bench()
    src = work.tile(np.abs(random((6, 4))) * 9, dtype, source)
    dst = work.issue(DmaCopy(work.empty((6, 4), dtype, to), src))
    assert dst.array.tobytes() == src.array.tobytes()


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_another_dtype_is_reached_through_float32(bench, random, source, target):
    if source == target:
        return
    work = bench()
    src = work.tile(np.abs(random((6, 4))) * 9, source, HBM)
    dst = work.issue(DmaCopy(work.empty((6, 4), target), src))
    np.testing.assert_array_equal(dst.array, round_to(src.load(), target))


def test_integers_lose_bits_on_the_way_through_float32(bench):
    work = bench()
    src = work.tile(np.array([[2**24 + 1]]), INT32, HBM)
    exact = work.issue(DmaCopy(work.empty((1, 1), INT32), src))
    cast = work.issue(DmaCopy(work.empty((1, 1), FLOAT32), src))
    assert exact.array.tolist() == [[2**24 + 1]]
    assert cast.array.tolist() == [[2**24]]


def test_equal_numbers_of_elements_in_other_shapes_are_legal(bench, random):
    work = bench()
    src = work.tile(random((2, 12)), memory=HBM)
    dst = work.issue(DmaCopy(work.empty((4, 2, 3)), src))
    np.testing.assert_array_equal(dst.load().ravel(), src.load().ravel())
    with pytest.raises(IllegalInstruction, match="legal: equal numbers of elements") as caught:
        DmaCopy(work.empty((4, 5)), src).verify(work.core)
    assert caught.value.source == "nki.isa.dma_copy, Tile size"


def test_psum_is_out_of_reach(bench):
    work = bench()
    sbuf, psum = work.empty((4, 4)), work.empty((4, 4), memory=PSUM)
    with pytest.raises(IllegalInstruction, match=r"`dst` is PSUM .*; legal: SBUF or HBM"):
        DmaCopy(psum, sbuf).verify(work.core)


def test_hardware_descriptors_come_with_v3_and_cast_nothing(bench, core_v2, core_v3):
    work = bench(core_v3)
    wide, narrow = work.empty((4, 4)), work.empty((4, 4), BFLOAT16)
    DmaCopy(wide, wide, dge_mode=DgeMode.hwdge).verify(core_v3)
    DmaCopy(wide, narrow, dge_mode=DgeMode.swdge).verify(core_v3)
    with pytest.raises(
        IllegalInstruction, match="hwdge on NeuronCore-v2; legal from NeuronCore-v3"
    ):
        DmaCopy(wide, wide, dge_mode=DgeMode.hwdge).verify(core_v2)
    with pytest.raises(IllegalInstruction, match="hwdge from bfloat16 to float32 under NKI"):
        DmaCopy(wide, narrow, dge_mode=DgeMode.hwdge).verify(core_v3)


@pytest.mark.parametrize("priority", [0, 3])
def test_priorities_come_with_v4_and_go_from_0_to_3(bench, core_v3, core_v4, priority):
    tile = bench().empty((4, 4))
    DmaCopy(tile, tile, priority=priority).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="priority on NeuronCore-v3; legal from"):
        DmaCopy(tile, tile, priority=priority).verify(core_v3)
    with pytest.raises(IllegalInstruction, match="priority 4; legal: 0 to 3"):
        DmaCopy(tile, tile, priority=4).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="priority -1; legal: 0 to 3"):
        DmaCopy(tile, tile, priority=-1).verify(core_v4)


@pytest.mark.parametrize("priority", [True, False, np.True_])
def test_a_priority_is_a_number_not_whether_it_has_one(priority):
    """nki.isa.dma_copy: "DMA quality-of-service priority level 0-3"."""

    @nki.jit
    def kernel(a):
        nisa.dma_copy(a, nl.load(a), priority=priority)

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.zeros((4, 4), np.float32), target="trn3")
    assert caught.value.reason == (
        f"dma_copy: `priority` is {bool(priority)}; legal: a whole number or None"
    )


def test_the_dma_engines_do_it_whoever_makes_the_descriptors(bench, core_v3):
    tile = bench().empty((4, 4))
    hardware = {"dge_mode": DgeMode.hwdge, "engine": Engine.scalar}
    instruction = DmaCopy(tile, tile, oob_mode=OobMode.skip, **hardware)
    assert instruction.chosen_engine(core_v3) is Engine.dma


SHORTEST_S = {2: (7e-9, 1024 * 16 / 105e9), 3: (12e-9, 0), 4: (12e-9, 0)}
"""Generation -> time of the shortest run, and of one of 1 KiB."""


def seconds(core, nbytes, runs, partitions=128):
    """(interval, latency) by the rates of 16 engines and of runs of equal size."""
    shortest, short = SHORTEST_S[core.generation]
    run = max(shortest, short * min(nbytes / runs / 1024, 1))
    if short and 1024 < nbytes / runs < 4096:  # the rate grows to that of whole packets
        grown = (nbytes / runs - 1024) / 3072
        run = nbytes / runs * 16 / (105e9 + grown * (core.dma_bytes_per_s - 105e9))
    rate = core.dma_bytes_per_s / 16
    engines = min(runs * ceil(nbytes / runs / 4096), ceil(partitions / 8))
    interval = max(nbytes / rate, runs * run) / 16
    alone = max(nbytes / (rate * engines), ceil(runs / engines) * run)
    idle = core.dma_start_s + core.dma_end_s + 0.3e-6 * (engines - 1) / 15
    return interval, idle + max(alone - interval, 0)


@pytest.mark.parametrize(
    ("shape", "runs"),
    [
        ((128, 512), 128),
        ((1, 512), 1),
        ((16, 4), 16),
        ((17, 4), 17),
        ((17, 4096), 17),  # three engines: 17 partitions are more than two serve
        ((128, 2, 8), 128),
    ],
)
def test_a_row_on_chip_is_a_run(bench, core, shape, runs):
    work = bench(core, has_values=False)
    cost = work.cost(DmaCopy(work.empty(shape), work.empty(shape, memory=HBM)))
    nbytes = 4 * np.prod(shape)
    assert (cost.interval_s, cost.latency_s) == pytest.approx(seconds(core, nbytes, runs, shape[0]))
    assert cost.hbm_bytes == nbytes


@pytest.mark.parametrize("side", [128, 127])  # 127 * 127 is 1 more than 16 engines divide
def test_a_transposed_read_has_a_run_an_element(bench, core_v3, side):
    work = bench(has_values=False)
    src = work.empty((side, side), BFLOAT16, HBM)
    turned = Tile(src.storage, BFLOAT16, src.pattern.permute((1, 0)))
    cost = work.cost(DmaCopy(work.empty((side, side), BFLOAT16), turned))
    interval_s, latency_s = seconds(core_v3, 2 * side * side, side * side)
    assert cost.interval_s == pytest.approx(interval_s)
    assert cost.latency_s == pytest.approx(latency_s, rel=1e-9)
    straight = work.cost(DmaCopy(work.empty((side, side), BFLOAT16), src))
    assert cost.interval_s > 15 * straight.interval_s


def test_both_ends_in_hbm_count_twice_and_none_counts_nothing(bench):
    work = bench(has_values=False)
    a, b = (work.empty((4, 4), memory=HBM) for _ in range(2))
    assert work.cost(DmaCopy(a, b)).hbm_bytes == 128
    assert work.cost(DmaCopy(work.empty((4, 4)), work.empty((4, 4)))).hbm_bytes == 0


def test_a_cast_costs_the_wider_side(bench, core_v3):
    work = bench(has_values=False)
    cost = work.cost(DmaCopy(work.empty((128, 512)), work.empty((128, 512), BFLOAT16, HBM)))
    assert cost.interval_s == pytest.approx(4 * 128 * 512 / core_v3.dma_bytes_per_s)
    assert cost.hbm_bytes == 2 * 128 * 512


@given(st.integers(1, 128), st.integers(1, 2048))
def test_more_bytes_never_take_less_time(bench, rows, columns):
    work = bench(has_values=False)

    def interval(r, c):
        return work.cost(
            DmaCopy(work.empty((r, c), UINT8), work.empty((r, c), UINT8, HBM))
        ).interval_s

    assert interval(rows, columns) <= interval(rows, columns + 1)
    assert interval(rows, columns) <= interval(min(rows + 1, 128), columns)


# Descriptors


@pytest.mark.parametrize("engine", list(Engine))
def test_the_sync_and_scalar_engines_drive_the_hardware_dge_and_no_other(bench, core_v3, engine):
    """nki.isa.dma_copy: "Only valid when dge_mode=nisa.dge_mode.hwdge"."""
    tile = bench().empty((4, 4))
    driven = DmaCopy(tile, tile, dge_mode=DgeMode.hwdge, engine=engine)
    if engine in (Engine.unknown, Engine.sync, Engine.scalar):
        driven.verify(core_v3)
    else:
        legal = f"engine {engine.name}; legal: nisa.engine.sync, nisa.engine.scalar"
        with pytest.raises(IllegalInstruction, match=legal):
            driven.verify(core_v3)
    for mode in (DgeMode.unknown, DgeMode.none, DgeMode.swdge):
        named = DmaCopy(tile, tile, dge_mode=mode, engine=engine)
        if engine is Engine.unknown:
            named.verify(core_v3)
            continue
        with pytest.raises(IllegalInstruction) as caught:
            named.verify(core_v3)
        assert caught.value.reason == (
            f"dma_copy: engine {engine.name} with dge_mode {mode.name}; legal: engine only with "
            "dge_mode=nisa.dge_mode.hwdge"
        )
        assert "add dge_mode=nisa.dge_mode.hwdge" in caught.value.fix
        assert '"Only valid when dge_mode=nisa.dge_mode.hwdge"' in caught.value.source


def test_packed_formats_are_moved_not_cast(bench, core_v4):
    work = bench(core_v4)
    packed = work.empty((4, 4), FLOAT8_E5M2_X4)
    DmaCopy(packed, work.empty((4, 4), FLOAT8_E5M2_X4, HBM)).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="from uint32 to float8_e5m2_x4; legal: equal"):
        DmaCopy(packed, work.empty((4, 4), UINT32, HBM)).verify(core_v4)


# Vector indices: gather and scatter


def rows_of(tile, indices, work, count=None):
    """The rows of `tile` that `indices` [P, N] name, column after column."""
    count = count or indices.size
    shape = (count, *tile.shape[1:])
    pattern = type(tile.pattern)(shape, tile.pattern.strides_bytes, tile.pattern.offset_bytes)
    source = work.tile(indices, INT32 if indices.dtype.kind == "i" else UINT32)
    index = VectorIndex(source, tile.pattern.strides_bytes[0], tile.shape[0])
    return Tile(tile.storage, tile.dtype, pattern, index)


def column(*indices):
    return np.array(indices, np.int32).reshape(-1, 1)


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=1, max_size=16), st.sampled_from([FLOAT32, BFLOAT16]))
def test_a_gather_reads_the_row_of_each_index(bench, random, indices, dtype):
    work = bench()
    table = work.tile(random((10, 6)), memory=HBM)
    dst = work.issue(
        DmaCopy(work.empty((len(indices), 6), dtype), rows_of(table, column(*indices), work))
    )
    for row, index in enumerate(indices):
        np.testing.assert_array_equal(dst.array[row], round_to(table.array[index], dtype))


def test_a_scatter_writes_the_row_of_each_index_and_no_other(bench, random):
    work = bench()
    table, src = work.tile(np.zeros((6, 4), np.float32), memory=HBM), work.tile(random((3, 4)))
    work.issue(DmaCopy(rows_of(table, column(5, 0, 2), work), src))
    np.testing.assert_array_equal(table.array[[5, 0, 2]], src.array)
    assert not table.array[[1, 3, 4]].any()


@pytest.mark.parametrize("bad", [-1, 6, 2**31 - 1])
def test_an_index_out_of_bounds_is_refused_or_skipped(bench, random, bad):
    work = bench()
    table = work.tile(random((6, 4)), memory=HBM)
    with pytest.raises(IllegalInstruction, match=rf"index {bad} of .*; legal: 0 to 5"):
        work.issue(DmaCopy(work.empty((3, 4)), rows_of(table, column(1, bad, 3), work)))
    dst = work.tile(np.full((3, 4), 7, np.float32))
    work.issue(DmaCopy(dst, rows_of(table, column(1, bad, 3), work), oob_mode=OobMode.skip))
    np.testing.assert_array_equal(dst.array[[0, 2]], table.array[[1, 3]])
    assert (dst.array[1] == 7).all()


@pytest.mark.parametrize("dtype", [INT32, FLOAT8_E5M2_X4])
def test_skipping_keeps_the_bits_of_what_is_copied(bench, core_v4, dtype):
    """NKI 0.4: the skip path cast integers to float32; NKI 0.5: it failed for packed formats."""
    work = bench(core_v4)
    raw = np.array([[2**24 + 1, -(2**31)], [2**31 - 1, 0x7F818283]], np.int64).astype(np.int32)
    table = work.empty((2, 2), dtype, HBM)
    table.put(raw.view(dtype.dtype))
    table.storage.written.add(table.pattern, 4)
    dst = work.empty((3, 2), dtype)
    dst.put(np.full((3, 2), -1, np.int32).view(dtype.dtype))
    work.issue(DmaCopy(dst, rows_of(table, column(1, 9, 0), work), oob_mode=OobMode.skip))
    assert dst.array.view(np.int32).tolist() == [raw[1].tolist(), [-1, -1], raw[0].tolist()]


def test_a_row_that_was_skipped_has_not_been_written(bench, random):
    work = bench()
    table, dst = work.tile(random((6, 4)), memory=HBM), work.empty((3, 4))
    work.issue(DmaCopy(dst, rows_of(table, column(1, 9, 3), work), oob_mode=OobMode.skip))
    written = dst.storage.written.flags(dst.pattern, 4)
    assert written.all(axis=1).tolist() == [True, False, True]
    computed = work.issue(Reciprocal(work.empty((3, 4)), dst))
    assert computed.written_flags().all(axis=1).tolist() == [True, False, True]
    with pytest.raises(UninitializedRead):
        work.issue(TensorPartitionReduce(work.empty((1, 4)), "add", dst))


def test_a_scatter_skips_what_lies_outside(bench, random):
    work = bench()
    table, src = work.tile(np.zeros((4, 2), np.float32), memory=HBM), work.tile(random((3, 2)))
    target = rows_of(table, column(3, 4, 0), work)
    work.issue(DmaCopy(target, src, oob_mode=OobMode.skip))
    np.testing.assert_array_equal(table.array[[3, 0]], src.array[[0, 2]])
    assert not table.array[[1, 2]].any()


def test_where_vector_indices_are_legal(bench, core_v2, core_v3):
    work = bench(core_v3)
    table, tile = work.empty((6, 4), memory=HBM), work.empty((3, 4))
    three = column(1, 2, 3)
    source = rows_of(table, three, work)
    for mode in (DgeMode.unknown, DgeMode.swdge):
        DmaCopy(tile, source, dge_mode=mode).verify(core_v3)
    for mode in (DgeMode.none, DgeMode.hwdge):
        with pytest.raises(IllegalInstruction, match=f"dge_mode {mode.name} with a vector_offset"):
            DmaCopy(tile, source, dge_mode=mode).verify(core_v3)
    with pytest.raises(IllegalInstruction, match="vector_offset on NeuronCore-v2; legal from"):
        DmaCopy(tile, source).verify(core_v2)
    on_chip = rows_of(work.empty((6, 4)), three, work)
    with pytest.raises(IllegalInstruction, match="with a vector_offset; legal: a tensor in HBM"):
        DmaCopy(tile, on_chip).verify(core_v3)
    too_few = rows_of(table, column(1, 2), work, count=3)
    with pytest.raises(IllegalInstruction, match="for 3 rows; legal: an index for each row"):
        DmaCopy(tile, too_few).verify(core_v3)
    index = VectorIndex(work.tile(three, INT32, HBM), 16, 6)
    in_hbm = Tile(table.storage, FLOAT32, source.pattern, index)
    with pytest.raises(
        IllegalInstruction, match=r"vector_offset of `src` is HBM .*legal: a tensor"
    ):
        DmaCopy(tile, in_hbm).verify(core_v3)


def test_skipping_between_tensors_of_other_first_dimensions_is_not_modelled(bench):
    work = bench()
    source = rows_of(work.empty((6, 4), memory=HBM), column(1, 2, 3, 4), work)
    dst = work.empty((2, 8))
    DmaCopy(dst, source).verify(work.core)
    with pytest.raises(NotModelled, match="whose first dimensions differ"):
        DmaCopy(dst, source, oob_mode=OobMode.skip).verify(work.core)


# Scalar indices


def shifted(tile, work, index):
    """The row of `tile` that a tile of one element names."""
    pattern = tile.pattern.slice(0, 0, 1)
    source = work.tile(np.array([[index]], np.int32), INT32)
    scalar = ScalarIndex(source, tile.pattern.strides_bytes[0], tile.shape[0])
    return Tile(tile.storage, tile.dtype, pattern, scalar)


@given(st.integers(0, 5))
def test_a_scalar_index_shifts_the_whole_tile(bench, random, index):
    work = bench()
    table = work.tile(random((6, 4)), memory=HBM)
    dst = work.issue(DmaCopy(work.empty((1, 4)), shifted(table, work, index)))
    np.testing.assert_array_equal(dst.array[0], table.array[index])


@pytest.mark.parametrize("mode", list(DgeMode))
def test_a_scalar_index_goes_with_every_mode(bench, random, mode):
    work = bench()
    table = work.tile(random((6, 4)), memory=HBM)
    work.issue(DmaCopy(work.empty((1, 4)), shifted(table, work, 2), dge_mode=mode))


def test_a_scalar_index_out_of_bounds_is_refused_or_skipped(bench, random):
    work = bench()
    table, dst = work.tile(random((6, 4)), memory=HBM), work.tile(np.ones((1, 4), np.float32))
    with pytest.raises(IllegalInstruction, match="index 6 of"):
        work.issue(DmaCopy(dst, shifted(table, work, 6)))
    work.issue(DmaCopy(dst, shifted(table, work, 6), oob_mode=OobMode.skip))
    assert (dst.array == 1).all()
