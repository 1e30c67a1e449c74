"""tensor_tensor_scan and tensor_scalar_cumulative: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT8_E4M3,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    TFLOAT32,
    UINT16,
    UINT32,
)
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import (
    Engine,
    Exponential,
    ReduceCmd,
    TensorScalarCumulative,
    TensorScalarReduce,
    TensorTensorScan,
)
from trnsim.memory import Memory

PSUM = Memory.PSUM
FLOATS = (FLOAT32, BFLOAT16, FLOAT16)
SHAPES = [(1, 1), (3, 7), (128, 2), (4, 2, 5)]
EXACT = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "maximum": max,
    "minimum": min,
}
operators = st.sampled_from(sorted(EXACT))


def scanned(op0, op1, data0, data1, initial, reverse0=False, reverse1=False):
    """AWS's pseudo code, element by element in Python's floats."""
    result = np.zeros(data0.shape)
    for p in range(len(data0)):
        state = float(initial[p])
        for i in range(data0.shape[1]):
            x, y = float(data0[p, i]), float(data1[p, i])
            state = EXACT[op0](state, x) if reverse0 else EXACT[op0](x, state)
            state = EXACT[op1](y, state) if reverse1 else EXACT[op1](state, y)
            result[p, i] = state
    return result


def check_close(dst, expected):
    tolerance = {"float32": 1e-4, "bfloat16": 2**-7, "float16": 2**-9}[dst.dtype.name]
    expected = expected.reshape(dst.shape)
    np.testing.assert_allclose(dst.load(), expected, rtol=tolerance, atol=1e-3)


# tensor_tensor_scan


@given(
    ops=st.tuples(operators, operators),
    reverse=st.tuples(st.booleans(), st.booleans()),
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from(FLOATS)] * 3),
    initial=st.one_of(st.just("vector"), st.floats(-2, 2, width=32)),
)
def test_a_scan_carries_each_result_to_the_next_element(
    bench, random, ops, reverse, shape, dtypes, initial
):
    work = bench()
    tiles = [work.tile(random(shape, seed=s) / 2, dtypes[s]) for s in (0, 1)]
    vector = random((shape[0], 1), seed=2)
    start = work.tile(vector) if initial == "vector" else initial
    dst = work.empty(shape, dtypes[2])
    work.issue(TensorTensorScan(dst, *tiles, start, *ops, *reverse))
    data0, data1 = (tile.load().reshape(shape[0], -1) for tile in tiles)
    first = vector[:, 0] if initial == "vector" else [initial] * shape[0]
    check_close(dst, scanned(*ops, data0, data1, first, *reverse))


def test_comparisons_scan_too(bench):
    work = bench()
    data, ones = work.tile(np.array([[3.0, -1.0, 0.5]], "f4")), work.tile(np.ones((1, 3), "f4"))
    dst = work.issue(TensorTensorScan(work.empty((1, 3)), data, ones, 0.0, "greater", "add"))
    assert dst.load().tolist() == [[2, 1, 1]]


def test_sums_with_ones_are_those_of_the_general_case_bit_for_bit(bench, random):
    work = bench()
    ones, data = np.ones((8, 300), np.float32), random((8, 300))
    almost = ones.copy()
    almost[0, 0] = 2.0  # which the initial zero hides
    fast, slow = (
        work.issue(
            TensorTensorScan(
                work.empty((8, 300)), work.tile(x), work.tile(data), 0.0, "multiply", "add"
            )
        ).array
        for x in (ones, almost)
    )
    np.testing.assert_array_equal(fast, slow)
    sequential = np.zeros(8, np.float32)
    for i in range(300):
        sequential = sequential + data[:, i]
    np.testing.assert_array_equal(fast[:, -1], sequential)


def test_what_is_carried_is_not_rounded_to_the_dtype_of_dst(bench):
    work = bench()
    ones, data = work.tile(np.ones((1, 300), "f4")), work.tile(np.ones((1, 300), "f4"))
    dst = work.empty((1, 300), BFLOAT16)
    work.issue(TensorTensorScan(dst, ones, data, 0.0, "multiply", "add"))
    assert dst.load()[0, -1] == 300  # a bfloat16 sum would stop at 256


def test_a_scan_may_replace_its_input(bench, random):
    work = bench()
    a, b = random((4, 9)), random((4, 9), seed=1)
    for which in (0, 1):
        tiles = [work.tile(a), work.tile(b)]
        work.issue(TensorTensorScan(tiles[which], *tiles, 0.5, "multiply", "add"))
        check_close(tiles[which], scanned("multiply", "add", a, b, [0.5] * 4))


def test_a_scan_leaves_its_inputs_alone(bench, random):
    work = bench()
    a, b = work.tile(random((1, 9))), work.tile(random((1, 9), seed=1))
    work.issue(TensorTensorScan(work.empty((1, 9)), a, b, 0.5, "multiply", "add"))
    np.testing.assert_array_equal(a.array, random((1, 9)))
    np.testing.assert_array_equal(b.array, random((1, 9), seed=1))


def test_at_most_one_input_of_a_scan_is_in_psum(bench):
    work = bench()
    sbuf, psum = work.empty((4, 4)), work.empty((4, 4), memory=PSUM)
    for inputs in ((sbuf, sbuf), (sbuf, psum), (psum, sbuf)):
        TensorTensorScan(psum, *inputs, 0.0, "multiply", "add").verify(work.core)
    with pytest.raises(
        IllegalInstruction, match="data0 and data1 are both in PSUM; legal: at most"
    ):
        TensorTensorScan(sbuf, psum, psum, 0.0, "multiply", "add").verify(work.core)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("bitwise_and", "is bitvec; legal: arithmetic"),
        ("abs", "is abs, which takes one operand; legal: a binary operator"),
        ("divide", "is divide; legal: add, subtract, multiply"),
        ("bypass", "is bypass; legal: add, subtract, multiply"),
    ],
)
def test_a_scan_takes_binary_arithmetic_operators(bench, core_v4, op, message):
    work = bench(core_v4)
    tile = work.empty((4, 4))
    for ops in ((op, "add"), ("add", op)):
        with pytest.raises(IllegalInstruction, match=message):
            TensorTensorScan(tile, tile, tile, 0.0, *ops).verify(work.core)


def test_a_scan_starts_from_a_number_or_a_vector(bench):
    work = bench()
    tile = work.empty((4, 4))
    TensorTensorScan(tile, tile, tile, work.empty((4, 1), BFLOAT16), "add", "add").verify(work.core)
    with pytest.raises(IllegalInstruction, match="axis 1 must be 1 but 4 in `initial`"):
        TensorTensorScan(tile, tile, tile, tile, "add", "add").verify(work.core)
    with pytest.raises(IllegalInstruction, match="`initial` is NoneType; legal: a tensor or a num"):
        TensorTensorScan(tile, tile, tile, None, "add", "add").verify(work.core)


@pytest.mark.parametrize("F", [1, 32, 33, 512])
def test_a_scan_costs_two_cycles_an_element(bench, core, F):
    work = bench(core)
    tile = work.empty((4, F), BFLOAT16)
    instruction = TensorTensorScan(tile, tile, tile, 0.0, "multiply", "add")
    assert work.cycles(instruction, core.vector_clock_hz) == pytest.approx(max(64, 2 * F))
    assert instruction.chosen_engine(core) is Engine.vector


# tensor_scalar_cumulative


def cumulated(op0, op1, values, imm0, start):
    """AWS's pseudo code."""
    result = np.zeros(values.shape)
    for p, row in enumerate(values):
        register = float(start[p])
        for i, value in enumerate(row):
            register = EXACT[op1](EXACT[op0](float(value), float(imm0[p])), register)
            result[p, i] = register
    return result


IDENTITIES = {
    "add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf,
}  # fmt: skip


@given(
    ops=st.tuples(operators, operators),
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from(FLOATS)] * 2),
    as_vector=st.booleans(),
    loads=st.booleans(),
)
def test_it_accumulates_along_the_free_axis(bench, random, ops, shape, dtypes, as_vector, loads):
    work = bench()
    src = work.tile(random(shape), dtypes[0])
    imm0, imm1 = random((shape[0], 1), seed=1), random((shape[0], 1), seed=2)
    imm0, imm1 = (x if as_vector else np.full_like(x, x[0, 0]) for x in (imm0, imm1))
    operands = [work.tile(x) if as_vector else float(x[0, 0]) for x in (imm0, imm1)]
    command = ReduceCmd.load_reduce if loads else ReduceCmd.reset_reduce
    dst = work.empty(shape, dtypes[1])
    work.issue(TensorScalarCumulative(dst, src, *ops, *operands, command))
    start = imm1[:, 0] if loads else [IDENTITIES[ops[1]]] * shape[0]
    values = src.load().reshape(shape[0], -1)
    check_close(dst, cumulated(*ops, values, imm0[:, 0], start))


def test_it_continues_where_another_instruction_left_the_registers(bench):
    work = bench()
    src = work.tile(np.array([[1.0, 2.0]], "f4"))
    dst = work.empty((1, 2))
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        work.issue(TensorScalarCumulative(dst, src, "add", "add", 0.0, None, ReduceCmd.reduce))
    work.issue(TensorScalarReduce(dst, src, "multiply", 1.0, "add"))
    work.issue(TensorScalarCumulative(dst, src, "add", "add", 0.0, None, ReduceCmd.reduce))
    assert dst.load().tolist() == [[4, 6]]
    work.issue(TensorScalarCumulative(dst, src, "add", "maximum", 0.0, None, ReduceCmd.reduce))
    assert dst.load().tolist() == [[6, 6]]
    work.issue(TensorScalarCumulative(dst, src, "add", "multiply", 0.0))
    assert dst.load().tolist() == [[1, 2]]


def test_an_idle_exponential_takes_the_registers_away(bench, core_v4):
    work = bench(core_v4)
    src, dst = work.tile(np.ones((1, 2), "f4")), work.empty((1, 2))
    work.issue(TensorScalarCumulative(dst, src, "add", "add", 0.0))
    work.issue(Exponential(work.empty((1, 2)), src))
    with pytest.raises(UndefinedBehavior, match="not all of which an instruction has reset"):
        work.issue(TensorScalarCumulative(dst, src, "add", "add", 0.0, None, ReduceCmd.reduce))


def accumulating(work, **operands):
    tile = work.empty((4, 8))
    given = {"dst": tile, "src": tile, "op0": "add", "op1": "add", "imm0": 1.0} | operands
    return TensorScalarCumulative(**given)


def test_32_bit_integers_are_not_accumulated(bench):
    work = bench()
    for dtype in (BFLOAT16, FLOAT16, FLOAT8_E4M3, UINT16, INT8):
        tile = work.empty((4, 8), dtype)
        accumulating(work, dst=tile, src=tile).verify(work.core)
    for dtype in (INT32, UINT32, TFLOAT32, BOOL):
        for field in ("dst", "src"):
            operands = {field: work.empty((4, 8), dtype)}
            with pytest.raises(IllegalInstruction, match=f"`{field}` is .*; legal dtypes: float32"):
                accumulating(work, **operands).verify(work.core)


def test_five_operators_accumulate(bench):
    work = bench()
    for op1 in EXACT:
        accumulating(work, op1=op1).verify(work.core)
    for op1 in ("greater", "abs", "bitwise_or"):
        with pytest.raises(IllegalInstruction, match=f"op1 {op1}; legal: add, multiply, maximum"):
            accumulating(work, op1=op1).verify(work.core)
    with pytest.raises(IllegalInstruction, match="`op0` is bitvec; legal: arithmetic"):
        accumulating(work, op0="bitwise_or").verify(work.core)


def test_its_operands_are_numbers_or_float32(bench):
    work = bench()
    vector, narrow = work.empty((4, 1)), work.empty((4, 1), BFLOAT16)
    load = ReduceCmd.load_reduce
    accumulating(work, imm0=vector, imm1=vector, reduce_cmd=load).verify(work.core)
    for field in ("imm0", "imm1"):
        operands = {"imm1": vector, "reduce_cmd": load} | {field: narrow}
        with pytest.raises(IllegalInstruction, match=f"`{field}` is .* bfloat16; legal: a number"):
            accumulating(work, **operands).verify(work.core)
    with pytest.raises(IllegalInstruction, match="load_reduce without imm1; legal: a number or"):
        accumulating(work, reduce_cmd=load).verify(work.core)


@pytest.mark.parametrize("command", [ReduceCmd.idle, ReduceCmd.reset])
def test_it_always_accumulates(bench, command):
    message = f"reduce_cmd {command.name}; legal: reset_reduce, reduce, load_reduce"
    with pytest.raises(IllegalInstruction, match=message):
        accumulating(bench(), reduce_cmd=command).verify(bench().core)


@pytest.mark.parametrize("F", [1, 64, 65, 512])
def test_it_costs_a_cycle_an_element(bench, core, F):
    work = bench(core)
    tile = work.empty((4, F))
    instruction = accumulating(work, dst=tile, src=tile)
    assert work.cycles(instruction, core.vector_clock_hz) == pytest.approx(max(64, F))
