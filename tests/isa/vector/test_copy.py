"""tensor_copy and memset: values, legality, price."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.arch import NEURONCORE_V2, has_dtype
from trnsim.dtypes import (
    ALL,
    BFLOAT16,
    BOOL,
    FLOAT8_E4M3FN_X4,
    FLOAT32,
    INT8,
    INT32,
    TFLOAT32,
    UINT8,
    round_to,
)
from trnsim.errors import IllegalInstruction, Unspecified
from trnsim.isa import Engine, Memset, TensorCopy
from trnsim.memory import Memory, Tile

PSUM = Memory.PSUM
DTYPES = [d for d in ALL if has_dtype(d.name)(NEURONCORE_V2)]
SHAPES = [((3, 4), (3, 4)), ((128, 1), (128, 1)), ((4, 2, 3), (4, 6)), ((2, 6), (2, 3, 2))]


@given(st.sampled_from(DTYPES), st.sampled_from(SHAPES), st.integers(0, 2**32 - 1))
def test_a_copy_within_a_dtype_is_bit_for_bit(bench, dtype, shapes, seed):
    rng = np.random.default_rng(seed)
    nbytes = math.prod(shapes[1]) * dtype.itemsize
    raw = rng.integers(0, 2 if dtype is BOOL else 256, nbytes).astype(np.uint8)
    work = bench()
    src, dst = work.tile(np.zeros(shapes[1]), dtype), work.empty(shapes[0], dtype)
    src.storage.data[...] = raw
    work.issue(TensorCopy(dst, src))
    assert bytes(dst.storage.data) == bytes(raw)


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.integers(0, 99))
def test_a_copy_between_dtypes_goes_through_float32(bench, random, source, target, seed):
    if source == target:
        return
    values = np.abs(random((3, 8), seed=seed)) * 100
    work = bench()
    src = work.tile(values, source)
    dst = work.issue(TensorCopy(work.empty((3, 8), target), src))
    np.testing.assert_array_equal(dst.array, round_to(src.load(), target))


def test_integers_copy_exactly_on_every_engine(bench):
    """trainium2_arch.rst: "bit-accurate tensor copies without intermediate FP32 data type"."""
    work = bench()
    src = work.tile(np.array([[2**24 + 1]]), INT32)
    for engine in (Engine.vector, Engine.gpsimd, Engine.scalar):
        dst = work.issue(TensorCopy(work.empty((1, 1), INT32), src, engine))
        assert dst.array.tolist() == [[2**24 + 1]]


def test_a_strided_destination_takes_only_its_own_elements(bench, random):
    work = bench()
    values = random((4, 4))
    dst = work.tile(np.zeros((4, 8), np.float32))
    evens = Tile(dst.storage, FLOAT32, dst.pattern.slice(1, 0, 8, 2))
    work.issue(TensorCopy(evens, work.tile(values)))
    np.testing.assert_array_equal(dst.load()[:, ::2], values)
    assert not dst.load()[:, 1::2].any()


def test_gpsimd_has_no_way_to_psum(bench):
    work = bench()
    sbuf, psum = work.empty((4, 4)), work.empty((4, 4), memory=PSUM)
    TensorCopy(sbuf, sbuf, Engine.gpsimd).verify(work.core)
    for dst, src in ((sbuf, psum), (psum, sbuf)):
        TensorCopy(dst, src, Engine.scalar).verify(work.core)
        TensorCopy(dst, src).verify(work.core)
        with pytest.raises(IllegalInstruction, match="gpsimd with a tile in PSUM; legal: both"):
            TensorCopy(dst, src, Engine.gpsimd).verify(work.core)
    Memset(sbuf, 0, Engine.gpsimd).verify(work.core)
    with pytest.raises(IllegalInstruction, match="gpsimd with dst in PSUM"):
        Memset(psum, 0, Engine.gpsimd).verify(work.core)


def test_the_scalar_engine_of_v2_does_not_copy(bench, core_v2, core_v3):
    tile = bench(core_v3).empty((4, 4))
    TensorCopy(tile, tile, Engine.scalar).verify(core_v3)
    with pytest.raises(
        IllegalInstruction, match="scalar on NeuronCore-v2; legal: vector"
    ) as caught:
        TensorCopy(tile, tile, Engine.scalar).verify(core_v2)
    assert "nisa.activation" in caught.value.fix


@given(st.sampled_from(DTYPES), st.integers(0, 100), st.sampled_from([(1, 1), (5, 3), (2, 2, 3)]))
def test_memset_fills_every_element(bench, dtype, value, shape):
    work = bench()
    dst = work.issue(Memset(work.empty(shape, dtype), value))
    expected = round_to(np.full(shape, value, np.float32), dtype)
    np.testing.assert_array_equal(dst.array, expected)


def test_memset_rounds_once_to_the_dtype(bench):
    work = bench()
    assert work.issue(Memset(work.empty((1, 1), BFLOAT16), 1 + 2**-9)).load()[0, 0] == 1
    assert work.issue(Memset(work.empty((1, 1), TFLOAT32), 1 + 2**-12)).load()[0, 0] == 1
    assert work.issue(Memset(work.empty((1, 1), INT32), 2**31 - 1)).array[0, 0] == 2**31 - 1
    assert math.isinf(work.issue(Memset(work.empty((1, 1), FLOAT32), -math.inf)).load()[0, 0])


@pytest.mark.parametrize("value", [0.5, 3.0, math.nan, math.inf])
def test_an_integer_tile_is_set_to_integers(bench, value):
    work = bench()
    Memset(work.empty((4, 4), INT8), 3).verify(work.core)
    Memset(work.empty((4, 4), FLOAT32), value).verify(work.core)
    message = f"value {value} for .* int8 under .* the value of nisa.memset must be"
    with pytest.raises(IllegalInstruction, match=message):
        Memset(work.empty((4, 4), INT8), value).verify(work.core)


@pytest.mark.parametrize(
    ("dtype", "value", "bits"),
    [(UINT8, -1, 255), (UINT8, 256, 0), (INT8, 200, -56), (INT32, 2**31, -(2**31))],
)
def test_a_number_beyond_an_integer_dtype_is_refused(bench, dtype, value, bits):
    work = bench()
    message = f"value {value} for .* {dtype}; legal: -?[0-9]+ to [0-9]+, as AWS does not say"
    with pytest.raises(Unspecified, match=message) as caught:
        Memset(work.empty((4, 4), dtype), value).verify(work.core)
    assert f" is {bits}" in caught.value.fix
    assert work.issue(Memset(work.empty((1, 1), dtype), bits)).array[0, 0] == bits


def test_a_float_zero_is_taken_for_integers_as_public_kernels_pass_it(bench):
    work = bench()
    assert not work.issue(Memset(work.empty((4, 4), UINT8), 0.0)).array.any()


def test_a_float_is_refused_after_an_equal_integer_was_taken(bench):
    work = bench()
    tile = work.empty((4, 4), INT8)
    work.issue(Memset(tile, 3))
    with pytest.raises(IllegalInstruction, match=r"value 3\.0 for"):
        work.issue(Memset(tile, 3.0))


def test_packed_tiles_are_set_to_zero_alone(bench, core_v4):
    work = bench(core_v4)
    tile = work.empty((4, 4), FLOAT8_E4M3FN_X4)
    assert not work.issue(Memset(tile, 0)).storage.data.any()
    with pytest.raises(
        IllegalInstruction, match=r"value 1 for .* of a packed x4 dtype takes only 0"
    ):
        Memset(tile, 1).verify(core_v4)


def test_a_tile_is_no_value(bench):
    work = bench()
    tile = work.empty((4, 4))
    with pytest.raises(IllegalInstruction, match=r"value is SBUF .*; legal: a number"):
        Memset(tile, tile).verify(work.core)


@pytest.mark.parametrize("F", [1, 64, 65, 1024])
def test_a_copy_costs_an_element_a_cycle_less_the_performance_mode(bench, core, F):
    work = bench(core)
    wide, narrow = work.empty((4, F)), work.empty((4, F), BFLOAT16)
    mode = {2: 1, 3: 4, 4: 4}[core.generation]
    cost = {
        TensorCopy(wide, wide): max(64, F) / core.vector_clock_hz,
        TensorCopy(narrow, narrow): max(64, F / mode) / core.vector_clock_hz,
        TensorCopy(narrow, narrow, Engine.gpsimd): max(64, F) / core.gpsimd_clock_hz,
    }
    if core.generation > 2:
        cycles = F / 2 if core.generation == 4 else F
        cost[TensorCopy(narrow, narrow, Engine.scalar)] = max(64, cycles) / core.scalar_clock_hz
        cost[TensorCopy(wide, wide, Engine.scalar)] = max(64, F) / core.scalar_clock_hz
    for instruction, seconds in cost.items():
        assert work.cost(instruction).interval_s == pytest.approx(seconds)


@pytest.mark.parametrize("F", [1, 128, 130, 1024])
def test_memset_of_zero_in_sixteen_bits_costs_half(bench, core_v3, F):
    work = bench(core_v3)
    hz = core_v3.vector_clock_hz
    for dtype, value, cycles in (
        (BFLOAT16, 0, F / 2),
        (BFLOAT16, 1, F),
        (FLOAT32, 0, F),
        (UINT8, 0, F),
    ):
        instruction = Memset(work.empty((4, F), dtype), value)
        assert work.cycles(instruction, hz) == pytest.approx(max(64, cycles))
