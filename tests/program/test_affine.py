"""Affine steps: which instructions are executed together, and that nobody can tell."""

# nki: 0.5

import numpy as np
import pytest

import trnsim
from trnsim.errors import EmulatorError
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program.affine import MOST_BYTES, without_affine_steps

P, WIDTH = 32, 8
SPECIAL = np.array([np.nan, -np.nan, np.inf, -0.0, 0.0, 1e-41], np.float32)


def sbuf(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def hbm(*shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)


def doubled(src, dst):
    """Loads, doubles and stores rows: three instructions."""
    tile = sbuf(*src.shape)
    nisa.dma_copy(dst=tile, src=src)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=dst, src=tile)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def together(kernel, *arrays, others=()):
    """The number of instructions in steps, where results with and without are equal."""
    replay = trnsim.record(kernel, *(array.copy() for array in arrays))
    for inputs in (arrays, *others):
        outcomes = []
        for context in (None, without_affine_steps()):
            copies = [array.copy() for array in inputs]
            try:
                if context is None:
                    outputs = replay(*copies).outputs
                else:
                    with context:
                        outputs = replay(*copies).outputs
            except EmulatorError as error:
                outputs = np.frombuffer(f"{error} {error.line}".encode(), np.uint8)
            outcomes.append([array.tobytes() for array in (outputs, *copies)])
        assert outcomes[0] == outcomes[1]
    return sum(recording.saved_steps for recording in replay.recordings)


def rows_kernel(starts):
    """Doubles P rows from each of `starts` on, and stores them one tile after the other."""

    @jit
    def kernel(x):
        out = hbm(len(starts) * P, x.shape[1])
        for number, start in enumerate(starts):
            doubled(x[start : start + P], out[number * P : (number + 1) * P])
        return out

    return kernel


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ((0,), 0),
        ((0, 32), 3 * 1),
        ((0, 32, 64, 96), 3 * 3),
        ((5, 5, 5), 3 * 2),  # stride 0
        ((90, 60, 30, 0), 3 * 3),  # a negative stride
        ((0, 1, 2, 3), 3 * 3),  # turns that read the same rows
        ((0, 32, 65), 2 * 2 + 1),  # the third load is single
    ],
)
def test_turns_of_a_loop_are_one_step(starts, expected):
    special = normal(128, WIDTH)
    special[:, : SPECIAL.size] = SPECIAL
    assert together(rows_kernel(starts), normal(128, WIDTH), others=[[special]]) == expected


@pytest.mark.parametrize(("distance", "expected"), [(WIDTH, 2 * 4), (WIDTH - 1, 4)])
def test_results_that_overlap_by_an_element_keep_their_order(distance, expected):
    @jit
    def kernel(x):
        wide, out = sbuf(P, 5 * WIDTH), hbm(P, 5 * WIDTH)
        nisa.memset(dst=wide, value=0.0)
        for turn in range(5):
            tile = sbuf(P, WIDTH)
            nisa.dma_copy(dst=tile, src=x[turn * P : (turn + 1) * P])
            place = turn * distance
            nisa.tensor_copy(dst=wide[:, place : place + WIDTH], src=tile)
        nisa.dma_copy(dst=out, src=wide)
        return out

    assert together(kernel, normal(5 * P, WIDTH)) == expected


@pytest.mark.parametrize("shift", [0, 1, -1])
def test_a_turn_that_reads_what_another_wrote_comes_after_it(shift):
    @jit
    def kernel(x):
        wide, out = sbuf(P, 8 * WIDTH), hbm(P, 8 * WIDTH)
        nisa.dma_copy(dst=wide, src=x)
        for turn in range(1, 6):
            src = wide[:, (turn + shift) * WIDTH : (turn + shift + 1) * WIDTH]
            dst = wide[:, turn * WIDTH : (turn + 1) * WIDTH]
            nisa.tensor_scalar(dst=dst, data=src, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=wide)
        return out

    assert together(kernel, normal(P, 8 * WIDTH)) == (4 if shift == 0 else 0)


def test_one_tile_for_all_turns_falls_back():
    @jit
    def kernel(x):
        out, tile = hbm(*x.shape), sbuf(P, WIDTH)
        for row in range(0, x.shape[0], P):
            nisa.dma_copy(dst=tile, src=x[row : row + P])
            nisa.dma_copy(dst=out[row : row + P], src=tile)
        return out

    assert together(kernel, normal(4 * P, WIDTH)) == 0


def test_a_shorter_last_tile_is_on_its_own():
    @jit
    def kernel(x):
        out = hbm(*x.shape)
        for row in range(0, x.shape[0], P):
            end = min(row + P, x.shape[0])
            doubled(x[row:end], out[row:end])
        return out

    assert together(kernel, normal(3 * P + 7, WIDTH)) == 3 * 2


def test_numbers_that_are_equal_but_not_the_same_are_not_together():
    @jit
    def kernel(x):
        out = hbm(4 * P, WIDTH)
        tile = sbuf(P, WIDTH)
        nisa.dma_copy(dst=tile, src=x)
        for turn, number in enumerate((0.0, -0.0, 0.0, -0.0)):
            scaled = sbuf(P, WIDTH)
            nisa.tensor_scalar(dst=scaled, data=tile, op0=nl.multiply, operand0=number)
            nisa.dma_copy(dst=out[turn * P : (turn + 1) * P], src=scaled)
        return out

    assert together(kernel, normal(P, WIDTH)) in {2, 4}  # a turn has both


def test_an_input_that_is_written_and_given_twice():
    @jit
    def kernel(x, kept):
        for row in range(0, x.shape[0] - P, P):
            doubled(x[row : row + P], kept[row + P : row + 2 * P])
        out = hbm(P, WIDTH)
        doubled(kept[0:P], out)
        return out

    x = normal(4 * P, WIDTH)
    replay = trnsim.record(kernel, x.copy(), x.copy())
    assert (
        replay.recordings[0].saved_steps == 2 + 3 + 2
    )  # the turn after the loop has the same form
    whole, expected = x.copy(), x.copy()
    replay(whole, whole)
    for turn in range(1, 4):
        expected[turn * P : (turn + 1) * P] = 2 * expected[(turn - 1) * P : turn * P]
    np.testing.assert_array_equal(whole, expected)
    parts = np.concatenate([x, x])  # two inputs that overlap by a part
    replay(parts[: 4 * P], parts[P : 5 * P])
    expected = np.concatenate([x, x])
    for row in range(0, 3 * P, P):
        expected[2 * P + row : 3 * P + row] = 2 * expected[row : row + P]
    np.testing.assert_array_equal(parts, expected)


@pytest.mark.parametrize("reads", [False, True])
def test_the_accumulator_of_an_engine_is_left_only_where_nothing_reads_it(reads):
    @jit
    def kernel(x):
        out = hbm(4 * P, 1)
        for turn in range(4):
            tile, sums = sbuf(P, WIDTH), sbuf(P, 1)
            nisa.dma_copy(dst=tile, src=x[turn * P : (turn + 1) * P])
            command = nisa.reduce_cmd.reset_reduce
            nisa.activation(
                dst=tile, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=sums,
                reduce_cmd=command,
            )  # fmt: skip
            nisa.dma_copy(dst=out[turn * P : (turn + 1) * P], src=sums)
        if reads:
            nisa.activation(
                dst=tile, op=nl.copy, data=tile, reduce_op=nl.add, reduce_res=sums,
                reduce_cmd=nisa.reduce_cmd.reduce,
            )  # fmt: skip
            nisa.dma_copy(dst=out[0:P], src=sums)
        return out

    assert together(kernel, normal(4 * P, WIDTH)) == (0 if reads else 9)


def test_sums_in_psum_keep_their_order():
    @jit
    def kernel(x):
        sums, out = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.psum), hbm(P, WIDTH)
        for turn in range(4):
            tile = sbuf(P, WIDTH)
            nisa.dma_copy(dst=tile, src=x[turn * P : (turn + 1) * P, 0:WIDTH])
            square = sbuf(P, P)
            nisa.dma_copy(dst=square, src=x[turn * P : (turn + 1) * P, 0:P])
            nisa.nc_matmul(dst=sums, stationary=square, moving=tile)
        result = sbuf(P, WIDTH)
        nisa.tensor_copy(dst=result, src=sums)
        nisa.dma_copy(dst=out, src=result)
        return out

    assert together(kernel, normal(4 * P, P)) == 2 * 3


def gathering(table, indices):
    out = hbm(indices.shape[0], table.shape[1])
    for row in range(0, indices.shape[0], P):
        index, tile = sbuf(P, 1, dtype=nl.int32), sbuf(P, WIDTH)
        nisa.dma_copy(dst=index, src=indices[row : row + P])
        source = table.ap([[WIDTH, P], [1, WIDTH]], vector_offset=index)
        nisa.dma_copy(dst=tile, src=source)
        nisa.dma_copy(dst=out[row : row + P], src=tile)
    return out


@pytest.mark.parametrize("index", [-1, 4 * P, 2**31 - 1])
def test_rows_by_index_and_the_first_index_out_of_bounds(index):
    table = normal(4 * P, WIDTH)
    legal = np.arange(4 * P, dtype=np.int32)[::-1].reshape(-1, 1).copy()
    wrong = legal.copy()
    wrong[2 * P + 3] = index
    assert together(jit(gathering), table, legal, others=[(table, wrong)]) == 9


def test_a_gather_is_on_its_own_where_inputs_are_written():
    @jit
    def kernel(table, indices):
        out = gathering(table, indices)
        doubled(out[0:P], table[0:P])
        return out

    indices = np.zeros((4 * P, 1), np.int32)
    wrong = indices.copy()
    wrong[-1] = 4 * P
    table = normal(4 * P, WIDTH)
    assert together(kernel, table, indices, others=[(table, wrong)]) == 0


@pytest.mark.parametrize("function", [nl.sqrt, nl.rsqrt])
def test_an_illegal_value_is_that_of_the_first_instruction(function):
    @jit
    def kernel(x):
        out = hbm(*x.shape)
        for row in range(0, x.shape[0], P):
            tile = sbuf(P, WIDTH)
            nisa.dma_copy(dst=tile, src=x[row : row + P])
            nisa.activation(dst=tile, op=function, data=tile)
            nisa.dma_copy(dst=out[row : row + P], src=tile)
        return out

    legal = np.abs(normal(4 * P, WIDTH)) + 1
    wrong = legal.copy()
    wrong[P, 3], wrong[2 * P, 0] = -2, -3
    assert together(kernel, legal, others=[[wrong]]) == 9


@pytest.mark.parametrize("columns", [1 << 12, (1 << 12) + 1])
def test_tiles_that_fill_the_cache_are_on_their_own(columns):
    rows = MOST_BYTES // (1 << 15)  # two tiles of 4,096 columns have the most bytes

    @jit
    def kernel(x):
        out = hbm(*x.shape)
        for row in range(0, x.shape[0], rows):
            doubled(x[row : row + rows], out[row : row + rows])
        return out

    assert together(kernel, normal(4 * rows, columns)) == (6 if columns == 1 << 12 else 0)


def test_two_cores_have_steps_between_their_meetings():
    @jit
    def kernel(x):
        core, out = nl.program_id(0), hbm(*x.shape)
        for turn in range(4):
            row = (4 * core + turn) * P
            doubled(x[row : row + P], out[row : row + P])
        nisa.core_barrier(out, (0, 1))
        for turn in range(4):
            row = (4 * (1 - core) + turn) * P
            doubled(out[row : row + P], out[row : row + P])
        return out

    x = normal(8 * P, WIDTH)
    assert together(kernel[2], x) == 2 * 2 * 9
    np.testing.assert_array_equal(trnsim.record(kernel[2], x)(x).outputs, 4 * x)
