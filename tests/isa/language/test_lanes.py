"""What the lane engines share: clocks, the price formula, performance modes, broadcasting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.arch.draws import sample_core
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    UINT8,
    UINT16,
)
from trnsim.isa import Engine
from trnsim.isa.language.lanes import (
    clock_hz,
    copy_speedup,
    free_axis_bits,
    free_axis_operand,
    lane_cost,
    maximum,
    minimum,
    tensor_tensor_speedup,
    with_one_shape,
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
    further_s = core_v3.scalar_dependent_s if engine is Engine.scalar else 0.0
    assert cost.latency_s == pytest.approx(60 / hz + further_s)
    assert (cost.flops, cost.hbm_bytes) == (0, 0)


# nki_perf_guide.rst, fig16.png: 189 ns from one activation of an element to the next that needs it.
def test_an_activation_lasts_as_long_as_a_published_profile_shows(core_v2):
    cost = lane_cost(core_v2, Engine.scalar, 1)
    assert cost.interval_s + cost.latency_s == pytest.approx(189e-9, rel=0.02)


# trainium2_arch.rst, Vector Engine Performance Mode, and trainium3_arch.rst, Scalar Engine,
# Performance mode: speedups on the Vector and the Scalar Engine of v4.
MODES = {
    "contiguous in SBUF": ("dense", "dense", 4, 2),
    "contiguous runs of a slice": ("rows of a slice", "dense", 4, 2),
    "strided src": ("dense", "strided", 2, 2),
    "strided dst": ("strided", "dense", 2, 2),
    "contiguous, src in PSUM": ("dense", "PSUM", 2, 2),
    "contiguous, dst in PSUM": ("PSUM", "dense", 2, 2),
    "strided and in PSUM": ("strided", "PSUM", 1, 1),
    "both in PSUM": ("PSUM", "PSUM", 1, 1),
}


def _tiles(work, name, dtypes):
    """A copy's dst and src as `MODES` describes them."""

    def tile(kind, dtype):
        if kind == "PSUM":
            return work.empty((4, 2, 8), dtype, PSUM)
        if kind == "strided":
            wide = work.empty((4, 2, 16), dtype)
            return Tile(wide.storage, dtype, wide.pattern.slice(2, 0, 16, 2))
        if kind == "rows of a slice":
            wide = work.empty((4, 2, 16), dtype)
            return Tile(wide.storage, dtype, wide.pattern.slice(2, 0, 8))
        return work.empty((4, 2, 8), dtype)

    return tuple(tile(kind, dtype) for kind, dtype in zip(MODES[name], dtypes, strict=False))


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("dtypes", [(BFLOAT16, BFLOAT16), (BFLOAT16, FLOAT16)])
def test_copies_of_16_bit_floats_have_performance_modes(
    bench, core_v2, core_v3, core_v4, name, dtypes
):
    _, _, on_vector, on_scalar = MODES[name]
    tiles = _tiles(bench(core_v4), name, dtypes)
    for core, vector, scalar in (
        (core_v2, 1, 1),
        (core_v3, on_vector, 1),
        (core_v4, on_vector, on_scalar),
    ):
        assert copy_speedup(core, Engine.vector, *tiles) == vector
        assert copy_speedup(core, Engine.scalar, *tiles) == scalar
        assert copy_speedup(core, Engine.gpsimd, *tiles) == 1


@pytest.mark.parametrize("other", [FLOAT32, UINT16, INT16, UINT8, INT8])
def test_no_dtype_but_short_floats_has_a_performance_mode(bench, core_v4, other):
    work = bench(core_v4)
    narrow, wide = work.empty((4, 8), BFLOAT16), work.empty((4, 8), other)
    for tiles in ((wide, wide), (narrow, wide), (wide, narrow)):
        for engine in (Engine.vector, Engine.scalar):
            assert copy_speedup(core_v4, engine, *tiles) == 1


# trainium2_arch.rst and trainium3_arch.rst, Compute Engine Specifications: elements a cycle of the
# Vector Engine of v3, 256 but for BF16/FP16, and of v4, 512 with FP8.
@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("dtypes", [(FLOAT8_E4M3, BFLOAT16), (FLOAT16, FLOAT8_E5M2)])
def test_copies_with_8_bit_floats_are_half_as_fast_before_v4(
    bench, core_v2, core_v3, core_v4, name, dtypes
):
    tiles = _tiles(bench(core_v4), name, dtypes)
    _, _, on_vector, on_scalar = MODES[name]
    for core, vector, scalar in (
        (core_v2, 1, 1),
        (core_v3, min(on_vector, 2), 1),
        (core_v4, on_vector, on_scalar),
    ):
        assert copy_speedup(core, Engine.vector, *tiles) == vector
        assert copy_speedup(core, Engine.scalar, *tiles) == scalar
        assert copy_speedup(core, Engine.gpsimd, *tiles) == 1


@pytest.mark.parametrize(
    ("dtypes", "speedups"),
    [
        ([BFLOAT16, FLOAT16, BFLOAT16], [1, 2, 2]),
        ([FLOAT8_E5M2] * 3, [1, 1, 2]),
        ([BFLOAT16, FLOAT8_E4M3, BFLOAT16], [1, 1, 2]),
        ([BFLOAT16, FLOAT32, BFLOAT16], [1, 1, 1]),
        ([UINT8] * 3, [1, 1, 1]),
    ],
    ids=str,
)
def test_fp8_passes_at_the_full_rate_from_v4_on(bench, core_v2, core_v3, core_v4, dtypes, speedups):
    tiles = [bench(core_v4).empty((4, 8), dtype) for dtype in dtypes]
    cores = (core_v2, core_v3, core_v4)
    assert [tensor_tensor_speedup(core, *tiles) for core in cores] == speedups


def test_the_speedup_of_fp8_varies_as_the_rates_do(bench, core_v4):
    """Equal rates of 8 and 16 bits are no longer equal once they are drawn."""
    tile = bench(core_v4).empty((4, 8), FLOAT8_E4M3)
    for draw in range(20):
        assert 1.6 < tensor_tensor_speedup(sample_core(core_v4, draw), tile, tile, tile) < 2.4


def test_the_longer_and_the_shorter_of_arrays_are_taken_element_by_element():
    first, second = np.array([1.0, 5.0]), np.array([3.0, 2.0])
    assert (maximum(2, 3), minimum(2, 3)) == (3, 2)
    assert maximum(first, second).tolist() == [3, 5]
    assert minimum(first, second).tolist() == [1, 2]
    assert maximum(first, 4).tolist() == maximum(4, first).tolist() == [4, 5]
    assert minimum(first, 4).tolist() == minimum(4, first).tolist() == [1, 4]


def test_an_innermost_dimension_of_one_does_not_count(bench, core_v4):
    tile = bench(core_v4).empty((4, 8, 1), BFLOAT16)
    column = bench(core_v4).empty((4, 1), BFLOAT16)
    assert copy_speedup(core_v4, Engine.vector, tile, tile) == 4
    assert copy_speedup(core_v4, Engine.vector, column, column) == 4


def test_a_number_is_its_own_broadcast_and_a_vector_lies_along_the_partitions(bench):
    data = np.ones((3, 2, 4), np.float32)
    vector = bench().tile(np.array([[1.0], [2.0], [3.0]], np.float32))
    assert free_axis_operand(2.5, data) == 2.5
    np.testing.assert_array_equal((data * free_axis_operand(vector, data))[:, 1, 2], [1, 2, 3])


def test_a_bit_pattern_is_not_rounded_to_float32(bench):
    data = np.zeros((2, 4), np.int32)
    vector = bench().tile(np.array([[2**31 - 1], [2**24 + 1]]), INT32)
    assert free_axis_bits(vector, data).ravel().tolist() == [2**31 - 1, 2**24 + 1]


@pytest.mark.parametrize(("number", "bits"), [(None, 0), (5, 5), (-1, -1), (0xFFFF0000, -65536)])
def test_a_number_becomes_the_bits_of_the_datas_dtype(number, bits):
    assert free_axis_bits(number, np.zeros(2, np.int32)).tolist() == bits


def test_tiles_of_equal_free_size_may_divide_it_differently():
    first, second = np.arange(24).reshape(2, 3, 4), np.arange(24).reshape(2, 12)
    a, b = with_one_shape(first, second)
    np.testing.assert_array_equal(a, b)
    a, b = with_one_shape(first, first)
    assert a is first
    assert b is first
