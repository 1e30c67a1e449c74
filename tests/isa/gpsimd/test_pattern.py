"""iota and affine_select: values, legality, price."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT32, INT8, INT32, UINT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import AffineSelect, Iota, VirtualRegister
from trnsim.isa.gpsimd.pattern import int32
from trnsim.memory import AccessPattern, Memory, Tile

COMPARE = {
    "equal": lambda v: v == 0,
    "not_equal": lambda v: v != 0,
    "greater_equal": lambda v: v >= 0,
    "greater": lambda v: v > 0,
    "less_equal": lambda v: v <= 0,
    "less": lambda v: v < 0,
}
patterns = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 4)), min_size=1, max_size=4).map(
    tuple
)
small = st.integers(-100, 100)


def affine(pattern, offset, multiplier, partitions):
    """The pseudo code of nki.isa.iota, loop by loop."""
    rows = []
    for channel in range(partitions):
        row = []
        for place in itertools.product(*(range(num) for _, num in pattern)):
            value = offset + channel * multiplier
            value += sum(i * step for i, (step, _) in zip(place, pattern, strict=True))
            row.append(value)
        rows.append(row)
    return np.array(rows)


@settings(max_examples=30)
@given(patterns, small, small, st.integers(1, 5), st.sampled_from([INT32, FLOAT32]))
def test_iota_counts_as_awss_pseudo_code(bench, pattern, offset, multiplier, partitions, dtype):
    work = bench()
    expected = affine(pattern, offset, multiplier, partitions)
    dst = work.empty(expected.shape, dtype)
    work.issue(Iota(dst, pattern, offset, multiplier))
    assert dst.load().tolist() == expected.tolist()


def test_iota_takes_lists_and_fills_a_dst_of_any_free_shape(bench):
    work = bench()
    dst = work.issue(Iota(work.empty((2, 3, 4), INT32), [[1, 12]], channel_multiplier=100))
    assert dst.array.shape == (2, 3, 4)
    assert dst.array[1].ravel().tolist() == list(range(100, 112))


def test_iota_is_exact_in_int32_where_float32_is_not(bench):
    work = bench()
    dst = work.issue(Iota(work.empty((1, 3), INT32), ((1, 3),), 2**24 + 1))
    assert dst.array.tolist() == [[2**24 + 1, 2**24 + 2, 2**24 + 3]]


def test_int32_arithmetic_wraps_around(bench):
    work = bench()
    dst = work.issue(Iota(work.empty((2, 2), INT32), ((1, 2),), 2**31 - 1, 2**31 - 1))
    assert dst.array.tolist() == [[2**31 - 1, -(2**31)], [-2, -1]]


def test_values_are_cast_once_to_the_dtype_of_dst(bench):
    work = bench()
    assert work.issue(Iota(work.empty((1, 2), INT8), ((300, 2),))).array.tolist() == [[0, 127]]
    dst = work.issue(Iota(work.empty((1, 2), BFLOAT16), ((257, 2),)))
    assert dst.load().tolist() == [[0, 256]]


@pytest.mark.parametrize("multiplier", [3, VirtualRegister(3)])
def test_offsets_and_multipliers_may_be_registers(bench, multiplier):
    """Release notes of NKI 0.4: dynamic register offsets were wrong in AWS's simulator."""
    work, offset = bench(), VirtualRegister(10)
    first = work.issue(Iota(work.empty((2, 2), INT32), ((1, 2),), offset, multiplier))
    offset.put(20)
    second = work.issue(Iota(work.empty((2, 2), INT32), ((1, 2),), offset, multiplier))
    assert first.array.tolist() == [[10, 11], [13, 14]]
    assert second.array.tolist() == [[20, 21], [23, 24]]
    selected = AffineSelect(work.empty((2, 2)), ((-1, 2),), 1, first, -1.0, "equal", offset)
    assert work.issue(selected).load().tolist() == [[-1, -1], [-1, -1]]
    offset.put(0)
    assert work.issue(selected).load().tolist() == [[10, -1], [-1, 14]]


def test_a_register_is_not_read_before_the_instruction_runs(bench):
    work = bench(has_values=False)
    Iota(work.empty((2, 2), INT32), ((1, 2),), VirtualRegister()).verify(work.core)


def test_a_register_holds_32_bits():
    assert int32(VirtualRegister(2**32 - 1)) == -1


def refused(work, message, made, **operands):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made(**operands).verify(work.core)
    assert caught.value.fix


@pytest.mark.parametrize(
    "pattern",
    [(), ((1, 0),), ((1, 2, 3),), 7, ((0.5, 4),), ((1, 1),) * 4 + ((1, 4),), "ab"],
)
def test_a_pattern_is_one_to_four_pairs_of_whole_numbers(bench, pattern):
    work = bench()
    dst = work.empty((2, 4), INT32)
    Iota(dst, ((1, 1),) * 3 + ((1, 4),)).verify(work.core)
    refused(work, "legal: 1 to 4 pairs", Iota, dst=dst, pattern=pattern)


def test_the_pattern_has_as_many_elements_as_a_partition_of_dst(bench):
    work = bench()
    dst = work.empty((2, 3, 4), INT32)
    Iota(dst, ((1, 2), (1, 6))).verify(work.core)
    for pattern in (((1, 11),), ((1, 2), (1, 7))):
        refused(work, "elements; legal: 12", Iota, dst=dst, pattern=pattern)


@pytest.mark.parametrize("field", ["offset", "channel_multiplier"])
def test_numbers_are_of_32_bits(bench, field):
    work = bench()
    dst = work.empty((2, 4), INT32)
    for legal in (2**31 - 1, -(2**31)):
        Iota(dst, ((1, 4),), **{field: legal}).verify(work.core)
    for wrong in (2**31, -(2**31) - 1, 0.5, None):
        message = f"`{field}` is .*legal: a whole number of -2147483648 to 2147483647"
        refused(work, message, Iota, dst=dst, pattern=((1, 4),), **{field: wrong})


@settings(max_examples=30)
@given(patterns, small, small, st.integers(1, 5), st.sampled_from(sorted(COMPARE)), st.booleans())
def test_affine_select_chooses_as_awss_pseudo_code(
    bench, random, pattern, offset, multiplier, partitions, cmp_op, in_place
):
    work = bench()
    values = affine(pattern, offset, multiplier, partitions)
    source = work.tile(random(values.shape))
    expected = np.where(COMPARE[cmp_op](values), source.load(), np.float32(-2.5))
    dst = source if in_place else work.empty(values.shape)
    work.issue(AffineSelect(dst, pattern, multiplier, source, -2.5, cmp_op, offset))
    np.testing.assert_array_equal(dst.load(), expected)


def test_the_default_comparison_selects_the_diagonal(bench):
    work = bench()
    ones = work.tile(np.ones((4, 4), np.float32))
    dst = work.issue(AffineSelect(work.empty((4, 4)), [[1, 4]], -1, ones, 0.0))
    assert dst.load().tolist() == np.eye(4).tolist()


def test_equal_dtypes_are_copied_bit_for_bit_and_others_through_float32(bench):
    work = bench()
    source = work.tile(np.array([[2**24 + 1, 5]]), INT32)
    operands = {"pattern": ((1, 2),), "channel_multiplier": 0, "on_true_tile": source}
    kept = AffineSelect(work.empty((1, 2), INT32), on_false_value=-7.5, **operands)
    assert work.issue(kept).array.tolist() == [[2**24 + 1, -8]]
    cast = AffineSelect(work.empty((1, 2), UINT32), on_false_value=-7.5, **operands)
    assert work.issue(cast).array.tolist() == [[2**24, 0]]


def test_the_lowest_float32_becomes_minus_infinity_in_bfloat16(bench):
    """Release notes of NKI 0.6: a Python float as the fp32 sentinel is legal."""
    work, lowest = bench(), float(np.finfo(np.float32).min)
    source = work.tile(np.ones((1, 2)), BFLOAT16)
    dst = work.empty((1, 2), BFLOAT16)
    work.issue(AffineSelect(dst, ((1, 2),), 0, source, lowest, "equal"))
    assert dst.load().tolist() == [[1.0, -np.inf]]


def test_a_dst_with_another_free_shape_and_stride_is_filled_in_order(bench, random):
    work = bench()
    whole, source = work.empty((2, 12)), work.tile(random((2, 6)))
    view = Tile(whole.storage, FLOAT32, AccessPattern((2, 3, 2), (48, 16, 4), 0))
    work.issue(AffineSelect(view, ((1, 6),), 0, source, 9.0, "greater"))
    expected = source.load().copy()
    expected[:, 0] = 9.0
    np.testing.assert_array_equal(view.load().reshape(2, 6), expected)


def test_affine_select_takes_a_comparison_and_a_number(bench):
    work = bench()
    tile = work.empty((2, 4))
    operands = {
        "dst": tile,
        "pattern": ((1, 4),),
        "channel_multiplier": 1,
        "on_true_tile": tile,
        "on_false_value": 0,
    }
    AffineSelect(**operands).verify(work.core)
    refused(work, "cmp_op add; legal: equal", AffineSelect, **operands, cmp_op="add")
    refused(work, "legal: a number", AffineSelect, **operands | {"on_false_value": tile})
    psum = work.empty((2, 4), memory=Memory.PSUM)
    for name in ("dst", "on_true_tile"):
        refused(work, f"`{name}` is PSUM .* legal: SBUF", AffineSelect, **operands | {name: psum})
    wide = work.empty((2, 8))
    refused(work, "axis F is 4 elsewhere but 8", AffineSelect, **operands | {"on_true_tile": wide})


@pytest.mark.parametrize("F", [1, 64, 700])
def test_they_cost_150_and_an_element_a_cycle(bench, core, F):
    work = bench(core)
    tile = work.empty((4, F))
    for made in (Iota(tile, ((1, F),)), AffineSelect(tile, ((1, F),), 0, tile, 0.0)):
        assert work.cycles(made, core.gpsimd_clock_hz) == pytest.approx(150 + F)


def test_a_step_has_32_bits(bench):
    work = bench()
    dst = work.empty((1, 4), INT32)
    for step in (-(2**31), 2**31 - 1):
        Iota(dst, [[step, 4]]).verify(work.core)
    for step in (-(2**31) - 1, 2**31, 2**40, 2**63):
        with pytest.raises(IllegalInstruction, match="of whole numbers, step of 32 bits, num >= 1"):
            Iota(dst, [[step, 4]]).verify(work.core)


def test_the_value_of_affine_select_is_exact_in_int32(bench):
    work = bench()
    data = work.tile(np.zeros((1, 2)), INT32)
    dst = work.empty((1, 2), INT32)
    work.issue(AffineSelect(dst, [[1, 2]], 0, data, 2**24 + 1, "less"))
    assert dst.array.tolist() == [[2**24 + 1] * 2]
