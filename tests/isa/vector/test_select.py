"""tensor_copy_predicated, select_reduce, range_select: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    TFLOAT32,
    UINT8,
    UINT16,
    UINT32,
)
from trnsim.errors import IllegalInstruction, UndefinedBehavior, UninitializedRead
from trnsim.isa import (
    RangeSelect,
    Reciprocal,
    ReduceCmd,
    SelectReduce,
    TensorCopy,
    TensorCopyPredicated,
    TensorReduce,
    TensorScalarReduce,
)
from trnsim.memory import Memory, Tile

PSUM = Memory.PSUM
RESET, KEEP = ReduceCmd.reset_reduce, ReduceCmd.reduce
FLOATS = (FLOAT32, BFLOAT16, FLOAT16)
SHAPES = [(1, 1), (3, 7), (128, 2), (4, 2, 5)]
FP32_MIN = -3.4028235e38


def mask_of(shape, seed=9):
    """Zeros, ones and other numbers that are true."""
    return np.random.default_rng(seed).choice([0, 0, 1, 2, 7], shape)


# tensor_copy_predicated


@given(
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from([*FLOATS, INT8, INT32, UINT8]),
    kind=st.sampled_from([UINT8, UINT16, UINT32, BOOL]),
    reverse=st.booleans(),
    as_number=st.booleans(),
)
def test_a_predicated_copy_takes_src_where_the_predicate_holds(
    bench, random, shape, dtype, kind, reverse, as_number
):
    work = bench()
    src, dst = work.tile(random(shape) * 9, dtype), work.tile(random(shape, seed=1) * 9, dtype)
    mask = mask_of(shape)
    before, copied = dst.array.copy(), np.full(shape, 3) if as_number else src.array.copy()
    predicate = work.tile(mask, kind)
    work.issue(TensorCopyPredicated(dst, 3.0 if as_number else src, predicate, reverse))
    for place in np.ndindex(shape):
        expected = copied[place] if (mask[place] != 0) != reverse else before[place]
        assert dst.array[place] == expected


def test_a_predicated_copy_keeps_every_bit(bench):
    work = bench()
    bits = np.array([[0x7F800001, 0x80000000, 2**31 - 1]], np.uint32).view(np.int32)
    src, dst = work.tile(bits, INT32), work.tile(np.zeros((1, 3)), INT32)
    work.issue(TensorCopyPredicated(dst, src, work.tile(np.ones((1, 3)), UINT8)))
    assert dst.array.tolist() == bits.tolist()


def test_operands_of_other_rank_but_equal_free_size_are_legal(bench, random):
    # Release notes of NKI 0.6.0: "operands with mismatched ranks but matching free-element counts"
    work = bench()
    src, mask = random((4, 24)), mask_of((4, 2, 3, 4))
    dst, predicate = work.tile(np.zeros((4, 2, 3, 4), "f4")), work.tile(mask, UINT8)
    work.issue(TensorCopyPredicated(dst, work.tile(src), predicate))
    np.testing.assert_array_equal(dst.array, np.where(mask, src.reshape(mask.shape), 0))
    chosen = work.issue(SelectReduce(work.empty((4, 6, 4)), predicate, work.tile(src), -1.0))
    expected = np.where(mask.reshape(4, 24), src, -1).reshape(4, 6, 4)
    np.testing.assert_array_equal(chosen.array, expected.astype(np.float32))


def test_two_predicated_copies_write_a_tile_as_a_whole_and_one_does_not(bench):
    work = bench()
    dst = work.empty((2, 4))
    predicate = work.tile(np.array([[1, 0, 1, 0], [0, 0, 1, 1]]), UINT8)
    work.issue(TensorCopyPredicated(dst, 1.0, predicate))
    computed = work.issue(Reciprocal(work.empty((2, 4)), dst))
    assert computed.written_flags().astype(int).tolist() == [[1, 0, 1, 0], [0, 0, 1, 1]]
    with pytest.raises(UninitializedRead, match="some elements of which no instruction"):
        work.issue(TensorReduce(work.empty((2, 1)), "add", dst, 1))
    first = Tile(dst.storage, dst.dtype, dst.pattern.slice(0, 0, 1).slice(1, 0, 1))
    assert work.issue(TensorCopy(work.empty((1, 1)), first)).array.tolist() == [[1]]
    work.issue(TensorCopyPredicated(dst, 2.0, predicate, reverse_pred=True))
    assert dst.load().tolist() == [[1, 2, 1, 2], [2, 2, 1, 1]]
    work.issue(TensorCopy(work.empty((2, 4)), dst))


def test_a_predicated_copy_onto_itself_changes_nothing(bench, random):
    work = bench()
    tile = work.tile(random((4, 8)))
    work.issue(TensorCopyPredicated(tile, tile, work.tile(mask_of((4, 8)), UINT8)))
    np.testing.assert_array_equal(tile.array, random((4, 8)))


def copying(work, **operands):
    tile = work.empty((4, 8))
    given = {"dst": tile, "src": tile, "predicate": work.empty((4, 8), UINT8)}
    return TensorCopyPredicated(**(given | operands))


def selecting(work, **operands):
    tile = work.empty((4, 8))
    given = {"dst": tile, "predicate": work.empty((4, 8), UINT8), "on_true": tile, "on_false": 0.0}
    return SelectReduce(**(given | operands))


def ranging(work, **operands):
    tile, bound = work.empty((4, 8)), work.empty((4, 1))
    given = {"dst": tile, "on_true_tile": tile, "comp_op0": "greater_equal", "comp_op1": "less"}
    return RangeSelect(**(given | {"bound0": bound, "bound1": bound} | operands))


def refused(work, message, made):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made.verify(work.core)
    assert caught.value.fix
    assert caught.value.source


@pytest.mark.parametrize("make", [copying, selecting])
def test_at_most_one_input_of_a_selection_is_in_psum(bench, make):
    work = bench()
    name = "src" if make is copying else "on_true"
    data, predicate = work.empty((4, 8), memory=PSUM), work.empty((4, 8), UINT8, PSUM)
    make(work, dst=work.empty((4, 8), memory=PSUM), **{name: data}).verify(work.core)
    make(work, predicate=predicate).verify(work.core)
    both = make(work, predicate=predicate, **{name: data})
    refused(work, f"{name} and predicate are both in PSUM; legal: at most one", both)


def test_predicates_are_unsigned_for_a_copy_and_of_16_bits_for_a_selection(bench):
    work = bench()
    for dtype in (UINT8, UINT16, UINT32, BOOL):
        copying(work, predicate=work.empty((4, 8), dtype)).verify(work.core)
    for dtype in (INT8, INT32, FLOAT32):
        made = copying(work, predicate=work.empty((4, 8), dtype))
        refused(work, "`predicate` is .*; legal dtypes: uint8 or uint16 or uint32", made)
    for dtype in (INT8, UINT8, INT16, UINT16, BOOL):
        selecting(work, predicate=work.empty((4, 8), dtype)).verify(work.core)
    for dtype in (INT32, UINT32, FLOAT32):
        made = selecting(work, predicate=work.empty((4, 8), dtype))
        refused(work, "`predicate` is .*; legal dtypes: int8 or uint8 or int16 or uint16", made)


def test_a_predicated_copy_does_not_cast(bench):
    work = bench()
    narrow = work.empty((4, 8), BFLOAT16)
    copying(work, dst=narrow, src=narrow).verify(work.core)
    copying(work, dst=narrow, src=1.0).verify(work.core)
    message = r"src is SBUF \[4, 8\] bfloat16 and dst is SBUF \[4, 8\] float32; legal: equal dtypes"
    refused(work, message, copying(work, src=narrow))
    short = work.empty((4, 1), UINT8)
    refused(work, "axis F is 8 elsewhere but 1 in `predicate`", copying(work, predicate=short))


@pytest.mark.parametrize("F", [1, 32, 33, 512])
def test_a_selection_costs_two_cycles_an_element_with_both_inputs_in_sbuf(bench, core, F):
    work = bench(core)
    tile, predicate = work.empty((4, F)), work.empty((4, F), UINT8)
    hz = core.vector_clock_hz
    psum, psum_predicate = work.empty((4, F), memory=PSUM), work.empty((4, F), UINT8, PSUM)
    for data, chosen, cycles in (
        (tile, predicate, 2 * F),
        (psum, predicate, F),
        (tile, psum_predicate, F),
    ):
        copy = TensorCopyPredicated(tile, data, chosen)
        assert work.cycles(copy, hz) == pytest.approx(max(64, cycles))
        select = SelectReduce(tile, chosen, data, 0.0)
        assert work.cycles(select, hz) == pytest.approx(max(64, cycles))
        sums = work.empty((4, 1))
        select = SelectReduce(tile, chosen, data, 0.0, sums, RESET)
        assert work.cycles(select, hz) == pytest.approx(max(64, cycles) + 64)
    number = TensorCopyPredicated(tile, 1.0, predicate)
    assert work.cycles(number, hz) == pytest.approx(max(64, F))


# select_reduce


@given(
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from([*FLOATS, INT8, UINT8])] * 2),
    kind=st.sampled_from([INT8, UINT8, INT16, UINT16, BOOL]),
    on_false=st.one_of(st.just("vector"), st.floats(-9, 9, width=32)),
    reverse=st.booleans(),
)
def test_a_selection_and_its_maximum(bench, random, shape, dtypes, kind, on_false, reverse):
    work = bench()
    on_true, mask = work.tile(random(shape) * 9, dtypes[0]), mask_of(shape)
    vector = random((shape[0], 1), seed=2)
    dst, largest = work.empty(shape, dtypes[1]), work.empty((shape[0], 1))
    other = work.tile(vector) if on_false == "vector" else on_false
    predicate = work.tile(mask, kind)
    work.issue(SelectReduce(dst, predicate, on_true, other, largest, RESET, reverse_pred=reverse))
    column = vector if on_false == "vector" else np.full_like(vector, on_false)
    rows = [mask.reshape(shape[0], -1), on_true.load().reshape(shape[0], -1)]
    expected = [
        [x if (m != 0) != reverse else column[p, 0] for m, x in zip(*row, strict=True)]
        for p, row in enumerate(zip(*rows, strict=True))
    ]
    check = work.empty(shape, dtypes[1])
    check.store(np.array(expected, np.float32))
    np.testing.assert_array_equal(dst.array, check.array)
    assert largest.load()[:, 0].tolist() == [max(row) for row in np.float32(expected)]


def test_reversing_a_predicate_is_logical_not_bitwise(bench):
    # AWS's numpy equivalent says ~predicate, of which ~1 is true; its test expects this.
    work = bench()
    predicate, ones = work.tile(np.array([[1, 0]]), UINT8), work.tile(np.ones((1, 2), "f4"))
    made = SelectReduce(work.empty((1, 2)), predicate, ones, FP32_MIN, reverse_pred=True)
    assert work.issue(made).load().tolist() == [[np.float32(FP32_MIN), 1]]


def test_a_chain_of_selections_keeps_its_maximum(bench):
    work = bench()
    predicate, largest = work.tile(np.ones((1, 2)), UINT8), work.empty((1, 1))
    low, high = (work.tile(np.array([x], "f4")) for x in ([1, 2], [5, 3]))
    dst = work.empty((1, 2))
    work.issue(SelectReduce(dst, predicate, high, 0.0, None, RESET))
    work.issue(SelectReduce(dst, predicate, low, 0.0, largest, KEEP))
    assert largest.load()[0, 0] == 5
    work.issue(SelectReduce(dst, predicate, low, 0.0))
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        work.issue(SelectReduce(dst, predicate, low, 0.0, largest, KEEP))


def test_a_selection_refuses_wide_integers_and_integer_maxima(bench):
    work = bench()
    for dtype in (INT16, BFLOAT16, FLOAT32):
        selecting(work, on_true=work.empty((4, 8), dtype)).verify(work.core)
    for dtype in (TFLOAT32, INT32, UINT32):
        made = selecting(work, on_true=work.empty((4, 8), dtype))
        refused(work, "on_true is .*; legal: any dtype but tfloat32, int32 and uint32", made)
    for dtype, is_legal in ((FLOAT32, True), (BFLOAT16, True), (INT16, False)):
        made = selecting(work, reduce_res=work.empty((4, 1), dtype), reduce_cmd=RESET)
        if is_legal:
            made.verify(work.core)
        else:
            refused(work, "reduce_res is .* int16; legal: a float dtype", made)


@pytest.mark.parametrize("make", [selecting, ranging])
def test_only_maxima_are_reduced_by_the_commands_that_aws_lists(bench, make):
    work = bench()
    largest = work.empty((4, 1))
    for command in (RESET, KEEP):
        make(work, reduce_res=largest, reduce_cmd=command).verify(work.core)
    make(work, reduce_cmd=ReduceCmd.idle).verify(work.core)
    refused(work, "reduce_op add; legal: nl.maximum", make(work, reduce_op="add"))
    load = make(work, reduce_cmd=ReduceCmd.load_reduce)
    refused(work, "reduce_cmd load_reduce; legal:", load)
    idle = make(work, reduce_res=largest, reduce_cmd=ReduceCmd.idle)
    refused(work, "reduce_res with reduce_cmd idle, which accumulates nothing", idle)


# range_select

COMPARISONS = {
    "equal": lambda x, y: x == y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}


@given(
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from(FLOATS)] * 2),
    ops=st.tuples(*[st.sampled_from(sorted(COMPARISONS))] * 2),
    start=st.integers(-3, 3),
    memory=st.sampled_from([Memory.SBUF, PSUM]),
)
def test_a_range_selects_by_index(bench, random, shape, dtypes, ops, start, memory):
    work = bench()
    data = work.tile(random(shape), dtypes[0], memory)
    bounds = np.random.default_rng(4).integers(-4, 9, (2, shape[0], 1)).astype(np.float32)
    dst, largest = work.empty(shape, dtypes[1]), work.empty((shape[0], 1))
    tiles = [work.tile(bound) for bound in bounds]
    work.issue(RangeSelect(dst, data, *ops, *tiles, RESET, largest, range_start=start))
    values = data.load().reshape(shape[0], -1)
    expected = np.full(values.shape, np.float32(FP32_MIN))
    for p, i in np.ndindex(values.shape):
        if all(COMPARISONS[op](start + i, b[p, 0]) for op, b in zip(ops, bounds, strict=True)):
            expected[p, i] = values[p, i]
    check = work.empty(shape, dtypes[1])
    check.store(expected)
    np.testing.assert_array_equal(dst.array, check.array)
    np.testing.assert_array_equal(largest.load()[:, 0], expected.max(axis=1))


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT8_E5M2])
def test_fp32_min_becomes_minus_infinity_in_dst_but_not_in_a_float32_maximum(bench, dtype):
    work = bench()
    data, bound = work.tile(np.ones((1, 4), "f4")), work.tile(np.zeros((1, 1), "f4"))
    dst, largest = work.empty((1, 4), dtype), work.empty((1, 1))
    work.issue(RangeSelect(dst, data, "less", "less", bound, bound, RESET, largest))
    assert np.isneginf(dst.load()).all()
    assert largest.load()[0, 0] == np.float32(FP32_MIN)


def test_a_range_is_reduced_by_default_and_its_registers_may_be_reset_alone(bench):
    work = bench()
    data, zero, end = (work.tile(np.array([x], "f4")) for x in ([3.0, 1.0], [0.0], [9.0]))
    dst, largest = work.empty((1, 2)), work.empty((1, 1))
    within = ("greater_equal", "less", zero, end)
    work.issue(RangeSelect(dst, data, *within, reduce_res=largest))
    assert largest.load()[0, 0] == 3
    work.issue(RangeSelect(dst, data, *within, ReduceCmd.reset))
    small = work.tile(np.array([[-7.0, -8.0]], "f4"))
    work.issue(TensorScalarReduce(dst, small, "add", 0.0, "maximum", largest, reduce_cmd=KEEP))
    assert largest.load()[0, 0] == -7


def test_a_range_needs_v3(bench, core_v2, core_v3, core_v4):
    for core in (core_v3, core_v4):
        ranging(bench(core)).verify(core)
    work = bench(core_v2)
    refused(work, "range_select: on NeuronCore-v2; legal from NeuronCore-v3 on", ranging(work))


def test_a_range_takes_five_comparisons_float_data_and_float32_bounds(bench):
    work = bench()
    for op in COMPARISONS:
        ranging(work, comp_op0=op, comp_op1=op).verify(work.core)
    for field in ("comp_op0", "comp_op1"):
        made = ranging(work, **{field: "not_equal"})
        refused(work, f"{field} not_equal; legal: equal, less, less_equal", made)
    ranging(work, on_true_tile=work.empty((4, 8), BFLOAT16)).verify(work.core)
    whole = ranging(work, on_true_tile=work.empty((4, 8), INT16))
    refused(work, "on_true_tile is .* int16; legal: a float dtype", whole)
    for field in ("bound0", "bound1"):
        made = ranging(work, **{field: work.empty((4, 1), BFLOAT16)})
        refused(work, f"`{field}` is .* bfloat16; legal dtypes: float32", made)
        made = ranging(work, **{field: work.empty((4, 2))})
        refused(work, f"axis 1 must be 1 but 2 in `{field}`", made)


def test_what_is_outside_a_range_becomes_fp32_min(bench):
    # Release notes of NKI 0.6.0: a Python float is accepted.
    work = bench()
    for value in (float(np.finfo(np.float32).min), FP32_MIN, -3.4028235e38):
        ranging(work, on_false_value=value).verify(work.core)
    for value in (0.0, -np.inf, -3.3e38):
        made = ranging(work, on_false_value=value)
        refused(work, "on_false_value .*; legal: FP32_MIN", made)


def test_indices_stay_within_what_float32_counts(bench):
    work = bench()
    ranging(work, range_start=2**24 - 7).verify(work.core)
    with pytest.raises(UndefinedBehavior, match="indices 16777210 to 16777217; legal: within"):
        ranging(work, range_start=2**24 - 6).verify(work.core)
    for start in (0.5, None, "0"):
        refused(work, "range_start .*; legal: an integer", ranging(work, range_start=start))


@pytest.mark.parametrize("F", [1, 64, 65, 512])
def test_a_range_costs_a_cycle_an_element_with_its_maximum(bench, core_v3, F):
    work = bench(core_v3)
    tile, largest = work.empty((4, F)), work.empty((4, 1))
    for operands in ({}, {"reduce_res": largest}):
        made = ranging(work, dst=tile, on_true_tile=tile, **operands)
        assert work.cycles(made, core_v3.vector_clock_hz) == pytest.approx(max(64, F))
