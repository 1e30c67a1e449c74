"""nc_matmul and nc_transpose: values, accumulation, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    ALL,
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT32,
    TFLOAT32,
)
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import Dims, Engine, MatmulPerfMode, Memset, NcMatmul, NcTranspose
from trnsim.memory import Memory, Tile

SBUF, PSUM = Memory.SBUF, Memory.PSUM
NARROW = (BFLOAT16, FLOAT16, FLOAT8_E4M3, FLOAT8_E5M2)

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


@pytest.fixture
def psum(bench, random):
    """A bench, a PSUM tile, and a function that multiplies ones onto part of it."""
    work = bench()
    dst = work.empty((4, 8), memory=PSUM)
    ones = work.tile(np.ones((1, 4), np.float32))

    def add(value, accumulate=None, columns=(0, 8)):
        part = Tile(dst.storage, FLOAT32, dst.pattern.slice(1, *columns))
        moving = work.tile(np.full((1, columns[1] - columns[0]), value, np.float32))
        work.issue(NcMatmul(part, ones, moving, accumulate=accumulate))

    del random
    return work, dst, add


def test_by_default_the_first_matmul_overwrites_and_later_ones_add(psum):
    _, dst, add = psum
    for value in (1, 2, 4):
        add(value)
    assert dst.load().tolist() == [[7.0] * 8] * 4


def test_what_is_first_is_decided_for_each_element(psum):
    _, dst, add = psum
    add(1, columns=(0, 5))
    add(2, columns=(3, 8))
    assert dst.load()[0].tolist() == [1, 1, 1, 3, 3, 2, 2, 2]


def test_only_matmuls_count_as_the_first_write(psum):
    work, dst, add = psum
    work.issue(Memset(dst, 100.0))
    add(1)
    assert dst.load().tolist() == [[1.0] * 8] * 4
    add(1)
    assert dst.load().tolist() == [[2.0] * 8] * 4


def test_accumulate_false_starts_again(psum):
    _, dst, add = psum
    add(5)
    add(3, accumulate=False)
    assert dst.load().tolist() == [[3.0] * 8] * 4
    add(1, accumulate=True)
    assert dst.load().tolist() == [[4.0] * 8] * 4


def test_accumulating_onto_unwritten_psum_is_undefined(psum):
    _, _, add = psum
    with pytest.raises(
        UndefinedBehavior, match=r"accumulate=True onto PSUM .* which nothing wrote"
    ):
        add(1, accumulate=True)
    add(1, accumulate=False, columns=(0, 4))
    with pytest.raises(UndefinedBehavior, match="nothing wrote"):
        add(1, accumulate=True, columns=(0, 5))
    add(1, accumulate=True, columns=(0, 4))


def test_accumulating_onto_a_memset_is_undefined_before_v4(bench, core_v2, core_v3, core_v4):
    for core in (core_v2, core_v3, core_v4):
        work = bench(core)
        dst = work.empty((4, 4), memory=PSUM)
        work.issue(Memset(dst, 10.0))
        ones = work.tile(np.ones((1, 4), np.float32))
        matmul = NcMatmul(dst, ones, ones, accumulate=True)
        if core is core_v4:
            assert work.issue(matmul).load().tolist() == [[11.0] * 4] * 4
            continue
        with pytest.raises(UndefinedBehavior, match="was set by another instruction") as caught:
            work.issue(matmul)
        assert core.name in str(caught.value)


def test_bfloat16_psum_rounds_at_each_write(bench, core_v4):
    work = bench(core_v4)
    ones = work.tile(np.ones((1, 4)), BFLOAT16)
    big, small = work.tile(np.full((1, 4), 256.0), BFLOAT16), work.tile(np.ones((1, 4)), BFLOAT16)
    dst, exact = work.empty((4, 4), BFLOAT16, PSUM), work.empty((4, 4), memory=PSUM)
    for moving in (big, small, small):
        work.issue(NcMatmul(dst, ones, moving))
        work.issue(NcMatmul(exact, ones, moving))
    assert dst.load()[0, 0] == 256  # 257 rounds to 256, twice
    assert exact.load()[0, 0] == 258


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
    with pytest.raises(IllegalInstruction, match="float8_e4m3 with float8_e4m3fn; legal: one of"):
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


@pytest.mark.parametrize(
    "options",
    [
        {"perf_mode": MatmulPerfMode.double_row},
        {"tile_size": (64, 128), "tile_position": (0, 0)},
        {"tile_position": (64, 0)},
    ],
)
def test_modes_that_are_not_emulated_say_so(bench, options):
    work = bench()
    with pytest.raises(IllegalInstruction, match="are not emulated yet"):
        shapes(work, **options).verify(work.core)


@pytest.mark.xfail(strict=True, reason="is_transpose multiplies, so one NaN spreads over a row")
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
        assert cost.latency_s * hz == pytest.approx(60 + 128)
        assert cost.flops == 2 * 128 * M * N
    assert instruction.chosen_engine(core) is Engine.tensor


def test_a_full_bfloat16_matmul_runs_at_the_peak_of_the_core(bench, core):
    work = bench(core, has_values=False)
    cost = work.cost(shapes(work, 128, 128, 512))
    peak = {2: 91.75e12, 3: 78.6e12, 4: 78.6e12}[core.generation]
    assert cost.flops / cost.interval_s == pytest.approx(peak, rel=1e-3)


# nc_transpose


@given(
    st.sampled_from([d for d in ALL if d.first_generation == 2]),
    st.sampled_from([(1, 1), (32, 7), (5, 32), (9, 2, 3)]),
)
def test_a_transpose_moves_bits_on_either_engine(bench, random, dtype, shape):
    work = bench()
    data = work.tile(np.abs(random(shape)) * 9, dtype)
    flat = data.array.reshape(shape[0], -1)
    for memory in (SBUF, PSUM):
        instruction = NcTranspose(work.empty(flat.T.shape, dtype, memory), data)
        assert instruction.chosen_engine(work.core) is (
            Engine.tensor if memory is PSUM else Engine.vector
        )
        dst = work.issue(instruction)
        assert dst.array.tobytes() == np.ascontiguousarray(flat.T).tobytes()


def test_a_transpose_keeps_nan_and_infinity(bench, core_v3):
    work = bench(core_v3)
    values = np.array([[np.nan, np.inf], [-np.inf, 1]], np.float32)
    dst = work.issue(NcTranspose(work.empty((2, 2), memory=PSUM), work.tile(values)))
    np.testing.assert_array_equal(dst.array, values.T)


def test_a_transpose_keeps_its_dtype(bench):
    work = bench()
    data = work.empty((4, 8), BFLOAT16)
    NcTranspose(work.empty((8, 4), BFLOAT16, PSUM), data).verify(work.core)
    with pytest.raises(
        IllegalInstruction, match=r"float32 and `data` is .* bfloat16; legal: equal"
    ):
        NcTranspose(work.empty((8, 4), FLOAT32, PSUM), data).verify(work.core)


@pytest.mark.parametrize(("memory", "limit"), [(PSUM, 128), (SBUF, 32)])
def test_an_engine_transposes_as_much_as_it_holds(bench, memory, limit):
    work = bench()
    NcTranspose(work.empty((limit, limit), memory=memory), work.empty((limit, limit))).verify(
        work.core
    )
    message = rf"at most \[{limit}, {limit}\]"
    over = limit + 1
    if over <= 128:
        with pytest.raises(IllegalInstruction, match=message):
            NcTranspose(work.empty((over, 4), memory=memory), work.empty((4, over))).verify(
                work.core
            )
    with pytest.raises(IllegalInstruction, match=message):
        NcTranspose(work.empty((4, 4), memory=memory), work.empty((4, 4))).check(
            work.core, Dims(P=4, F=over)
        )


def test_the_tensor_engine_transposes_from_sbuf_to_psum_only(bench):
    work = bench()
    sbuf, psum = work.empty((8, 8)), work.empty((8, 8), memory=PSUM)
    NcTranspose(psum, sbuf, Engine.tensor).verify(work.core)
    for dst, data in ((sbuf, sbuf), (psum, psum), (sbuf, psum)):
        NcTranspose(dst, data, Engine.vector).verify(work.core)
        with pytest.raises(IllegalInstruction, match="on the Tensor Engine; legal: SBUF to PSUM"):
            NcTranspose(dst, data, Engine.tensor).verify(work.core)


@pytest.mark.parametrize(("P", "F"), [(1, 1), (32, 32), (128, 128), (128, 16), (16, 128)])
def test_a_transpose_costs_a_row_a_cycle_on_the_tensor_engine(bench, core, P, F):
    work = bench(core, has_values=False)
    for dtype, passes in ((BFLOAT16, 1), (FLOAT32, 4)):
        instruction = NcTranspose(work.empty((F, P), dtype, PSUM), work.empty((P, F), dtype))
        found = work.cycles(instruction, core.tensor_clock_hz)
        assert found == pytest.approx(passes * max(P, min(64, F)))
    if max(P, F) <= 32:
        small = NcTranspose(work.empty((F, P)), work.empty((P, F)))
        assert work.cycles(small, core.vector_clock_hz) == pytest.approx(64)
