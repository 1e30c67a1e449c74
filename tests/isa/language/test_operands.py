"""Operators and operands of the Vector Engine's instructions: which are legal where."""

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT16, INT32, TFLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import TensorScalar, TensorTensor
from trnsim.isa.language.operands import BYPASS, apply, is_bypass, is_number
from trnsim.isa.language.operator_tables import ALU


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, TFLOAT32, INT32])
def test_an_operand_tile_of_arithmetic_must_be_float32(bench, dtype):
    work = bench()
    tile, vector, narrow = work.empty((4, 4)), work.empty((4, 1)), work.empty((4, 1), dtype)
    TensorScalar(tile, tile, "add", vector, op1="add", operand1=vector).verify(work.core)
    message = f"is SBUF .* {dtype}; legal: a number or a tile of float32"
    with pytest.raises(IllegalInstruction, match="`operand0` " + message):
        TensorScalar(tile, tile, "add", narrow).verify(work.core)
    with pytest.raises(IllegalInstruction, match="`operand1` " + message):
        TensorScalar(tile, tile, "add", 1.0, op1="add", operand1=narrow).verify(work.core)


@pytest.mark.parametrize(
    ("op", "fix"),
    [
        ("exp", "nisa.activation(op=nl.exp)"),
        ("divide", "multiply by the reciprocal"),
        ("matmul", "use an operator of nl"),
    ],
)
def test_the_fix_of_an_operator_that_the_engine_lacks_names_another_way(bench, op, fix):
    work = bench()
    tile = work.empty((4, 4))
    for made in (TensorScalar(tile, tile, op, 2.0), TensorTensor(tile, tile, tile, op)):
        with pytest.raises(IllegalInstruction, match=f"is {op}; legal: add, ") as caught:
            made.verify(work.core)
        assert fix in caught.value.fix


@pytest.mark.parametrize("op", ["abs_max", "abs_min", "square", "relu"])
def test_newer_operators_need_v4(bench, core_v3, core_v4, op):
    operand = 2.0 if op.startswith("abs_") else None
    for core, is_legal in ((core_v3, False), (core_v4, True)):
        work = bench(core)
        tile = work.empty((4, 4))
        for ops in ((op, operand, False, None, None), ("add", 1.0, False, op, operand)):
            instruction = TensorScalar(tile, tile, *ops)
            if is_legal:
                instruction.verify(core)
                continue
            message = f"is {op} on NeuronCore-v3; legal from NeuronCore-v4 on"
            with pytest.raises(IllegalInstruction, match=message):
                instruction.verify(core)


def test_abs_max_and_abs_min_keep_the_sign_and_give_the_operand_on_a_tie(bench, core_v4):
    work = bench(core_v4)
    data = work.tile(np.array([[-5.0, 1.0, 3.0]], np.float32))
    for op, expected in (("abs_max", [-5, -3, -3]), ("abs_min", [-3, 1, -3])):
        dst = work.issue(TensorScalar(work.empty((1, 3)), data, op, -3.0))
        assert dst.load().tolist() == [expected]


def test_no_operator_lets_the_data_pass(bench, core_v3, core_v4):
    work = bench(core_v4)
    data = work.tile(np.array([[-5.0, 2.5]], np.float32))
    for ops, expected in (
        ((None,), [-5, 2.5]),
        (("bypass",), [-5, 2.5]),
        ((None, None, False, "add", 1.0), [-4, 3.5]),
        (("add", 1.0, False, "bypass"), [-4, 3.5]),
    ):
        dst = work.issue(TensorScalar(work.empty((1, 2)), data, *ops))
        assert dst.load().tolist() == [expected]
    bits = work.tile(np.array([[6, 5]]), INT32)
    masked = TensorScalar(work.empty((1, 2), INT32), bits, None, None, False, "bitwise_and", 4)
    assert work.issue(masked).array.tolist() == [[4, 4]]
    with pytest.raises(IllegalInstruction, match=r"`operand0` is 1.0 without `op0`; legal: both"):
        TensorScalar(data, data, None, 1.0).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="`op0` is bypass on NeuronCore-v3"):
        TensorScalar(data, data, "bypass").verify(core_v3)
    with pytest.raises(IllegalInstruction, match="`op` is bypass; legal: add"):
        TensorTensor(data, data, data, "bypass").verify(core_v4)


def test_both_names_of_no_operator_are_known():
    assert is_bypass(None)
    assert is_bypass("bypass")
    assert not is_bypass("add")
    values = np.array([1.5, -2.0], np.float32)
    assert apply(BYPASS, values, 3.0, reverse=True).tolist() == [1.5, -2.0]


def test_reversing_swaps_the_sides_of_a_binary_operator():
    values = np.array([1.5, -2.0], np.float32)
    assert apply(ALU["subtract"], values, 1.0).tolist() == [0.5, -3.0]
    assert apply(ALU["subtract"], values, 1.0, reverse=True).tolist() == [-0.5, 3.0]


def test_a_number_is_an_int_or_a_float():
    assert is_number(1)
    assert is_number(1.5)
    assert not is_number("1")
    assert not is_number(None)
