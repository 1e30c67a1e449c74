"""Where kernels are easily wrong, or emulators: twenty traps, numbered as our notes number them.

Traps without a test here: 18 (collectives between ranks: tests/isa/collectives).
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import (
    BadInput,
    DataRace,
    IllegalInstruction,
    UndefinedBehavior,
    UninitializedRead,
)

A = np.arange(32, dtype=np.float32).reshape(4, 8)
CMD = nisa.reduce_cmd


def sbuf(shape, dtype=nl.float32, **kwargs):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, **kwargs)


def psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def returned(tile):
    """The tile in shared HBM; from PSUM by way of SBUF."""
    if nl.is_psum(tile.buffer):
        moved = sbuf(tile.shape, tile.dtype)
        nisa.tensor_copy(dst=moved, src=tile)
        tile = moved
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def outputs(body, *arrays, target="trn2"):
    """What a kernel with this body returns."""
    return trnsim.run(nki.jit(body), *arrays, target=target).outputs


def elementwise(instruction, dtype, *arrays, target="trn2"):
    """``instruction(dst, *tiles)`` with a dst like the first array in `dtype`."""

    def kernel(a, b=None):
        tiles = [nl.load(x) for x in (a, b) if x is not None]
        dst = sbuf(tiles[0].shape, dtype)
        instruction(dst, *tiles)
        return returned(dst)

    return outputs(kernel, *arrays, target=target)


def test_trap_01_the_first_matmul_overwrites_element_by_element():
    def kernel(a):
        tile, bank = nl.load(a), psum((8, 12))
        nisa.nc_matmul(dst=bank[:, 0:8], stationary=tile, moving=tile)
        nisa.nc_matmul(dst=bank[:, 4:12], stationary=tile, moving=tile)
        return returned(bank)

    once = A.T @ A
    expected = np.zeros((8, 12), np.float32)
    expected[:, 0:8] += once
    expected[:, 4:12] += once
    np.testing.assert_array_equal(outputs(kernel, A), expected)


@pytest.mark.parametrize(("accumulate", "times"), [(None, 2), (True, 2), (False, 1)])
def test_trap_01_a_second_matmul_accumulates_unless_told_otherwise(accumulate, times):
    def kernel(a):
        tile, bank = nl.load(a), psum((8, 8))
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile)
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile, accumulate=accumulate)
        return returned(bank)

    np.testing.assert_array_equal(outputs(kernel, A), times * (A.T @ A))


def test_trap_01_what_a_memset_wrote_is_no_first_matmul():
    def kernel(a):
        tile, bank = nl.load(a), psum((8, 8))
        nisa.memset(dst=bank, value=100.0)
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile)
        return returned(bank)

    np.testing.assert_array_equal(outputs(kernel, A), A.T @ A)


@pytest.mark.parametrize(
    ("engine", "expected"), [("gpsimd", 2**24 + 1), ("unknown", 2**24 + 1), ("vector", 2**24)]
)
def test_trap_02_integers_are_exact_on_gpsimd_and_float32_on_the_vector_engine(engine, expected):
    def add(dst, a, b):
        nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=nl.add, engine=nisa.engine[engine])

    a, b = np.full((4, 2), 2**24, np.int32), np.ones((4, 2), np.int32)
    assert (elementwise(add, nl.int32, a, b) == expected).all()


def test_trap_02_a_chain_is_rounded_once():
    def chain(dst, a):
        nisa.tensor_scalar(
            dst=dst, data=a, op0=nl.add, operand0=2.0**-9, op1=nl.subtract, operand1=1.0
        )

    one = np.ones((4, 2), ml_dtypes.bfloat16)
    assert (elementwise(chain, nl.bfloat16, one).astype(np.float32) == 2.0**-9).all()


def test_trap_02_copies_of_one_dtype_keep_every_bit():
    def copy(dst, a):
        nisa.tensor_copy(dst=dst, src=a)

    a = np.array([[2**24 + 1, 2**31 - 1, -(2**31)]], np.int32)
    np.testing.assert_array_equal(elementwise(copy, nl.int32, a), a)


def test_trap_03_immediates_are_float32_even_for_integers():
    def add(dst, a):
        nisa.tensor_scalar(dst=dst, data=a, op0=nl.add, operand0=0.5)

    a = np.array([[1, 2, 3]], np.int32)
    assert elementwise(add, nl.int32, a).tolist() == [[2, 2, 4]]


def test_trap_03_a_right_shift_is_logical():
    def shift(dst, a):
        nisa.tensor_scalar(dst=dst, data=a, op0=nl.right_shift, operand0=1)

    a = np.array([[-2, 4]], np.int32)
    assert elementwise(shift, nl.int32, a).tolist() == [[2**31 - 1, 2]]


def test_trap_03_bitwise_and_arithmetic_operators_do_not_mix():
    def mixed(dst, a):
        nisa.tensor_scalar(
            dst=dst, data=a, op0=nl.bitwise_and, operand0=1, op1=nl.add, operand1=1.0
        )

    with pytest.raises(IllegalInstruction, match="bitwise_and"):
        elementwise(mixed, nl.int32, np.array([[1, 2]], np.int32))


def test_trap_03_a_memset_takes_a_value_of_the_dtype():
    def kernel(a):
        nisa.memset(dst=sbuf((4, 4), nl.int32), value=2.0)
        return a

    with pytest.raises(IllegalInstruction, match=r"2\.0"):
        outputs(kernel, A)


def test_trap_04_a_reduction_spans_activations():
    def kernel(a):
        tile, dst, total = nl.load(a), sbuf(a.shape), sbuf((4, 1))
        for command in (CMD.reset_reduce, CMD.reduce):
            nisa.activation(
                dst=dst,
                op=nl.square,
                data=tile,
                scale=2.0,
                reduce_op=nl.add,
                reduce_res=total,
                reduce_cmd=command,
            )
        return returned(total)

    expected = 2 * ((2 * A) ** 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(outputs(kernel, A), expected, rtol=1e-6)


def test_trap_04_the_engines_accumulate_apart():
    def kernel(a):
        tile, dst, total = nl.load(a), sbuf(a.shape), sbuf((4, 1))
        nisa.activation(
            dst=dst,
            op=nl.copy,
            data=tile,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=CMD.reset_reduce,
        )
        nisa.tensor_scalar_reduce(
            dst=dst,
            data=tile,
            op0=nl.add,
            operand0=0.0,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=CMD.reduce,
        )

    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        outputs(kernel, A)


def test_trap_05_the_eight_largest_keep_duplicates():
    def kernel(a):
        dst = sbuf((1, 8))
        nisa.max8(dst=dst, src=nl.load(a))
        return returned(dst)

    a = np.float32([[3, 9, 9, 1, 2, 9, 4, 5, 6, 0]])
    assert outputs(kernel, a).tolist() == [[9, 9, 9, 6, 5, 4, 3, 2]]


def test_trap_06_the_two_fp8_formats_do_not_mix():
    def kernel(a, b):
        bank = psum((8, 8))
        nisa.nc_matmul(dst=bank, stationary=nl.load(a), moving=nl.load(b))

    a, b = A.astype(ml_dtypes.float8_e4m3), A.astype(ml_dtypes.float8_e4m3fn)
    with pytest.raises(IllegalInstruction, match="float8_e4m3"):
        outputs(kernel, a, b, target="trn3")


def test_trap_06_e4m3_ends_at_240_in_infinity_and_e4m3fn_at_448_without():
    def copy(dst, a):
        nisa.tensor_copy(dst=dst, src=a)

    a = np.float32([[240, 250, 300]])
    got = elementwise(copy, nl.float8_e4m3, a).astype(np.float32)
    assert got[0, 0] == 240
    assert got[0, 2] == np.inf
    ocp = elementwise(copy, nl.float8_e4m3fn, a, target="trn3").astype(np.float32)
    assert ocp[0].tolist() == [240, 256, 288]


def test_trap_07_a_transpose_does_not_cast():
    def transposing(dtype):
        def kernel(a):
            bank = psum((8, 4), dtype)
            nisa.nc_transpose(dst=bank, data=nl.load(a))
            return returned(bank)

        return kernel

    narrow = A.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(outputs(transposing(nl.bfloat16), narrow), narrow.T)
    with pytest.raises(IllegalInstruction, match="dtype"):
        outputs(transposing(nl.float32), narrow)


def test_trap_07_a_dma_transpose_wants_the_exact_rank():
    def kernel(a):
        nisa.dma_transpose(dst=sbuf((4, 3, 2)), src=a, axes=(3, 1, 2, 0))

    with pytest.raises(IllegalInstruction, match="dma_transpose"):
        outputs(kernel, np.ones((2, 1, 3, 4), np.float32))


@pytest.mark.parametrize(
    ("start", "rows", "is_legal"),
    [
        (0, 128, True),
        (32, 32, True),
        (96, 32, True),
        (32, 33, False),
        (64, 64, True),
        (64, 33, True),
        (32, 64, False),
        (16, 16, False),
    ],
)
def test_trap_08_start_partitions(start, rows, is_legal):
    def kernel(a):
        tile = nl.load(a)
        dst = sbuf((rows, 4))
        nisa.tensor_copy(dst=dst, src=tile[start : start + rows])
        return returned(dst)

    a = np.arange(512, dtype=np.float32).reshape(128, 4)
    if is_legal:
        np.testing.assert_array_equal(outputs(kernel, a), a[start : start + rows])
    else:
        with pytest.raises(IllegalInstruction, match=f"partition {start} and spans {rows}"):
            outputs(kernel, a)


def test_trap_09_an_access_pattern_starts_where_its_view_does():
    def kernel(a):
        dst = sbuf((2, 4))
        nisa.dma_copy(dst=dst, src=a[1:4, 2:6].ap([[8, 2], [1, 4]], offset=1))
        return returned(dst)

    np.testing.assert_array_equal(outputs(kernel, A), A[1:3, 3:7])


@pytest.mark.parametrize("mode", ["skip", "error"])
def test_trap_09_what_is_skipped_is_not_zeroed(mode):
    def kernel(a, rows):
        dst = sbuf((3, 8))
        nisa.memset(dst=dst, value=-1.0)
        source = a.ap([[8, 3], [1, 8]], vector_offset=nl.load(rows))
        nisa.dma_copy(dst=dst, src=source, oob_mode=nisa.oob_mode[mode])
        return returned(dst)

    rows = np.array([[3], [4], [0]], np.int32)
    if mode == "error":
        with pytest.raises(IllegalInstruction, match=r"index 4 .*; legal: 0 to 3"):
            outputs(kernel, A, rows)
    else:
        np.testing.assert_array_equal(outputs(kernel, A, rows), [A[3], [-1] * 8, A[0]])


def test_trap_10_each_quadrant_shuffles_for_itself_in_place_too():
    def kernel(a):
        tile = nl.load(a)
        nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[0] * 32)
        return returned(tile)

    a = np.arange(64 * 2, dtype=np.float32).reshape(64, 2)
    np.testing.assert_array_equal(outputs(kernel, a), np.repeat(a[::32], 32, axis=0))


def test_trap_10_predicates_are_unsigned():
    def kernel(a):
        tile = nl.load(a)
        nisa.tensor_copy_predicated(dst=tile, src=tile, predicate=tile)

    with pytest.raises(IllegalInstruction, match="predicate"):
        outputs(kernel, A)


def test_trap_11_the_variance_is_the_populations():
    def kernel(a):
        stats, both = sbuf((4, 6)), sbuf((4, 2))
        nisa.bn_stats(dst=stats, data=nl.load(a))
        nisa.bn_aggr(dst=both, data=stats)
        return returned(both)

    a = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    expected = np.stack([a.mean(axis=1), a.var(axis=1)], axis=1)
    np.testing.assert_allclose(outputs(kernel, a), expected, rtol=1e-5, atol=1e-6)


def test_trap_12_the_seed_is_one_number():
    def kernel(a):
        nl.random_seed(42)
        return a

    with pytest.raises(IllegalInstruction, match=r"random_seed\(42\); legal: a \[1, 1\] tile"):
        outputs(kernel, A)


def test_trap_12_random_numbers_repeat_from_run_to_run():
    def kernel(a):
        return returned(nl.rand(a.shape, nl.float32))

    first, second = (outputs(kernel, np.zeros((128, 64), np.float32)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert 0 <= first.min() < first.max() < 1
    assert abs(first.mean() - 0.5) < 0.02


@pytest.mark.parametrize("loop", [nl.affine_range, nl.sequential_range, nl.static_range])
def test_trap_13_loops_carry_what_the_body_writes(loop):
    def kernel(a):
        tile = nl.load(a)
        for _ in loop(3):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        return returned(tile)

    np.testing.assert_array_equal(outputs(kernel, A), 8 * A)


def test_trap_14_private_memory_is_not_shared():
    @nki.jit
    def kernel(a):
        box = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=box, src=a)
        nisa.core_barrier(a, (0, 1))
        nisa.dma_copy(dst=sbuf(a.shape), src=box)

    with pytest.raises(UninitializedRead):
        trnsim.run(kernel[2], A)


def test_trap_14_without_a_barrier_the_result_is_undefined():
    @nki.jit
    def kernel(a):
        box = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=box, src=nl.load(a))
        nisa.dma_copy(dst=sbuf(a.shape), src=box)

    with pytest.raises(DataRace):
        trnsim.run(kernel[2], A)


@pytest.mark.parametrize("grid", [0, 3, (2, 2), "2"])
def test_trap_14_the_grid_is_the_logical_core(grid):
    with pytest.raises(BadInput, match="legal: kernel"):
        nki.jit(returned)[grid]


@pytest.mark.parametrize("dtype", [nl.float32, nl.int32, nl.uint8])
def test_trap_15_what_nothing_wrote_is_no_value_of_any_dtype(dtype):
    def kernel(a):
        tile = sbuf((4, 8), dtype)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        return a

    with pytest.raises(
        UninitializedRead, match="some elements of which no instruction has written"
    ):
        outputs(kernel, A)


def test_trap_16_an_output_may_be_an_input():
    def kernel(a):
        nisa.dma_copy(dst=a, src=nl.multiply(nl.load(a), 2.0))
        return a

    given = A.copy()
    np.testing.assert_array_equal(outputs(kernel, given), 2 * A)
    np.testing.assert_array_equal(given, 2 * A)


def test_trap_16_a_shifted_copy_onto_itself_is_undefined():
    """Lanes read and write "in a deeply pipelined fashion" (trainium_inferentia2_arch.rst)."""

    def kernel(a):
        tile = nl.load(a)
        nisa.tensor_copy(dst=tile[:, 1:8], src=tile[:, 0:7])
        return returned(tile)

    with pytest.raises(UndefinedBehavior, match="AWS does not say which of them are read first"):
        outputs(kernel, A)


@pytest.mark.parametrize("columns", [512, 513])
def test_trap_17_a_matmul_writes_one_bank(columns):
    def kernel(a, b):
        bank = psum((8, columns))
        nisa.nc_matmul(dst=bank, stationary=nl.load(a), moving=nl.load(b))
        return returned(bank)

    b = np.ones((4, columns), np.float32)
    if columns == 512:
        np.testing.assert_array_equal(outputs(kernel, A, b), A.T @ b)
    else:
        with pytest.raises(IllegalInstruction, match=r"51[23]"):
            outputs(kernel, A, b)


def test_trap_19_assignment_copies_with_a_cast():
    def kernel(a):
        loaded, tile = nl.load(a), sbuf(a.shape, nl.bfloat16)
        tile[...] = loaded
        nisa.memset(dst=loaded, value=0.0)
        return returned(tile)

    found = outputs(kernel, A)
    np.testing.assert_array_equal(found, A.astype(found.dtype))


def test_trap_19_a_copy_is_a_copy():
    def kernel(a):
        tile = nl.load(a)
        kept = nl.copy(tile)
        nisa.memset(dst=tile, value=0.0)
        return returned(kept)

    np.testing.assert_array_equal(outputs(kernel, A), A)


def test_trap_19_the_same_kernel_sees_new_shapes_and_new_globals():
    factor = [2.0]

    @nki.jit
    def kernel(a):
        return returned(nl.multiply(nl.load(a), factor[0]))

    np.testing.assert_array_equal(kernel(A), 2 * A)
    factor[0] = 3.0
    np.testing.assert_array_equal(kernel(A[:2, :3].copy()), 3 * A[:2, :3])


@pytest.mark.parametrize("dtype", [nl.float32, nl.uint8, nl.bfloat16])
def test_trap_20_comparisons_give_one_and_zero_in_the_dtype_of_dst(dtype):
    def compare(dst, a):
        nisa.tensor_scalar(dst=dst, data=a, op0=nl.greater, operand0=10.0)

    got = elementwise(compare, dtype, A)
    np.testing.assert_array_equal(got.astype(np.float32), A > 10)


def test_trap_20_a_comparison_of_tensors_is_a_tile():
    def kernel(a):
        tile = nl.load(a)
        return returned(nl.equal(tile, tile))

    np.testing.assert_array_equal(outputs(kernel, A).astype(np.float32), np.ones_like(A))
