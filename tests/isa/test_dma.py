"""dma_copy: values, legality, price."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import ALL, BFLOAT16, FLOAT32, INT32, UINT8, round_to
from trnsim.errors import IllegalInstruction
from trnsim.isa import DgeMode, DmaCopy, Engine, OobMode
from trnsim.memory import Memory, Tile

HBM, SBUF, PSUM = Memory.HBM, Memory.SBUF, Memory.PSUM
DTYPES = [d for d in ALL if d.first_generation == 2]


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
    with pytest.raises(IllegalInstruction, match="hwdge from bfloat16 to float32; legal: equal"):
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


def test_descriptors_are_made_by_sync_or_scalar_or_in_software_by_gpsimd(bench, core_v3):
    tile = bench().empty((4, 4))
    for engine in (Engine.unknown, Engine.sync, Engine.scalar):
        DmaCopy(tile, tile, dge_mode=DgeMode.hwdge, engine=engine).verify(core_v3)
    DmaCopy(tile, tile, engine=Engine.gpsimd).verify(core_v3)
    for engine, mode in (
        (Engine.gpsimd, DgeMode.hwdge),
        (Engine.vector, DgeMode.unknown),
        (Engine.tensor, DgeMode.hwdge),
    ):
        with pytest.raises(IllegalInstruction, match=f"engine {engine.name}; legal: nisa.engine.s"):
            DmaCopy(tile, tile, dge_mode=mode, engine=engine).verify(core_v3)


def test_the_dma_engines_do_it_whoever_makes_the_descriptors(bench, core_v3):
    tile = bench().empty((4, 4))
    instruction = DmaCopy(tile, tile, oob_mode=OobMode.skip, engine=Engine.scalar)
    assert instruction.chosen_engine(core_v3) is Engine.dma


def seconds(core, nbytes, descriptors):
    """(interval, latency) by the documented rates of 16 engines and a descriptor each 12 ns."""
    interval = max(nbytes / core.dma_bytes_per_s, descriptors * 12e-9 / 16)
    engines = min(descriptors, 16)
    alone = max(nbytes / (core.dma_bytes_per_s * engines / 16), ceil(descriptors / 16) * 12e-9)
    return interval, core.dma_start_s + core.dma_end_s + max(alone - interval, 0)


@pytest.mark.parametrize(
    ("shape", "descriptors"),
    [((128, 512), 128), ((1, 512), 1), ((16, 4), 16), ((17, 4), 17), ((128, 2, 8), 128)],
)
def test_a_row_on_chip_is_a_descriptor(bench, core, shape, descriptors):
    work = bench(core, has_values=False)
    cost = work.cost(DmaCopy(work.empty(shape), work.empty(shape, memory=HBM)))
    nbytes = 4 * np.prod(shape)
    assert (cost.interval_s, cost.latency_s) == pytest.approx(seconds(core, nbytes, descriptors))
    assert cost.hbm_bytes == nbytes


def test_a_transposed_read_has_a_descriptor_an_element(bench, core_v3):
    work = bench(has_values=False)
    src = work.empty((128, 128), BFLOAT16, HBM)
    turned = Tile(src.storage, BFLOAT16, src.pattern.permute((1, 0)))
    cost = work.cost(DmaCopy(work.empty((128, 128), BFLOAT16), turned))
    expected = seconds(core_v3, 2 * 128 * 128, 128 * 128)
    assert (cost.interval_s, cost.latency_s) == pytest.approx(expected)
    straight = work.cost(DmaCopy(work.empty((128, 128), BFLOAT16), src))
    assert cost.interval_s > 50 * straight.interval_s


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
