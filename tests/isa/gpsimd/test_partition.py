"""tensor_partition_reduce: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3FN_X4, FLOAT32, INT32, UINT8, UINT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import TensorPartitionReduce
from trnsim.memory import Memory

EXACT = {"add": np.sum, "average": np.mean, "maximum": np.max}


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(EXACT)),
    st.sampled_from([(1, 1), (3, 5), (128, 2), (7, 2, 3)]),
    st.sampled_from([FLOAT32, BFLOAT16, INT32]),
)
def test_partitions_are_reduced_to_one(bench, random, op, shape, dtype):
    work = bench()
    data = work.tile(random(shape) * 10, dtype)
    dst = work.issue(TensorPartitionReduce(work.empty((1, *shape[1:])), op, data))
    expected = EXACT[op](data.load().astype(np.float64), axis=0, keepdims=True)
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-5, atol=1e-5)


def test_sums_are_rounded_once_on_write(bench):
    work = bench()
    data = work.tile(np.array([[256.0]] + [[0.25]] * 8), BFLOAT16)
    dst = work.issue(TensorPartitionReduce(work.empty((1, 1), BFLOAT16), "add", data))
    assert dst.load() == 258


@pytest.mark.parametrize(("op", "expected"), [("bitwise_or", 15), ("bitwise_and", 8)])
def test_bitvec_operators_reduce_bits_as_they_are_stored(bench, op, expected):
    work = bench()
    data = work.tile(np.array([[2**30 + 12], [2**30 + 10], [2**30 + 9]]), INT32)
    dst = work.issue(TensorPartitionReduce(work.empty((1, 1), INT32), op, data))
    assert dst.array.tolist() == [[2**30 + expected]]
    negative = work.tile(np.array([[-1], [-1]]), INT32)
    dst = work.issue(TensorPartitionReduce(work.empty((1, 1), UINT32), op, negative))
    assert dst.array.tolist() == [[2**32 - 1]]


def test_dst_may_be_the_first_partition_of_data(bench, random):
    work = bench()
    data = work.tile(random((4, 3)))
    expected = data.load().sum(axis=0)
    first = type(data)(data.storage, FLOAT32, data.pattern.slice(0, 0, 1))
    work.issue(TensorPartitionReduce(first, "add", data))
    np.testing.assert_allclose(first.load()[0], expected, rtol=1e-6)


def refused(work, message, **operands):
    operands = {"dst": work.empty((1, 5)), "op": "add", "data": work.empty((4, 5))} | operands
    with pytest.raises(IllegalInstruction, match=message) as caught:
        TensorPartitionReduce(**operands).verify(work.core)
    assert caught.value.fix


def test_only_five_operators_reduce_partitions(bench):
    refused(bench(), "op minimum; legal: add, average, maximum, bitwise", op="minimum")
    refused(bench(), "op multiply; legal: add", op="multiply")


def test_bitvec_operators_take_integers(bench, core_v4):
    work = bench(core_v4)
    data, dst = work.empty((4, 5), UINT8), work.empty((1, 5), UINT8)
    TensorPartitionReduce(dst, "bitwise_or", data).verify(work.core)
    refused(work, "bitwise_or with SBUF .* float32", op="bitwise_or", data=data)
    refused(work, "bitwise_and with SBUF .* float32", op="bitwise_and", dst=dst)
    packed = work.empty((4, 5), FLOAT8_E4M3FN_X4)
    refused(work, "bitwise_or with SBUF .*_x4", op="bitwise_or", data=packed, dst=dst)


def test_dst_is_one_partition_in_sbuf(bench):
    work = bench()
    refused(work, "must be 1 but 2 in `dst`", dst=work.empty((2, 5)))
    refused(work, "axis F is 4 elsewhere but 5", dst=work.empty((1, 4)))
    for name, shape in (("dst", (1, 5)), ("data", (4, 5))):
        refused(work, f"`{name}` is PSUM", **{name: work.empty(shape, memory=Memory.PSUM)})


@pytest.mark.parametrize("F", [1, 64, 700])
def test_it_costs_150_and_an_element_a_cycle(bench, core, F):
    work = bench(core)
    made = TensorPartitionReduce(work.empty((1, F)), "add", work.empty((4, F)))
    assert work.cycles(made, core.gpsimd_clock_hz) == pytest.approx(150 + F)
