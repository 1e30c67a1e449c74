"""nc_matmul: values, accumulation, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT32,
    TFLOAT32,
    UINT16,
    Cfp8,
    cfp8_decode,
    cfp8_encode,
)
from trnsim.errors import IllegalInstruction, Unspecified
from trnsim.isa import Dims, Engine, MatmulPerfMode, NcMatmul, TensorCopy
from trnsim.memory import Memory, Tile

SBUF, PSUM = Memory.SBUF, Memory.PSUM
NARROW = (BFLOAT16, FLOAT16, FLOAT8_E4M3, FLOAT8_E5M2)

FP8 = (FLOAT8_E4M3, FLOAT8_E5M2)
DOUBLE = {"perf_mode": MatmulPerfMode.double_row}

LENGTHS = {"K": 8, "M": 4, "N": 4}


def product(stationary, moving):
    a, b = (tile.load().astype(np.float64) for tile in (stationary, moving))
    return a.reshape(len(a), -1).T @ b.reshape(len(b), -1)


@given(
    K=st.sampled_from([1, 3, 32, 128]),
    M=st.sampled_from([1, 5, 128]),
    N=st.sampled_from([1, 7, 512]),
    dtypes=st.one_of(
        st.tuples(st.sampled_from(NARROW), st.sampled_from(NARROW)),
        st.tuples(st.sampled_from([FLOAT32, TFLOAT32]), st.sampled_from([FLOAT32, TFLOAT32])),
    ),
)
def test_it_is_the_stationary_transposed_times_the_moving(bench, random, K, M, N, dtypes):
    work = bench()
    stationary, moving = (
        work.tile(random((K, M)), dtypes[0]),
        work.tile(random((K, N), seed=1), dtypes[1]),
    )
    dst = work.issue(NcMatmul(work.empty((M, N), memory=PSUM), stationary, moving))
    np.testing.assert_allclose(dst.load(), product(stationary, moving), rtol=1e-4, atol=1e-4)


def test_free_axes_are_flattened(bench, random):
    work = bench()
    stationary, moving = work.tile(random((8, 2, 3))), work.tile(random((8, 4, 5), seed=1))
    dst = work.issue(NcMatmul(work.empty((6, 2, 10), memory=PSUM), stationary, moving))
    expected = product(stationary, moving).reshape(6, 2, 10)
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-5, atol=1e-5)


def shapes(work, K=8, M=4, N=4, dtypes=(BFLOAT16, BFLOAT16, FLOAT32), **options):
    return NcMatmul(
        work.empty((M, N), dtypes[2], PSUM),
        work.empty((K, M), dtypes[0]),
        work.empty((K, N), dtypes[1]),
        **options,
    )


def test_the_array_and_a_psum_bank_limit_a_matmul(bench, core):
    work = bench(core, has_values=False)
    limit = {2: 512, 3: 512, 4: 4096}[core.generation]
    shapes(work, 128, 128, limit).verify(core)
    message = rf"legal on {core.name}: K <= 128, M <= 128, N <= {limit}"
    for axis, over in (("K", 129), ("M", 129), ("N", limit + 1)):
        with pytest.raises(IllegalInstruction, match=message) as caught:
            shapes(work).check(core, Dims({**LENGTHS, axis: over}))
        assert "nl.tile_size" in caught.value.fix


def test_v4_streams_twice_as_many_columns_into_bfloat16(bench, core_v4):
    work = bench(core_v4, has_values=False)
    dtypes = (BFLOAT16, BFLOAT16, BFLOAT16)
    shapes(work, N=8192, dtypes=dtypes).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="N <= 8192"):
        shapes(work, dtypes=dtypes).check(core_v4, Dims({**LENGTHS, "N": 8193}))


def test_wide_and_narrow_inputs_do_not_mix(bench):
    work = bench()
    for pair in (
        (FLOAT32, TFLOAT32),
        (TFLOAT32, FLOAT32),
        (BFLOAT16, FLOAT8_E5M2),
        (FLOAT16, BFLOAT16),
    ):
        shapes(work, dtypes=(*pair, FLOAT32)).verify(work.core)
    for pair in ((FLOAT32, BFLOAT16), (FLOAT16, TFLOAT32)):
        message = f"stationary {pair[0]} with moving {pair[1]}; legal: both float32/tfloat32, or"
        with pytest.raises(IllegalInstruction, match=message) as caught:
            shapes(work, dtypes=(*pair, FLOAT32)).verify(work.core)
        assert caught.value.source == "nki.isa.nc_matmul, Data types"


def test_the_two_e4m3_formats_do_not_mix(bench, core_v4):
    work = bench(core_v4)
    shapes(work, dtypes=(FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT32)).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="float8_e4m3 with float8_e4m3fn under NKI"):
        shapes(work, dtypes=(FLOAT8_E4M3, FLOAT8_E4M3FN, FLOAT32)).verify(core_v4)


def test_integers_are_no_matmul_inputs(bench):
    work = bench()
    with pytest.raises(IllegalInstruction, match=r"`stationary` is .* int32; legal dtypes"):
        shapes(work, dtypes=(INT32, BFLOAT16, FLOAT32)).verify(work.core)


def test_psum_is_float32_and_bfloat16_from_v4_on(bench, core):
    work = bench(core)
    dtypes = (BFLOAT16, BFLOAT16, BFLOAT16)
    if core.generation == 4:
        shapes(work, dtypes=dtypes).verify(core)
    else:
        with pytest.raises(IllegalInstruction, match=f"legal on {core.name}: float32"):
            shapes(work, dtypes=dtypes).verify(core)
    shapes(work, dtypes=dtypes, is_transpose=True).verify(core)
    with pytest.raises(IllegalInstruction, match=r"`dst` is PSUM .* float16; legal"):
        shapes(work, dtypes=(BFLOAT16, BFLOAT16, FLOAT16)).verify(core)


def test_inputs_come_from_sbuf_and_results_go_to_psum(bench):
    work = bench()
    sbuf, psum = work.empty((8, 8), BFLOAT16), work.empty((8, 8), memory=PSUM)
    NcMatmul(psum, sbuf, sbuf).verify(work.core)
    with pytest.raises(IllegalInstruction, match=r"`dst` is SBUF .*; legal: PSUM"):
        NcMatmul(sbuf, sbuf, sbuf).verify(work.core)
    with pytest.raises(IllegalInstruction, match=r"`moving` is PSUM .*; legal: SBUF"):
        NcMatmul(psum, sbuf, psum).verify(work.core)


def test_contractions_of_different_length_are_refused(bench):
    work = bench()
    dst, a, b = work.empty((4, 4), memory=PSUM), work.empty((8, 4)), work.empty((7, 4))
    with pytest.raises(IllegalInstruction, match="axis K is 8 elsewhere but 7 in `moving`"):
        NcMatmul(dst, a, b).verify(work.core)


def test_transpose_mode_is_bit_accurate_from_v3_on(bench, core_v3):
    work = bench(core_v3)
    data = work.tile(np.array([[1.0, np.nan], [np.inf, 2.0]], np.float32))
    identity = work.tile(np.eye(2, dtype=np.float32))
    dst = work.empty((2, 2), memory=PSUM)
    work.issue(NcMatmul(dst, data, identity, is_transpose=True))
    np.testing.assert_array_equal(dst.load(), data.load().T)


@pytest.mark.parametrize(("N", "M"), [(1, 1), (1, 128), (64, 64), (63, 128), (512, 128), (40, 50)])
def test_a_matmul_costs_a_column_a_cycle_and_four_times_that_in_float32(bench, core, N, M):
    work = bench(core, has_values=False)
    cycles = max(N, min(64, M))
    hz = core.tensor_clock_hz
    for dtype, passes in ((BFLOAT16, 1), (TFLOAT32, 1), (FLOAT32, 4)):
        instruction = shapes(work, 128, M, N, (dtype, dtype, FLOAT32))
        cost = work.cost(instruction)
        assert cost.interval_s * hz == pytest.approx(passes * cycles)
        drained_s = cost.latency_s - core.tensor_dependent_s
        assert drained_s * hz == pytest.approx(60 + 128)
        assert cost.flops == 2 * 128 * M * N
    assert instruction.chosen_engine(core) is Engine.tensor


def test_a_full_bfloat16_matmul_runs_at_the_peak_of_the_core(bench, core):
    work = bench(core, has_values=False)
    cost = work.cost(shapes(work, 128, 128, 512))
    peak = {2: 91.75e12, 3: 78.6e12, 4: 78.6e12}[core.generation]
    assert cost.flops / cost.interval_s == pytest.approx(peak, rel=1e-3)


@pytest.mark.parametrize(("dtype", "exposed"), [(BFLOAT16, 64), (TFLOAT32, 64), (FLOAT32, 0)])
def test_two_stationary_columns_a_cycle_are_loaded_before_but_for_float32(
    bench, core, dtype, exposed
):
    """Float32 has 431.8 ns for 512 columns of two cycles (kernel-optimization.rst, v5)."""
    work = bench(core, has_values=False)
    cost = work.cost(shapes(work, 128, 128, 512, (dtype, dtype, FLOAT32)))
    assert cost.held_load_s * core.tensor_clock_hz == pytest.approx(exposed)
    assert cost.held_read == 0
    few = work.cost(shapes(work, 128, 32, 512, (dtype, dtype, FLOAT32)))
    assert few.held_load_s == pytest.approx(cost.held_load_s / 4)


# double_row


@given(
    K=st.sampled_from([1, 4, 128]),
    M=st.sampled_from([1, 6, 128]),
    N=st.sampled_from([1, 9, 512]),
    dtypes=st.tuples(st.sampled_from(FP8), st.sampled_from(FP8)),
)
def test_double_row_contracts_over_partitions_and_the_first_free_axis(
    bench, random, K, M, N, dtypes
):
    work = bench()
    stationary = work.tile(random((K, 2, M)), dtypes[0])
    moving = work.tile(random((K, 2, N), seed=1), dtypes[1])
    dst = work.issue(NcMatmul(work.empty((M, N), memory=PSUM), stationary, moving, **DOUBLE))
    pairs = (tile.load().astype(np.float64) for tile in (stationary, moving))
    expected = sum(a[:, half].T @ b[:, half] for a, b in [tuple(pairs)] for half in (0, 1))
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-4, atol=1e-3)
    assert dst.shape == (M, N)


def doubled(work, dtypes=(FLOAT8_E4M3, FLOAT8_E5M2), pair=2, **options):
    return NcMatmul(
        work.empty((4, 8), memory=PSUM),
        work.empty((16, pair, 4), dtypes[0]),
        work.empty((16, 2, 8), dtypes[1]),
        **(DOUBLE | options),
    )


def test_double_row_takes_pairs_of_fp8_from_v3_on(bench, core_v2, core_v3, core_v4):
    doubled(bench(core_v3)).verify(core_v3)
    doubled(bench(core_v4), (FLOAT8_E4M3FN, FLOAT8_E5M2)).verify(core_v4)
    for core, options, message in (
        (core_v2, {}, "double_row on NeuronCore-v2; legal from NeuronCore-v3 on"),
        (core_v3, {"pair": 3}, r"double_row; legal: \[K, 2, free\]"),
        (core_v3, {"dtypes": (BFLOAT16, FLOAT8_E5M2)}, "`stationary` is .* legal dtypes: float8"),
        (core_v3, {"dtypes": (FLOAT8_E5M2, BFLOAT16)}, "`moving` is .* legal dtypes: float8"),
        (core_v3, {"is_transpose": True}, "double_row with is_transpose=True; legal: one"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            doubled(bench(core), **options).verify(core)


def test_double_row_excludes_column_tiles(bench, core_v3):
    work = bench(core_v3)
    doubled(work, tile_position=(64, 0), tile_size=(64, 128)).verify(core_v3)
    with pytest.raises(IllegalInstruction, match=r"double_row with tile_size=.*column size 128"):
        doubled(work, tile_position=(0, 0), tile_size=(128, 64)).verify(core_v3)


def test_double_row_takes_the_time_of_bfloat16_for_twice_the_contraction(bench, core_v3):
    work = bench(core_v3, has_values=False)
    instruction = NcMatmul(
        work.empty((128, 512), memory=PSUM),
        work.empty((128, 2, 128), FLOAT8_E4M3),
        work.empty((128, 2, 512), FLOAT8_E4M3),
        **DOUBLE,
    )
    double, plain = work.cost(instruction), work.cost(shapes(work, 128, 128, 512))
    assert double.interval_s == plain.interval_s == pytest.approx(512 / core_v3.tensor_clock_hz)
    assert double.flops == 2 * plain.flops
    assert double.flops / double.interval_s == pytest.approx(158e12, rel=0.01)


# Transpose mode


def transposed(work, data, dst, columns=None):
    identity = np.eye(data.partitions, columns or data.partitions, dtype=np.float32)
    moving = work.tile(identity, BFLOAT16 if data.dtype.itemsize < 4 else FLOAT32)
    return work.issue(NcMatmul(dst, data, moving, is_transpose=True))


@given(
    st.sampled_from([FLOAT32, TFLOAT32, BFLOAT16, FLOAT16]),
    st.sampled_from([(1, 1), (7, 3), (128, 2), (5, 2, 3)]),
)
def test_transpose_mode_moves_the_bits_of_every_pattern(bench, dtype, shape):
    work = bench()
    data = work.tile(np.zeros(shape), dtype)
    raw = np.random.default_rng(0).integers(0, 256, data.nbytes, np.uint8)
    data.put(raw.view(dtype.dtype).reshape(shape))
    flat = data.array.reshape(shape[0], -1)
    dst = transposed(work, data, work.empty(flat.T.shape, dtype, PSUM))
    assert dst.array.tobytes() == np.ascontiguousarray(flat.T).tobytes()


def test_on_v2_transpose_mode_multiplies_and_a_nan_spreads(bench, core_v2):
    work = bench(core_v2)
    data = work.tile(np.array([[1.0, np.nan], [4.0, 2.0]], np.float32))
    dst = transposed(work, data, work.empty((2, 2), memory=PSUM))
    assert np.isnan(dst.load()[1]).all()
    assert dst.load()[0].tolist() == [1.0, 4.0]


def test_a_wider_dst_takes_the_values(bench, core_v3):
    work = bench(core_v3)
    data = work.tile(np.array([[1.5, -np.inf]]), BFLOAT16)
    dst = transposed(work, data, work.empty((2, 1), FLOAT32, PSUM))
    assert dst.load().tolist() == [[1.5], [-np.inf]]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, UINT16])
def test_fp8_arrives_as_16_bits_with_zeros_above(bench, random, dtype):
    work = bench()
    data = work.tile(random((6, 4)), FLOAT8_E5M2)
    dst = transposed(work, data, work.empty((4, 6), dtype, PSUM))
    raw = dst.array.view(np.uint16)
    np.testing.assert_array_equal(raw, data.array.view(np.uint8).T)


def test_fp8_may_be_read_as_every_other_byte(bench, random):
    work = bench()
    data = work.tile(random((6, 4)), FLOAT8_E4M3)
    room = work.empty((4, 12), FLOAT8_E4M3, PSUM)
    dst = transposed(work, data, Tile(room.storage, room.dtype, room.pattern.slice(1, 0, 12, 2)))
    np.testing.assert_array_equal(dst.load(), data.load().T)
    assert (room.array.view(np.uint8)[:, 1::2] == 0).all()
    copy = work.issue(TensorCopy(work.empty((4, 12), FLOAT8_E4M3), room))  # all of it is written
    np.testing.assert_array_equal(copy.array, room.array)


def test_the_transpose_of_fp8_needs_two_bytes_an_element(bench, core_v2, core_v3):
    dense = {"dtypes": (FLOAT8_E4M3, BFLOAT16, FLOAT8_E4M3), "is_transpose": True}
    shapes(bench(core_v2), **dense).verify(core_v2)
    with pytest.raises(IllegalInstruction, match="float8_e4m3 with elements two bytes apart"):
        shapes(bench(core_v3), **dense).verify(core_v3)
    wide = {"dtypes": (FLOAT8_E4M3, BFLOAT16, FLOAT32), "is_transpose": True}
    with pytest.raises(IllegalInstruction, match=r"`dst` is PSUM .* float32 for the transpose of"):
        shapes(bench(core_v3), **wide).verify(core_v3)


def test_a_moving_tile_that_picks_leaves_zeros_where_it_picks_nothing(bench, core_v3):
    work = bench(core_v3)
    data = work.tile(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    dst = transposed(work, data, work.empty((2, 3), memory=PSUM), columns=3)
    assert dst.load().tolist() == [[1, 3, 0], [2, 4, 0]]


@pytest.mark.parametrize("moving", [[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]])
def test_transposing_by_another_matrix_than_an_identity_is_unspecified(bench, core_v3, moving):
    work = bench(core_v3)
    data, moving = work.tile(np.ones((2, 2), np.float32)), work.tile(np.array(moving, np.float32))
    dst = work.empty((2, 2), memory=PSUM)
    with pytest.raises(Unspecified, match="is no identity matrix"):
        work.issue(NcMatmul(dst, data, moving, is_transpose=True))
    identity = work.tile(np.eye(2, dtype=np.float32))
    with pytest.raises(Unspecified, match="is_transpose=True with accumulate=True"):
        work.issue(NcMatmul(dst, data, identity, is_transpose=True, accumulate=True))


def test_a_float32_transpose_is_twice_as_fast_from_v3_on_and_hidden_on_v4(bench, core):
    work = bench(core, has_values=False)
    dtypes = (FLOAT32, FLOAT32, FLOAT32)
    passes = {2: 4, 3: 2, 4: 1}[core.generation]
    instruction = shapes(work, 128, 128, 128, dtypes, is_transpose=True)
    assert work.cycles(instruction, core.tensor_clock_hz) == pytest.approx(passes * 128)


@pytest.mark.parametrize("hint", ["is_stationary_onezero", "is_moving_onezero"])
def test_ones_and_zeros_halve_the_time_of_float32_alone(bench, core_v3, hint):
    work = bench(core_v3, has_values=False)
    for dtype, passes in ((FLOAT32, 2), (BFLOAT16, 1)):
        instruction = shapes(work, 64, 128, 256, (dtype, dtype, FLOAT32), **{hint: True})
        assert work.cycles(instruction, core_v3.tensor_clock_hz) == pytest.approx(passes * 256)


# Regressions of AWS's simulator, by its release notes


def test_operands_of_four_dimensions_lose_nothing(bench, random):
    """NKI 0.4: higher dimensions were dropped and their results were zero."""
    work = bench()
    a, b = work.tile(random((8, 2, 1, 3))), work.tile(random((8, 2, 3, 4), seed=1))
    dst = work.issue(NcMatmul(work.empty((6, 2, 3, 4), memory=PSUM), a, b))
    expected = product(a, b).reshape(6, 2, 3, 4)
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [3, 7, 11])
def test_an_exponent_bias_is_a_power_of_two_on_the_product(bench, random, bias):
    """What docs/limits.md tells users of cFP8: encode with a bias, multiply, scale the result."""
    form = Cfp8(exponent_bits=4, mantissa_bits=3, bias=bias)
    codes = cfp8_encode(random((8, 4)) / 8, form)
    work = bench()
    stationary = work.tile(codes.view(FLOAT8_E4M3.dtype), FLOAT8_E4M3)
    moving = work.tile(random((8, 4), seed=1), FLOAT32)
    narrow = work.tile(moving.array, BFLOAT16)
    dst = work.issue(NcMatmul(work.empty((4, 4), memory=PSUM), stationary, narrow))
    expected = cfp8_decode(codes, form).T @ narrow.load()
    np.testing.assert_allclose(dst.load() * 2.0 ** (7 - bias), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtypes", [(BFLOAT16, BFLOAT16), (FLOAT32, FLOAT32)])
def test_parts_of_a_psum_tile_are_started_and_added_to_one_by_one(bench, random, dtypes, seed):
    work, draw = bench(), np.random.default_rng(seed)
    K, M, N = draw.choice([1, 3, 17]), draw.choice([1, 5, 12]), 8
    dst = work.empty((M, N), memory=PSUM)
    values, started = np.zeros((M, N), np.float32), np.zeros(N, bool)
    for turn in range(10):
        start = int(draw.integers(0, N)) if draw.random() < 0.5 else 0
        end = int(draw.integers(start + 1, N + 1)) if start else N
        stationary = work.tile(random((K, M), seed=turn), dtypes[0])
        moving = work.tile(random((K, end - start), seed=turn + 90), dtypes[1])
        accumulate = None if draw.random() < 0.8 else False
        part = Tile(dst.storage, FLOAT32, dst.pattern.slice(1, start, end))
        work.issue(NcMatmul(part, stationary, moving, accumulate=accumulate))
        old = values[:, start:end] * (started[start:end] & (accumulate is None))
        values[:, start:end] = old + product(stationary, moving)
        started[start:end] = True
    if started.all():
        np.testing.assert_allclose(dst.load(), values, rtol=1e-4, atol=1e-4)


def test_a_product_of_one_term_keeps_the_sign_of_zero(bench):
    work = bench()
    dst = work.empty((1, 2), memory=PSUM)
    minus, one = work.tile(np.float32([[-0.0]])), work.tile(np.ones((1, 2), np.float32))
    work.issue(NcMatmul(dst, minus, one))
    assert np.signbit(dst.load()).all()
    work.issue(NcMatmul(dst, minus, one))
    assert np.signbit(dst.load()).all()
    work.issue(NcMatmul(dst, work.tile(np.float32([[0.0]])), one))
    assert not np.signbit(dst.load()).any()
