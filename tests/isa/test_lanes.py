"""What the lane engines share: clocks, the price formula, performance modes, broadcasting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, UINT16
from trnsim.isa import Engine
from trnsim.isa.lanes import (
    along_free_axis,
    bits_along_free_axis,
    clock_hz,
    copy_speedup,
    lane_cost,
    same_shape,
)
from trnsim.memory import Memory, Tile

SBUF, PSUM = Memory.SBUF, Memory.PSUM
LANE_ENGINES = (Engine.vector, Engine.scalar, Engine.gpsimd)


def test_each_engine_has_the_clock_of_its_core(core):
    assert clock_hz(core, Engine.tensor) == core.tensor_clock_hz
    assert clock_hz(core, Engine.vector) == core.vector_clock_hz
    assert clock_hz(core, Engine.scalar) == core.scalar_clock_hz
    assert clock_hz(core, Engine.gpsimd) == core.gpsimd_clock_hz


@pytest.mark.parametrize("engine", LANE_ENGINES)
@given(cycles=st.floats(0, 1e6), extra=st.floats(0, 1e3))
def test_a_lane_instruction_takes_at_least_the_minimum_interval(core_v3, engine, cycles, extra):
    cost = lane_cost(core_v3, engine, cycles, extra)
    hz = clock_hz(core_v3, engine)
    assert cost.interval_s == pytest.approx((max(64, cycles) + extra) / hz)
    assert cost.latency_s == pytest.approx(60 / hz)
    assert (cost.flops, cost.hbm_bytes) == (0, 0)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, UINT16])
def test_sixteen_bit_copies_run_four_times_faster_within_sbuf(bench, core_v3, dtype):
    work = bench(core_v3)
    tiles = [work.empty((4, 8), dtype), work.empty((4, 8), dtype)]
    assert copy_speedup(core_v3, *tiles) == 4


def test_strided_or_psum_copies_run_twice_as_fast(bench, core_v3):
    work = bench(core_v3)
    dense, psum = work.empty((4, 8), BFLOAT16), work.empty((4, 8), BFLOAT16, PSUM)
    strided = Tile(dense.storage, BFLOAT16, dense.pattern.slice(1, 0, 8, 2))
    half = Tile(dense.storage, BFLOAT16, dense.pattern.slice(1, 0, 4))
    assert copy_speedup(core_v3, half, strided) == copy_speedup(core_v3, strided, half) == 2
    assert copy_speedup(core_v3, dense, psum) == copy_speedup(core_v3, psum, dense) == 2
    assert copy_speedup(core_v3, half, half) == 4


def test_wider_data_and_v2_have_no_performance_mode(bench, core_v2, core_v3):
    work = bench(core_v3)
    narrow, wide = work.empty((4, 8), BFLOAT16), work.empty((4, 8), FLOAT32)
    for tiles in ((wide, wide), (narrow, wide), (wide, narrow)):
        assert copy_speedup(core_v3, *tiles) == 1
    assert copy_speedup(core_v2, narrow, narrow) == 1


def test_a_number_is_its_own_broadcast_and_a_vector_lies_along_the_partitions(bench):
    data = np.ones((3, 2, 4), np.float32)
    vector = bench().tile(np.array([[1.0], [2.0], [3.0]], np.float32))
    assert along_free_axis(2.5, data) == 2.5
    np.testing.assert_array_equal((data * along_free_axis(vector, data))[:, 1, 2], [1, 2, 3])


def test_a_bit_pattern_is_not_rounded_to_float32(bench):
    data = np.zeros((2, 4), np.int32)
    vector = bench().tile(np.array([[2**31 - 1], [2**24 + 1]]), INT32)
    assert bits_along_free_axis(vector, data).ravel().tolist() == [2**31 - 1, 2**24 + 1]


@pytest.mark.parametrize(("number", "bits"), [(None, 0), (5, 5), (-1, -1), (0xFFFF0000, -65536)])
def test_a_number_becomes_the_bits_of_the_datas_dtype(number, bits):
    assert bits_along_free_axis(number, np.zeros(2, np.int32)).tolist() == bits


def test_tiles_of_equal_free_size_may_divide_it_differently():
    first, second = np.arange(24).reshape(2, 3, 4), np.arange(24).reshape(2, 12)
    a, b = same_shape(first, second)
    np.testing.assert_array_equal(a, b)
    a, b = same_shape(first, first)
    assert a is first
    assert b is first
