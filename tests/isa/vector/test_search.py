"""max8, nc_find_index8, nc_match_replace8: values, legality, price."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, UINT16, UINT32
from trnsim.errors import IllegalInstruction, UndefinedBehavior, Unspecified
from trnsim.isa import Max8, NcFindIndex8, NcMatchReplace8
from trnsim.memory import Memory

SHAPES = [(1, 8), (3, 20), (128, 9), (4, 2, 6)]
small_numbers = st.integers(0, 6)


def rows_of(draw_values, partitions, free):
    return st.lists(
        st.lists(draw_values, min_size=free, max_size=free),
        min_size=partitions,
        max_size=partitions,
    )


# max8


@given(st.sampled_from(SHAPES), st.tuples(*[st.sampled_from([FLOAT32, BFLOAT16, FLOAT16])] * 2))
def test_the_eight_largest_come_in_descending_order(bench, random, shape, dtypes):
    work = bench()
    src = work.tile(random(shape), dtypes[0])
    dst = work.issue(Max8(work.empty((shape[0], 8), dtypes[1]), src))
    expected = work.empty((shape[0], 8), dtypes[1])
    rows = src.load().reshape(shape[0], -1).tolist()
    expected.store(np.array([sorted(row, reverse=True)[:8] for row in rows], np.float32))
    np.testing.assert_array_equal(dst.array, expected.array)


def test_duplicates_and_infinities_are_among_the_largest(bench):
    work = bench()
    row = [5, 5, -np.inf, np.inf, 5, 1, 2, 3, 4, 5]
    dst = work.issue(Max8(work.empty((1, 8)), work.tile(np.array([row], "f4"))))
    assert dst.load().tolist() == [[np.inf, 5, 5, 5, 5, 4, 3, 2]]


def test_whether_nan_is_large_is_unspecified(bench):
    work = bench()
    src = work.tile(np.array([[np.nan, *range(9)]], "f4"))
    with pytest.raises(Unspecified, match="src holds NaN"):
        work.issue(Max8(work.empty((1, 8)), src))


# nc_find_index8


def found_indices(data, vals, missing):
    """The k-th of equal values finds the k-th occurrence."""
    result = []
    for row, wanted in zip(data, vals, strict=True):
        places = {value: [i for i, x in enumerate(row) if x == value] for value in wanted}
        result.append([places[v].pop(0) if places[v] else missing for v in wanted])
    return result


@given(
    data=rows_of(small_numbers, 3, 12),
    vals=rows_of(small_numbers, 3, 8),
    dtype=st.sampled_from([UINT16, UINT32]),
    kind=st.sampled_from([FLOAT32, BFLOAT16, INT32]),
)
def test_each_value_finds_its_occurrence(bench, data, vals, dtype, kind):
    work = bench()
    tiles = [work.tile(np.array(x), kind) for x in (data, vals)]
    dst = work.issue(NcFindIndex8(work.empty((3, 8), dtype), *tiles))
    missing = 0xFFFF if dtype is UINT16 else 0xFFFFFFFF
    assert dst.array.tolist() == found_indices(data, vals, missing)


def test_a_value_that_is_missing_gives_all_ones(bench):
    # Release notes of NKI 0.6.0: "unmatched slots now return all-ones ... (previously 0)"
    work = bench()
    data, vals = work.tile(np.arange(8.0)[None], FLOAT32), work.tile(np.full((1, 8), 9), FLOAT32)
    for dtype, missing in ((UINT16, 0xFFFF), (UINT32, 0xFFFFFFFF)):
        dst = work.issue(NcFindIndex8(work.empty((1, 8), dtype), data, vals))
        assert dst.array.tolist() == [[missing] * 8]


def test_duplicates_find_their_occurrences_in_ascending_order(bench):
    # nki.isa.nc_match_replace8: the opposite of its own order
    work = bench()
    data = work.tile(np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]]), FLOAT32)
    vals = work.tile(np.array([[3, 8, 8, 8, 8, 8, 8, 8]]), FLOAT32)
    dst = work.issue(NcFindIndex8(work.empty((1, 8), UINT32), data, vals))
    assert dst.array.tolist() == [[2, 4, 5, 6, 7, 8, 9, 10]]


def test_free_dimensions_are_searched_in_order(bench):
    work = bench()
    data = work.tile(np.arange(24.0).reshape(2, 3, 4) % 12, FLOAT32)
    vals = work.tile(np.array([[[11, 0], [4, 5], [6, 7], [8, 9]]] * 2), FLOAT32)
    dst = work.issue(NcFindIndex8(work.empty((2, 8), UINT32), data, vals))
    assert dst.array.tolist() == [[11, 0, 4, 5, 6, 7, 8, 9]] * 2


# nc_match_replace8


def replaced(data, vals, imm):
    """AWS's numpy equivalent (SDK 2.26), from the last value to the first (NKI 0.6.0)."""
    data = [list(row) for row in data]
    indices = [[None] * 8 for _ in data]
    for row, wanted, places in zip(data, vals, indices, strict=True):
        for j in range(7, -1, -1):
            if wanted[j] in row:
                places[j] = row.index(wanted[j])
                row[places[j]] = imm
    return data, indices


@given(
    data=rows_of(small_numbers, 3, 12),
    vals=rows_of(small_numbers, 3, 8),
    kinds=st.tuples(*[st.sampled_from([FLOAT32, BFLOAT16, INT32])] * 2),
    imm=st.sampled_from([-1.0, 99.0, 3.0]),
)
def test_first_occurrences_are_replaced(bench, data, vals, kinds, imm):
    # AWS's loop would find again what it has replaced; nothing says that the engine does.
    assume(all(imm not in row for row in vals))
    work = bench()
    tiles = [work.tile(np.array(x), kinds[0]) for x in (data, vals)]
    dst = work.issue(NcMatchReplace8(work.empty((3, 12), kinds[1]), *tiles, imm))
    expected, indices = replaced(data, vals, imm)
    assert dst.load().tolist() == expected
    chosen = [all(i is not None for i in row) for row in indices]
    if all(chosen):
        places = work.empty((3, 8), UINT32)
        work.issue(NcMatchReplace8(dst, *tiles, imm, places))
        assert places.array.tolist() == indices


def test_duplicates_take_their_occurrences_in_descending_order(bench):
    # The example of nki.isa.nc_match_replace8; release notes of NKI 0.6.0.
    work = bench()
    data = work.tile(np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]]), FLOAT32)
    vals = work.tile(np.array([[3, 8, 8, 8, 8, 8, 8, 8]]), FLOAT32)
    dst, places = work.empty((1, 11)), work.empty((1, 8), UINT32)
    work.issue(NcMatchReplace8(dst, data, vals, 0.0, places))
    assert places.array.tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert dst.load().tolist() == [[1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0]]
    assert data.load()[0, 2] == 3


def test_a_place_is_found_once_even_where_imm_is_a_value_that_is_looked_for(bench):
    """ "Each occurrence of a duplicate in data is paired with a distinct column of dst_idx"."""
    work = bench()
    data = work.tile(np.array([[1, 8, 8, 2, 3, 4, 5, 6, 7]]), FLOAT32)
    vals = work.tile(np.array([[8, 8, 1, 2, 3, 4, 5, 6]]), FLOAT32)
    dst, places = work.empty((1, 9)), work.empty((1, 8), UINT32)
    work.issue(NcMatchReplace8(dst, data, vals, 8.0, places))
    assert places.array.tolist() == [[2, 1, 0, 3, 4, 5, 6, 7]]
    assert dst.load().tolist() == [[8.0] * 8 + [7.0]]


def test_it_may_replace_in_place_and_what_it_leaves_keeps_its_bits(bench):
    work = bench()
    data = work.tile(np.array([[2**24 + 1, *range(9)]]), INT32)
    vals = work.tile(np.arange(8)[None], INT32)
    work.issue(NcMatchReplace8(data, data, vals, -5.0))
    assert data.array.tolist() == [[2**24 + 1, *[-5] * 8, 8]]


def test_the_index_of_a_value_that_is_missing_is_undefined(bench):
    work = bench()
    data = work.tile(np.array([[*range(9)]]), FLOAT32)
    vals = work.tile(np.array([[0, 1, 2, 3, 4, 5, 77, 7]]), FLOAT32)
    dst = work.issue(NcMatchReplace8(work.empty((1, 9)), data, vals, -1.0))
    assert dst.load().tolist() == [[-1, -1, -1, -1, -1, -1, 6, -1, 8]]
    places = work.empty((1, 8), UINT32)
    with pytest.raises(UndefinedBehavior, match=r"vals\[0, 6\] is not in data, or not often"):
        work.issue(NcMatchReplace8(dst, data, vals, -1.0, places))


def test_eight_rounds_of_max8_and_match_replace_sort_a_row(bench, random):
    work = bench()
    data, largest = work.tile(random((16, 64))), work.empty((16, 8))
    found = []
    for _ in range(8):
        work.issue(Max8(largest, data))
        work.issue(NcMatchReplace8(data, data, largest, -np.inf))
        found.append(largest.load().copy())
    expected = -np.sort(-random((16, 64)), axis=1)
    np.testing.assert_array_equal(np.concatenate(found, axis=1), expected)


# Legality


def maximum(work, shape=(4, 8), **operands):
    return Max8(**({"dst": work.empty((4, 8)), "src": work.empty(shape)} | operands))


def search(work, shape=(4, 8), **operands):
    given = {"dst": work.empty((4, 8), UINT32), "data": work.empty(shape)}
    return NcFindIndex8(**(given | {"vals": work.empty((4, 8))} | operands))


def replacement(work, shape=(4, 8), **operands):
    given = {"dst": work.empty(shape), "data": work.empty(shape), "vals": work.empty((4, 8))}
    return NcMatchReplace8(**(given | {"imm": 0.0} | operands))


def refused(work, message, made):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made.verify(work.core)
    assert caught.value.fix
    assert caught.value.source


@pytest.mark.parametrize("make", [maximum, search])
def test_8_to_16384_elements_are_searched(bench, make):
    work = bench()
    for length in (8, 16384):
        make(work, (4, length)).verify(work.core)
    for length in (7, 16385):
        message = f"{length} elements a partition; legal on NeuronCore-v3: 8 to 16384"
        refused(work, message, make(work, (4, length)))


def test_up_to_16384_elements_are_replaced(bench):
    work = bench()
    for length in (1, 16384):
        replacement(work, (4, length)).verify(work.core)
    message = "16385 elements a partition; legal on NeuronCore-v3: 1 to 16384"
    refused(work, message, replacement(work, (4, 16385)))


@pytest.mark.parametrize("make", [maximum, search])
def test_what_is_searched_has_up_to_3_dimensions(bench, make):
    work = bench()
    make(work, (4, 2, 8)).verify(work.core)
    refused(work, "of 4 dimensions; legal: up to 3", make(work, (4, 2, 2, 4)))


def test_there_are_eight_values(bench):
    work = bench()
    for make in (search, replacement):
        make(work, vals=work.empty((4, 2, 4))).verify(work.core)
        refused(work, "vals is .* of 4 dim", make(work, vals=work.empty((4, 2, 2, 2))))
    for width in (7, 9):
        wrong = work.empty((4, width))
        refused(work, r"dst is .*; legal: 8 elements a partition", maximum(work, dst=wrong))
        refused(work, r"vals is .*; legal: 8", replacement(work, vals=wrong))
        refused(work, f"axis E is {width} elsewhere but 8 in `vals`", search(
            work, dst=work.empty((4, width), UINT32)
        ))  # fmt: skip
    refused(work, "dst is .* of 3 dim.*; legal: up to 2", maximum(work, dst=work.empty((4, 2, 4))))
    wrong = work.empty((4, 2, 4), UINT16)
    refused(work, "dst is .* of 3 dim.*; legal: up to 2", search(work, dst=wrong))


def test_indices_are_unsigned_and_the_replacement_a_number(bench):
    work = bench()
    for dtype in (UINT16, UINT32):
        search(work, dst=work.empty((4, 8), dtype)).verify(work.core)
    for dtype in (INT32, FLOAT32):
        made = search(work, dst=work.empty((4, 8), dtype))
        refused(work, "`dst` is .*; legal dtypes: uint16 or uint32", made)
    refused(work, "imm is SBUF .*; legal: a number", replacement(work, imm=work.empty((4, 1))))


def test_a_search_may_be_in_psum(bench):
    work = bench()
    psum = work.empty((4, 8), memory=Memory.PSUM)
    for made in (maximum(work, src=psum), search(work, data=psum), replacement(work, data=psum)):
        made.verify(work.core)


@pytest.mark.parametrize("F", [8, 64, 65, 2048])
@pytest.mark.parametrize("make", [maximum, search, replacement])
def test_a_search_costs_a_cycle_an_element(bench, core, make, F):
    work = bench(core)
    assert work.cycles(make(work, (4, F)), core.vector_clock_hz) == pytest.approx(max(64, F))
