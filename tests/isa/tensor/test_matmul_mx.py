"""quantize_mx and nc_matmul_mx: values, scale layout, legality, price."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    FLOAT4_E2M1FN_X4,
    FLOAT8_E4M3FN_X4,
    FLOAT8_E5M2_X4,
    FLOAT8_E8M0FNU,
    FLOAT16,
    FLOAT32,
    UINT8,
    UINT16,
)
from trnsim.errors import IllegalInstruction, UndefinedBehavior, UninitializedRead, Unspecified
from trnsim.isa import Engine, Memset, NcMatmulMx, QuantizeMx, TensorCopy
from trnsim.memory import Memory, SnakeIndex, Tile

PSUM = Memory.PSUM
E_MAX = {FLOAT8_E4M3FN_X4: 8, FLOAT8_E5M2_X4: 15}
ELEMENTS = {FLOAT8_E4M3FN_X4: ml_dtypes.float8_e4m3fn, FLOAT8_E5M2_X4: ml_dtypes.float8_e5m2}
FP8 = list(E_MAX)


@pytest.fixture
def work(bench, core_v4):
    return bench(core_v4)


def row_of(group):
    """The row of a scale tile that holds the scales of partitions 8 * group and on."""
    return 32 * (group // 4) + group % 4


def quantized(work, values, dtype=FLOAT8_E4M3FN_X4, scale_dtype=FLOAT8_E8M0FNU):
    rows, columns = values.shape
    src = work.tile(values, BFLOAT16)
    scale = work.empty((rows if rows > 32 else 4, columns // 4), scale_dtype)
    dst = work.issue(QuantizeMx(work.empty((rows, columns // 4), dtype), src, scale))
    return src, dst, scale


def elements_of(tile):
    """The four numbers in each packed FP8, as float64."""
    raw = np.ascontiguousarray(tile.array).view(np.uint8)
    return raw.view(ELEMENTS[tile.dtype]).astype(np.float64)


@settings(max_examples=25)
@given(
    rows=st.sampled_from([32, 64, 128]),
    columns=st.sampled_from([4, 8, 20]),
    dtype=st.sampled_from(FP8),
    scale_dtype=st.sampled_from([FLOAT8_E8M0FNU, UINT8]),
    power=st.integers(-20, 20),
)
def test_each_group_of_8_by_4_is_divided_by_its_power_of_two(
    bench, random, core_v4, rows, columns, dtype, scale_dtype, power
):
    work = bench(core_v4)
    src, dst, scale = quantized(work, random((rows, columns)) * 2.0**power, dtype, scale_dtype)
    values, elements = src.load().astype(np.float64), elements_of(dst)
    codes = scale.array.view(np.uint8)
    for group in range(rows // 8):
        for quad in range(columns // 4):
            part = np.s_[8 * group : 8 * group + 8, 4 * quad : 4 * quad + 4]
            exponent = math.floor(math.log2(np.abs(values[part]).max())) - (E_MAX[dtype] - 1)
            assert codes[row_of(group), quad] == exponent + 127
            exact = values[part] / 2.0**exponent
            np.testing.assert_array_equal(
                elements[part], exact.astype(np.float32).astype(ELEMENTS[dtype]).astype(np.float64)
            )


def test_a_group_of_zeros_has_the_smallest_scale(work):
    values = np.zeros((32, 8), np.float32)
    values[:, 4:] = 1.0
    _, dst, scale = quantized(work, values)
    assert scale.array.view(np.uint8).tolist() == [[0, 127 - 7]] * 4
    assert elements_of(dst).tolist() == [[0.0] * 4 + [128.0] * 4] * 32


def test_the_largest_values_of_a_group_are_rounded_not_clamped(work):
    """NKI 0.5: the scale is twice the one of the OCP spec."""
    values = np.full((32, 4), 1.984375, np.float32)  # 1.1111111b, rounds up to 2
    _, dst, scale = quantized(work, values)
    assert elements_of(dst)[0, 0] * 2.0 ** (int(scale.array.view(np.uint8)[0, 0]) - 127) == 2.0


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinities_and_nan_are_unspecified(work, bad):
    values = np.ones((32, 4), np.float32)
    values[3, 2] = bad
    with pytest.raises(Unspecified, match="MX quantization of an infinity or a NaN"):
        quantized(work, values)


def test_scales_of_several_tensors_share_a_tile(work, random):
    """NKI 0.6: a sliced scale tile raised, and could overwrite scales already there."""
    room = work.tile(np.full((128, 2), 99), UINT8)
    src = work.tile(random((128, 8)), BFLOAT16)
    alone = quantized(work, src.load(), scale_dtype=UINT8)[2]
    for start in (4, 12):
        view = Tile(room.storage, UINT8, room.pattern.slice(0, start, 128))
        work.issue(QuantizeMx(work.empty((128, 2), FLOAT8_E4M3FN_X4), src, view))
    for row in range(128):
        packed = row % 32
        if packed in {4, 5, 6, 7, 12, 13, 14, 15}:
            expected = alone.array[row - packed + packed % 4]
            np.testing.assert_array_equal(room.array[row], expected)
        else:
            assert (room.array[row] == 99).all()


def test_rows_between_the_scales_are_zero_where_nothing_had_been_written(work, random):
    src = work.tile(random((64, 4)), BFLOAT16)
    scale = work.empty((64, 1), UINT8)
    scale.array[8:12] = 7
    Tile(scale.storage, UINT8, scale.pattern.slice(0, 8, 12)).mark_written()
    work.issue(QuantizeMx(work.empty((64, 1), FLOAT8_E4M3FN_X4), src, scale))
    assert scale.is_written()
    codes = scale.array[:, 0]
    assert np.flatnonzero(codes).tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 32, 33, 34, 35]


def test_groups_of_which_a_partition_is_unwritten_stay_unwritten(work, random):
    src = work.empty((32, 4), BFLOAT16)
    src.storage.data[...] = 0xFF  # NaN, as anything may lie there
    rows = work.tile(random((20, 4)), BFLOAT16)
    work.issue(TensorCopy(Tile(src.storage, BFLOAT16, src.pattern.slice(0, 0, 20)), rows))
    scale = work.empty((32, 1), UINT8)
    dst = work.issue(QuantizeMx(work.empty((32, 1), FLOAT8_E4M3FN_X4), src, scale))
    assert np.flatnonzero(dst.written_flags()).tolist() == list(range(16))
    assert scale.written_flags()[:4, 0].tolist() == [True, True, False, False]
    unwritten = work.empty((32, 4), BFLOAT16)
    with pytest.raises(UninitializedRead):
        work.issue(QuantizeMx(dst, unwritten, scale))


def quantize(work, rows=64, columns=8, scale=(64, 2), dtypes=(FLOAT8_E4M3FN_X4, BFLOAT16, UINT8)):
    return QuantizeMx(
        work.empty((rows, 2), dtypes[0]),
        work.empty((rows, columns), dtypes[1]),
        work.empty(scale, dtypes[2]),
    )


def test_quantize_mx_takes_multiples_of_32_partitions_and_4_elements(work, core_v3):
    quantize(work).verify(work.core)
    quantize(work, scale=(36, 2)).verify(work.core)
    quantize(work, rows=32, scale=(4, 2)).verify(work.core)
    quantize(work, dtypes=(FLOAT8_E5M2_X4, FLOAT16, FLOAT8_E8M0FNU)).verify(work.core)
    for options, message in (
        ({"rows": 48, "scale": (48, 2)}, "48 partitions; legal: multiples of 32"),
        ({"columns": 12}, "free sizes F, F / 4 and F / 4"),
        ({"scale": (64, 3)}, "free sizes F, F / 4 and F / 4"),
        ({"scale": (35, 2)}, "`dst_scale` is .* legal: at least 36 partitions"),
        ({"dtypes": (FLOAT4_E2M1FN_X4, BFLOAT16, UINT8)}, "`dst` is .* legal dtypes: float8_e5m2"),
        ({"dtypes": (FLOAT8_E5M2_X4, FLOAT32, UINT8)}, "`src` is .* legal dtypes: float16 or bf"),
        ({"dtypes": (FLOAT8_E5M2_X4, FLOAT16, UINT16)}, "`dst_scale` is .* legal dtypes: float8"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            quantize(work, **options).verify(work.core)
    with pytest.raises(IllegalInstruction, match="on NeuronCore-v3; legal from NeuronCore-v4 on"):
        quantize(work).verify(core_v3)


@pytest.mark.parametrize("start", range(0, 24, 2))
def test_scales_start_at_0_4_8_or_12_of_a_quadrant(work, start):
    room = work.empty((128, 2), UINT8)
    view = Tile(room.storage, UINT8, room.pattern.slice(0, start, 64 + start))
    instruction = QuantizeMx(
        work.empty((64, 2), FLOAT8_E4M3FN_X4), work.empty((64, 8), BFLOAT16), view
    )
    if start in {0, 4, 8, 12}:
        instruction.verify(work.core)
        return
    with pytest.raises(IllegalInstruction, match=rf"starts at partition {start}; legal: 0, 4, 8"):
        instruction.verify(work.core)


@pytest.mark.parametrize("quadrant", [0, 1])
def test_placed_scales_lie_in_the_quadrant_of_their_data(work, quadrant):
    src = work.empty((32, 8), BFLOAT16, address=(32, 0))
    dst = work.empty((32, 2), FLOAT8_E4M3FN_X4, address=(32, 1024))
    scale = work.empty((4, 2), UINT8, address=(32 * quadrant, 2048))
    instruction = QuantizeMx(dst, src, scale)
    if quadrant == 1:
        instruction.verify(work.core)
        return
    with pytest.raises(IllegalInstruction, match="starts in quadrant 0 and its data in quadrant 1"):
        instruction.verify(work.core)


@pytest.mark.parametrize("columns", [4, 256, 260, 2048])
def test_quantizing_takes_a_quarter_cycle_an_element(bench, core_v4, columns):
    work = bench(core_v4, has_values=False)
    instruction = QuantizeMx(
        work.empty((32, columns // 4), FLOAT8_E4M3FN_X4),
        work.empty((32, columns), BFLOAT16),
        work.empty((4, columns // 4), UINT8),
    )
    assert instruction.chosen_engine(core_v4) is Engine.vector
    cycles = work.cycles(instruction, core_v4.vector_clock_hz)
    assert cycles == pytest.approx(max(64, columns / 4))


# nc_matmul_mx


def dequantized(tile, scale):
    """[K, F] packed as [K, F, 4] values, one group at a time."""
    K, F = tile.shape
    elements = elements_of(tile).reshape(K, F, 4)
    codes = scale.array.view(np.uint8)
    for k in range(K):
        for f in range(F):
            elements[k, f] *= 2.0 ** (float(codes[row_of(k // 8), f]) - 127)
    return elements


@settings(max_examples=20)
@given(
    K=st.sampled_from([32, 64, 128]),
    M=st.sampled_from([2, 6]),
    N=st.sampled_from([1, 9]),
    dtypes=st.tuples(st.sampled_from(FP8), st.sampled_from(FP8)),
)
def test_it_multiplies_what_quantize_mx_made(bench, random, core_v4, K, M, N, dtypes):
    work = bench(core_v4)
    _, stationary, first = quantized(work, random((K, 4 * M)), dtypes[0])
    _, moving, second = quantized(work, random((K, 4 * N), seed=1) * 100, dtypes[1], UINT8)
    dst = work.issue(NcMatmulMx(work.empty((M, N), memory=PSUM), stationary, moving, first, second))
    a, b = dequantized(stationary, first), dequantized(moving, second)
    expected = np.einsum("kmq,knq->mn", a, b)
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-4, atol=1e-3)


def test_it_is_close_to_the_product_of_what_was_quantized(work, random):
    x, stationary, first = quantized(work, random((128, 32)))
    y, moving, second = quantized(work, random((128, 64), seed=1))
    dst = work.issue(
        NcMatmulMx(work.empty((8, 16), memory=PSUM), stationary, moving, first, second)
    )
    a, b = x.load().reshape(128, 8, 4), y.load().reshape(128, 16, 4)
    expected = np.einsum("kmq,knq->mn", a, b)
    assert np.abs(dst.load() - expected).max() < 0.05 * np.abs(expected).max() + 1


FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def test_fp4_is_an_input_of_its_own(work):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (32, 2, 4))
    stationary, scale = (
        work.empty((32, 2), FLOAT4_E2M1FN_X4),
        work.tile(np.full((4, 2), 128), UINT8),
    )
    raw = codes[..., 0] | codes[..., 1] << 4 | codes[..., 2] << 8 | codes[..., 3] << 12
    stationary.put(raw.astype(np.uint16).view(FLOAT4_E2M1FN_X4.dtype))
    stationary.storage.written.add(stationary.pattern, 2)
    _, moving, second = quantized(work, np.ones((32, 12), np.float32))
    dst = work.issue(NcMatmulMx(work.empty((2, 3), memory=PSUM), stationary, moving, scale, second))
    expected = 2 * np.array(FP4)[codes].sum(axis=(0, 2))
    np.testing.assert_array_equal(dst.load(), np.repeat(expected[:, None], 3, axis=1))


def test_a_nan_scale_makes_nan(work):
    _, stationary, scale = quantized(work, np.ones((32, 8), np.float32), scale_dtype=UINT8)
    scale.array[1, 0] = 255
    dst = work.issue(
        NcMatmulMx(work.empty((2, 2), memory=PSUM), stationary, stationary, scale, scale)
    )
    assert np.isnan(dst.load()).tolist() == [[True, True], [True, False]]


def test_accumulation_is_as_in_nc_matmul(work):
    _, ones, scale = quantized(work, np.ones((32, 8), np.float32))
    dst = work.empty((2, 2), BFLOAT16, PSUM)
    for accumulate, expected in ((None, 128), (None, 256), (False, 128), (True, 256)):
        work.issue(NcMatmulMx(dst, ones, ones, scale, scale, accumulate=accumulate))
        assert dst.load().tolist() == [[expected] * 2] * 2
    fresh = work.empty((2, 2), memory=PSUM)
    with pytest.raises(UndefinedBehavior, match="nc_matmul_mx: accumulate=True onto PSUM"):
        work.issue(NcMatmulMx(fresh, ones, ones, scale, scale, accumulate=True))


def test_scales_that_nothing_wrote_are_refused_and_rows_between_are_not_read(work):
    _, ones, _ = quantized(work, np.ones((64, 8), np.float32))
    scale = work.empty((64, 2), UINT8)
    dst = work.empty((2, 2), memory=PSUM)
    rows = [Tile(scale.storage, UINT8, scale.pattern.slice(0, q, q + 4)) for q in (0, 32)]
    work.issue(Memset(rows[0], 127))
    with pytest.raises(UninitializedRead):
        work.issue(NcMatmulMx(dst, ones, ones, scale, scale))
    work.issue(Memset(rows[1], 127))
    work.issue(NcMatmulMx(dst, ones, ones, scale, scale))


def multiply(work, K=64, M=4, N=6, dtypes=(FLOAT8_E5M2_X4, FLOAT4_E2M1FN_X4, FLOAT32), **options):
    scales = {"stationary_scale": (K, M), "moving_scale": (K, N)}
    scales |= {name: options.pop(name) for name in list(options) if name in scales}
    return NcMatmulMx(
        work.empty((M, N), dtypes[2], PSUM),
        work.empty((K, M), dtypes[0]),
        work.empty((K, N), dtypes[1]),
        *(work.empty(shape, UINT8) for shape in scales.values()),
        **options,
    )


def test_its_constraints(work, core_v3):
    multiply(work).verify(work.core)
    multiply(work, K=32, stationary_scale=(4, 4), moving_scale=(4, 6)).verify(work.core)
    multiply(work, tile_position=(64, 0), tile_size=(64, 128)).verify(work.core)
    for options, message in (
        ({"K": 40}, "40 partitions; legal: multiples of 32"),
        ({"M": 3}, "`stationary` has M=3; legal: even"),
        ({"stationary_scale": (64, 5)}, "`stationary_scale` is .* legal: 4 elements a partition"),
        ({"moving_scale": (4, 6)}, "`moving_scale` is .* legal: at least 36 partitions"),
        ({"dtypes": (BFLOAT16, FLOAT8_E5M2_X4, FLOAT32)}, "`stationary` is .* legal dtypes"),
        ({"dtypes": (FLOAT8_E5M2_X4, FLOAT8_E5M2_X4, FLOAT16)}, "`dst` is .* legal dtypes"),
        (
            {"tile_position": (0, 0), "tile_size": (64, 64)},
            r"tile_size=\(64, 64\); legal column size: 128",
        ),
        ({"tile_position": (32, 0), "tile_size": (64, 128)}, "legal start rows: 0, 64"),
        ({"tile_size": (64, 128)}, r"legal: both as \(row, column\), or neither"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            multiply(work, **options).verify(work.core)
    with pytest.raises(IllegalInstruction, match="on NeuronCore-v3; legal from NeuronCore-v4 on"):
        multiply(work).verify(core_v3)


@pytest.mark.parametrize(("dtype", "limit"), [(FLOAT32, 4096), (BFLOAT16, 8192)])
def test_it_streams_as_many_columns_as_psum_holds(bench, core_v4, dtype, limit):
    work = bench(core_v4, has_values=False)
    dtypes = (FLOAT8_E5M2_X4, FLOAT8_E5M2_X4, dtype)
    multiply(work, K=32, N=limit, dtypes=dtypes).verify(core_v4)
    with pytest.raises(IllegalInstruction, match=f"N <= {limit}"):
        multiply(work, K=32, N=limit // 2, dtypes=dtypes).check(
            core_v4, type(multiply(work).verify(core_v4))(K=32, M=4, N=limit + 1)
        )


def test_data_and_scales_share_an_index(work):
    """Gathered together, a group stays with its scale."""
    rng = np.random.default_rng(0)
    _, data, scale = quantized(work, rng.standard_normal((32, 16)).astype(np.float32))
    picks = [3, 0]
    offsets = np.zeros((32, 1), np.uint16)
    offsets[:2, 0] = picks
    index = work.tile(offsets, UINT16)

    def view(tile, source=index):
        pattern = tile.pattern.slice(1, 0, 2)
        return Tile(tile.storage, tile.dtype, pattern, SnakeIndex(source, 4, 2, 32))

    _, moving, second = quantized(work, np.ones((32, 8), np.float32))
    dst = work.empty((2, 2), memory=PSUM)
    work.issue(NcMatmulMx(dst, view(data), moving, view(scale), second))
    expected = dequantized(data, scale)[:, picks].sum(axis=(0, 2))
    np.testing.assert_allclose(dst.load()[:, 0], expected, rtol=1e-5)
    message = "`stationary_scale` and its data differ in indirection; legal: the same index"
    first_columns = Tile(scale.storage, scale.dtype, scale.pattern.slice(1, 0, 2))
    with pytest.raises(IllegalInstruction, match=message):
        NcMatmulMx(dst, view(data), moving, first_columns, second).verify(work.core)
    other = work.tile(offsets, UINT16)
    with pytest.raises(IllegalInstruction, match=message):
        work.issue(NcMatmulMx(dst, view(data), moving, view(scale, other), second))


def test_it_contracts_four_times_as_much_in_the_time_of_bfloat16(bench, core_v4):
    work = bench(core_v4, has_values=False)
    cost = work.cost(multiply(work, K=128, M=128, N=512))
    assert cost.interval_s == pytest.approx(512 / core_v4.tensor_clock_hz)
    assert cost.flops == 2 * 512 * 128 * 512
    assert cost.flops / cost.interval_s == pytest.approx(315e12, rel=0.01)


@pytest.mark.parametrize("partitions", [32, 64, 96, 128])
def test_a_scale_tile_may_have_more_partitions_than_its_data(work, random, partitions):
    src, moving, scale = quantized(work, random((32, 8)), scale_dtype=UINT8)
    room = work.tile(np.full((partitions, 2), 255), UINT8)  # NaN, where nobody looks
    room.array[0:4] = scale.array
    bank = work.empty((2, 2), memory=PSUM)
    product = work.issue(NcMatmulMx(bank, moving, moving, room, room)).load()
    other = work.empty((2, 2), memory=PSUM)
    expected = work.issue(NcMatmulMx(other, moving, moving, scale, scale)).load()
    np.testing.assert_array_equal(product, expected)
    work.issue(QuantizeMx(work.empty((32, 2), FLOAT8_E4M3FN_X4), src, room))
    np.testing.assert_array_equal(room.array[:4], scale.array)
    assert (room.array[4:] == 255).all()
