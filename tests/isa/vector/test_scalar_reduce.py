"""tensor_scalar_reduce: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, UINT8
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import ReduceCmd, TensorScalarReduce
from trnsim.memory import Memory

RESET, KEEP, LOAD = ReduceCmd.reset_reduce, ReduceCmd.reduce, ReduceCmd.load_reduce
SHAPES = [(1, 1), (3, 7), (128, 2), (4, 2, 5)]
OPERATORS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "maximum": np.maximum,
}
REDUCTIONS = {
    "add": lambda x: x.sum(axis=1),
    "multiply": lambda x: x.prod(axis=1),
    "maximum": lambda x: x.max(axis=1),
    "minimum": lambda x: x.min(axis=1),
}


@given(
    op=st.sampled_from(sorted(OPERATORS)),
    reduce_op=st.sampled_from(sorted(REDUCTIONS)),
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from([FLOAT32, BFLOAT16, FLOAT16])] * 2),
    operand=st.one_of(st.just("vector"), st.floats(-2, 2, width=32)),
    negate=st.booleans(),
    memory=st.sampled_from([Memory.SBUF, Memory.PSUM]),
)
def test_it_is_tensor_scalar_and_a_reduction_of_its_float32_results(
    bench, random, op, reduce_op, shape, dtypes, operand, negate, memory
):
    work = bench()
    data = work.tile(random(shape), dtypes[0], memory)
    vector = random((shape[0], 1), seed=1)
    given_operand = work.tile(vector) if operand == "vector" else operand
    dst, result = work.empty(shape, dtypes[1]), work.empty((shape[0], 1))
    work.issue(
        TensorScalarReduce(
            dst, data, op, given_operand, reduce_op, result, reduce_res_negate=negate
        )
    )
    value = vector if operand == "vector" else operand
    expected = OPERATORS[op](data.load().astype(float).reshape(shape[0], -1), value)
    tolerance = {"float32": 1e-5, "bfloat16": 2**-8, "float16": 2**-10}[dst.dtype.name]
    np.testing.assert_allclose(dst.load(), expected.reshape(shape), rtol=tolerance, atol=1e-5)
    reduced = REDUCTIONS[reduce_op](expected)
    np.testing.assert_allclose(
        result.load()[:, 0], -reduced if negate else reduced, rtol=1e-5, atol=1e-5
    )


def test_a_chain_reduces_several_tiles_and_negates_only_what_it_writes(bench):
    work = bench()
    tiles = [work.tile(np.array([[x, x + 1]], "f4")) for x in (1.0, 5.0, 3.0)]
    dst, result = work.empty((1, 2)), work.empty((1, 1))
    work.issue(TensorScalarReduce(dst, tiles[0], "add", 0.0, "maximum"))
    negated = {"reduce_res": result, "reduce_cmd": KEEP, "reduce_res_negate": True}
    work.issue(TensorScalarReduce(dst, tiles[1], "add", 0.0, "maximum", **negated))
    assert result.load()[0, 0] == -6
    work.issue(TensorScalarReduce(dst, tiles[2], "add", 0.0, "maximum", result, reduce_cmd=KEEP))
    assert result.load()[0, 0] == 6


def test_load_reduce_starts_from_a_number_or_a_vector(bench):
    work = bench()
    data = work.tile(np.array([[1.0, 2.0], [3.0, 4.0]], "f4"))
    start = work.tile(np.array([[10.0], [20.0]], "f4"))
    for given_start, expected in ((start, [13, 27]), (100.0, [103, 107])):
        result = work.empty((2, 1))
        operands = {"reduce_res": result, "reduce_cmd": LOAD, "reduce_init": given_start}
        work.issue(TensorScalarReduce(work.empty((2, 2)), data, "add", 0.0, "add", **operands))
        assert result.load()[:, 0].tolist() == expected


def test_continuing_what_nothing_started_is_undefined(bench):
    work = bench()
    data, result = work.tile(np.ones((4, 2), "f4")), work.empty((4, 1))
    with pytest.raises(UndefinedBehavior, match="of the Vector Engine are read for 4 lanes"):
        work.issue(TensorScalarReduce(data, data, "add", 0.0, "add", result, reduce_cmd=KEEP))
    narrow = work.tile(np.ones((2, 2), "f4"))
    work.issue(TensorScalarReduce(narrow, narrow, "add", 0.0, "add"))
    with pytest.raises(UndefinedBehavior, match="not all of which an instruction has reset"):
        work.issue(TensorScalarReduce(data, data, "add", 0.0, "add", result, reduce_cmd=KEEP))


def test_a_unary_operator_takes_none_or_zero(bench):
    work = bench()
    data, result = work.tile(np.array([[-1.0, 2.0]], "f4")), work.empty((1, 1))
    for operand in (None, 0, 0.0):
        work.issue(TensorScalarReduce(work.empty((1, 2)), data, "abs", operand, "add", result))
        assert result.load()[0, 0] == 3
    work.issue(TensorScalarReduce(work.empty((1, 2)), data, None, None, "add", result))
    assert result.load()[0, 0] == 1
    refused(work, r"`operand0` is 1.0 with the unary operator abs", op0="abs")
    refused(work, "`operand0` is missing; add takes two operands", operand0=None)


def test_the_reduction_may_be_written_over_the_result(bench):
    work = bench()
    data = work.tile(np.array([[2.0], [3.0]], "f4"))
    dst = work.empty((2, 1))
    work.issue(TensorScalarReduce(dst, data, "multiply", 2.0, "add", dst))
    assert dst.load()[:, 0].tolist() == [4, 6]


def instruction(work, **operands):
    tile = work.empty((4, 8))
    given = {"dst": tile, "data": tile, "op0": "add", "operand0": 1.0, "reduce_op": "add"}
    return TensorScalarReduce(**(given | operands))


def refused(work, message, **operands):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        instruction(work, **operands).verify(work.core)
    assert caught.value.fix
    assert caught.value.source


def test_the_operator_is_arithmetic_and_its_operand_float32(bench):
    work = bench()
    instruction(work, operand0=work.empty((4, 1))).verify(work.core)
    refused(work, "`operand0` is .* bfloat16; legal", operand0=work.empty((4, 1), BFLOAT16))
    whole = work.empty((4, 8), UINT8)
    refused(work, "`op0` is bitvec; legal: arithmetic", op0="bitwise_and", dst=whole, data=whole)


def test_the_other_order_of_operands_is_not_supported(bench):
    instruction(bench(), reverse0=False).verify(bench().core)
    refused(bench(), "reverse0=True; legal: False", reverse0=True)


def test_four_operators_reduce(bench):
    work = bench()
    for reduce_op in REDUCTIONS:
        instruction(work, reduce_op=reduce_op).verify(work.core)
    for reduce_op in ("subtract", "abs_max", "logical_and"):
        refused(work, f"reduce_op {reduce_op}; legal: add, multiply, maximum", reduce_op=reduce_op)


@pytest.mark.parametrize("command", [ReduceCmd.idle, ReduceCmd.reset])
def test_it_always_reduces(bench, command):
    refused(bench(), f"reduce_cmd {command.name}; legal: reset_reduce, reduce", reduce_cmd=command)


def test_an_initial_value_comes_with_load_reduce_and_only_then(bench):
    work = bench()
    vector, narrow = work.empty((4, 1)), work.empty((4, 1), BFLOAT16)
    for start in (0.0, vector):
        instruction(work, reduce_cmd=LOAD, reduce_init=start).verify(work.core)
        refused(work, "reset_reduce with reduce_init .*; legal: load_reduce", reduce_init=start)
        message = "reduce_cmd reduce with reduce_init"
        refused(work, message, reduce_init=start, reduce_cmd=KEEP)
    refused(work, "load_reduce with reduce_init None", reduce_cmd=LOAD)
    refused(work, "`reduce_init` is .* bfloat16", reduce_cmd=LOAD, reduce_init=narrow)


@pytest.mark.parametrize("F", [1, 64, 65, 512])
def test_it_costs_a_cycle_an_element_and_64_more_to_read_the_result(bench, core, F):
    work = bench(core)
    tile = work.empty((4, F), BFLOAT16)
    kept = instruction(work, dst=tile, data=tile)
    written = instruction(work, dst=tile, data=tile, reduce_res=work.empty((4, 1)))
    hz = core.vector_clock_hz
    assert work.cycles(kept, hz) == pytest.approx(max(64, F))
    assert work.cycles(written, hz) == pytest.approx(max(64, F) + 64)
