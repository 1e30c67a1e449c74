"""Tests of refusals of lengths that disagree."""

import pytest

from trnsim import dtypes
from trnsim.errors import IllegalInstruction
from trnsim.isa import Activation, NcMatmul, SetRngSeed, TensorCopy
from trnsim.memory import Memory


def refusal(instruction, core):
    with pytest.raises(IllegalInstruction) as caught:
        instruction.verify(core)
    return caught.value


def test_both_operands_and_the_shape_to_give_are_named(bench):
    work = bench()
    error = refusal(TensorCopy(work.empty((4, 6)), work.empty((4, 5))), work.core)
    assert "axis F is 6 elsewhere but 5 in `src`, which is SBUF [4, 5] float32; " in error.reason
    assert error.reason.endswith("it is 6 in `dst`, which is SBUF [4, 6] float32")
    assert error.fix == "give `src` the shape [P, F] with F = 6, or `dst` with F = 5"


def test_the_operand_that_has_the_axis_is_named_not_one_of_equal_length(bench):
    work = bench()
    psum = work.empty((8, 16), memory=Memory.PSUM)
    error = refusal(NcMatmul(psum, work.empty((4, 8)), work.empty((5, 16))), work.core)
    assert "axis K is 4 elsewhere but 5 in `moving`" in error.reason
    assert "it is 4 in `stationary`" in error.reason
    assert error.fix == "give `moving` the shape [K, N] with K = 4, or `stationary` with K = 5"


def test_an_operand_of_one_element_a_partition_may_be_a_number(bench):
    work = bench()
    data = work.empty((4, 6))
    error = refusal(Activation(data, "exp", data, bias=data), work.core)
    assert error.reason.endswith("axis 1 must be 1 but 6 in `bias`, which is SBUF [4, 6] float32")
    assert error.fix.startswith("give `bias` the shape [P, 1]")
    error = refusal(Activation(data, "exp", data, scale=work.empty((4, 2))), work.core)
    assert error.fix == "give `scale` the shape [P, 1], or pass a number"


def test_of_two_axes_of_one_the_longer_is_named(bench):
    work = bench()
    for shape, length in (((1, 2), 2), ((3, 1), 3)):
        error = refusal(SetRngSeed(work.empty(shape, dtypes.INT32)), work.core)
        assert f"axis 1 must be 1 but {length} in `src_seeds`" in error.reason
        assert error.fix == "give `src_seeds` the shape [1, 1]"
