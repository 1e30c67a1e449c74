"""tensor_reduce: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3FN_X4, FLOAT32, INT32, UINT8, UINT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import TensorReduce
from trnsim.memory import Memory

EXACT = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}


@given(
    op=st.sampled_from(sorted(EXACT)),
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=5),
    data=st.data(),
    negate=st.booleans(),
    memory=st.sampled_from([Memory.SBUF, Memory.PSUM]),
)
def test_the_last_free_axes_are_reduced(bench, random, op, shape, data, negate, memory):
    first = data.draw(st.integers(1, len(shape) - 1))
    axes = tuple(range(first, len(shape)))
    work = bench()
    source = work.tile(random(shape), BFLOAT16, memory)
    expected = EXACT[op](source.load().astype(np.float64), axis=axes)
    spelled = data.draw(st.sampled_from([axes, tuple(a - len(shape) for a in axes), axes[::-1]]))
    axis = axes[0] if len(axes) == 1 else spelled
    kept = shape[:first] if first > 1 else [*shape[:1], 1]
    dst = work.issue(TensorReduce(work.empty(kept), op, source, axis, negate))
    expected = -expected if negate else expected
    np.testing.assert_allclose(dst.load().ravel(), expected.ravel(), rtol=1e-5, atol=1e-5)


def test_subtract_reduces_from_left_to_right(bench):
    work = bench()
    data = work.tile(np.array([[10.0, 3, 2]], np.float32))
    assert work.issue(TensorReduce(work.empty((1, 1)), "subtract", data, 1)).load() == 5


@pytest.mark.parametrize(
    ("op", "expected"), [("logical_and", 0), ("logical_or", 1), ("logical_xor", 0)]
)
def test_logical_reductions_give_one_or_zero(bench, op, expected):
    work = bench()
    data = work.tile(np.array([[5.0, 0, -2]], np.float32))
    assert work.issue(TensorReduce(work.empty((1, 1)), op, data, 1)).load() == expected
    negated = work.issue(TensorReduce(work.empty((1, 1)), op, data, 1, negate=True))
    assert negated.load() == -expected


def test_bitvec_reductions_keep_all_bits(bench):
    work = bench()
    data = work.tile(np.array([[2**31 - 1, 2**30 + 1]]), INT32)
    dst = work.issue(TensorReduce(work.empty((1, 1), INT32), "bitwise_and", data, 1))
    assert dst.array.tolist() == [[2**30 + 1]]
    negative = work.tile(np.array([[-1, 1]]), INT32)
    dst = work.issue(TensorReduce(work.empty((1, 1), UINT32), "bitwise_or", negative, 1))
    assert dst.array.tolist() == [[2**32 - 1]]


def test_sums_are_taken_in_float32_and_rounded_once(bench):
    work = bench()
    data = work.tile(np.array([[256.0] + [0.25] * 8]), BFLOAT16)
    dst = work.issue(TensorReduce(work.empty((1, 1), BFLOAT16), "add", data, 1))
    assert dst.load() == 258


def refused(work, message, **operands):
    data = work.empty((4, 3, 5))
    operands = {"dst": work.empty((4, 3)), "op": "add", "data": data, "axis": 2} | operands
    with pytest.raises(IllegalInstruction, match=message) as caught:
        TensorReduce(**operands).verify(work.core)
    assert caught.value.fix


@pytest.mark.parametrize("axis", [0, (0, 1, 2), 1, (0,), (1, 1), (), 3, -3, (1, 2, 3), 4])
def test_other_axes_than_the_last_free_ones_are_refused(bench, axis):
    work = bench()
    TensorReduce(work.empty((4, 1)), "add", work.empty((4, 3, 5)), (1, 2)).verify(work.core)
    refused(work, r"axis=.* of data SBUF \[4, 3, 5\].*; legal: the last free axes", axis=axis)


def test_dst_holds_what_remains(bench):
    work = bench()
    data = work.empty((4, 3, 5))
    TensorReduce(work.empty((4, 3)), "add", data, 2).verify(work.core)
    TensorReduce(work.empty((4, 3, 1)), "add", data, 2, keepdims=True).verify(work.core)
    for shape in ((4, 1), (3, 3), (4, 5)):
        refused(work, "legal: 4 partitions x 3 elements", dst=work.empty(shape))


def test_an_operator_that_does_not_reduce_is_refused(bench):
    refused(bench(), "op power; legal: add, subtract, multiply, maximum", op="power")
    refused(bench(), "op exp; legal: add", op="exp")


def test_bitvec_reductions_take_integers_and_do_not_negate(bench, core_v4):
    work = bench(core_v4)
    whole, dst = work.empty((4, 3, 5), UINT8), work.empty((4, 3), UINT8)
    TensorReduce(dst, "bitwise_or", whole, 2).verify(work.core)
    refused(work, "bitvec operator bitwise_or with .* float32", op="bitwise_or", dst=dst)
    refused(work, "bitvec operator bitwise_or with .* float32", op="bitwise_or", data=whole)
    packed = work.empty((4, 3, 5), FLOAT8_E4M3FN_X4)
    refused(work, "bitwise_or with .*_x4", op="bitwise_or", data=packed, dst=dst)
    refused(work, "with negate=True", op="bitwise_or", data=whole, dst=dst, negate=True)


@pytest.mark.parametrize("F", [1, 64, 130, 1024])
def test_it_costs_an_element_a_cycle_and_half_for_sums_and_maxima_in_bfloat16(bench, core, F):
    work = bench(core)
    for dtype, op, cycles in (
        (FLOAT32, "add", F),
        (BFLOAT16, "add", F / 2),
        (BFLOAT16, "maximum", F / 2),
        (BFLOAT16, "minimum", F),
    ):
        instruction = TensorReduce(work.empty((4, 1), dtype), op, work.empty((4, F), dtype), 1)
        found = work.cycles(instruction, core.vector_clock_hz)
        assert found == pytest.approx(max(64, cycles))
    mixed = TensorReduce(work.empty((4, 1)), "add", work.empty((4, F), BFLOAT16), 1)
    assert work.cycles(mixed, core.vector_clock_hz) == pytest.approx(max(64, F))
