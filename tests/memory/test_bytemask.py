"""Byte masks and byte maps against brute-force sets of bytes."""

from copy import copy
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trnsim.memory import AccessPattern, ByteMap, ByteMask, bytemask

NBYTES = 48


def bytes_of(pattern, itemsize):
    """One tuple of byte numbers an element, in row-major order."""
    elements = []
    for index in product(*map(range, pattern.shape)):
        first = pattern.offset_bytes + sum(
            i * stride for i, stride in zip(index, pattern.strides_bytes, strict=True)
        )
        elements.append(range(first, first + itemsize))
    return elements


@st.composite
def accesses(draw):
    """A pattern that stays within the storage, and the size of its elements."""
    itemsize = draw(st.sampled_from([1, 2, 4]))
    shape, strides, room = [], [], NBYTES - itemsize
    for _ in range(draw(st.integers(1, 3))):
        stride = draw(st.integers(0, 4)) * draw(st.sampled_from([1, itemsize]))
        length = draw(st.integers(1, min(5, room // stride + 1 if stride else 5)))
        room -= (length - 1) * stride
        shape.append(length)
        strides.append(stride)
    return AccessPattern(tuple(shape), tuple(strides), draw(st.integers(0, room))), itemsize


def change(mask, expected, what, pattern, itemsize):
    """Add a pattern to a mask and to the set of its bytes, or remove it where `what` is "x"."""
    touched = {byte for element in bytes_of(pattern, itemsize) for byte in element}
    if what == "x":
        mask.discard(pattern, itemsize)
        expected -= touched
    else:
        mask.add(pattern, itemsize)
        expected |= touched


@given(
    st.booleans(), st.lists(st.tuples(st.sampled_from("addx"), accesses()), max_size=8), accesses()
)
def test_a_mask_that_is_asked_after_each_step_says_what_it_holds_then(full, history, asked):
    mask, expected = ByteMask(NBYTES, is_full=full), set(range(NBYTES) if full else ())
    others = [asked, *(access for _, access in history)]
    for what, (pattern, itemsize) in [*history, *history]:
        change(mask, expected, what, pattern, itemsize)
        for other in others:
            is_within = expected.issuperset(b for element in bytes_of(*other) for b in element)
            assert mask.covers(*other) == is_within


@given(
    st.booleans(), st.lists(st.tuples(st.sampled_from("addx"), accesses()), max_size=8), accesses()
)
def test_a_mask_is_the_set_of_bytes_that_its_history_makes(full, history, asked):
    mask, expected = ByteMask(NBYTES, is_full=full), set(range(NBYTES) if full else ())
    for what, (pattern, itemsize) in history:
        change(mask, expected, what, pattern, itemsize)
    pattern, itemsize = asked
    elements = bytes_of(pattern, itemsize)
    covered = [expected.issuperset(element) for element in elements]
    assert mask.covers(pattern, itemsize) == all(covered)
    assert mask.flags(pattern, itemsize).ravel().tolist() == covered
    assert mask.is_disjoint(pattern, itemsize) == expected.isdisjoint(
        b for e in elements for b in e
    )


@given(st.lists(accesses(), min_size=1, max_size=4))
def test_a_cleared_mask_is_empty(history):
    mask = ByteMask(NBYTES, is_full=True)
    for pattern, itemsize in history:
        mask.clear()
        assert mask.is_disjoint(pattern, itemsize)
        assert not mask.covers(pattern, itemsize)
        mask.add(pattern, itemsize)


def test_writing_as_many_elements_as_there_are_is_not_writing_all_of_them():
    mask = ByteMask(32)
    overlapping = AccessPattern((4, 2), (4, 4), 0)  # eight elements, five places
    mask.add(overlapping, 4)
    assert mask.covers(overlapping, 4)
    assert not mask.covers(AccessPattern.dense((8,), 4), 4)


def test_a_mask_that_was_filled_part_by_part_is_full():
    mask, halves = ByteMask(32), [AccessPattern((4,), (4,), first) for first in (0, 16)]
    for _ in range(3):
        mask.add(halves[0], 4)
        assert not mask.is_full
    mask.add(halves[1], 4)
    assert mask.is_full
    mask.discard(halves[0], 4)
    assert not mask.is_full
    mask.add(halves[0], 4)
    assert mask.is_full


def test_a_permuted_write_of_everything_is_everything():
    mask = ByteMask(32)
    mask.add(AccessPattern.dense((2, 4), 4).permute((1, 0)), 4)
    assert mask.covers(AccessPattern.dense((8,), 4), 4)


def test_the_flags_of_elements_have_the_shape_of_the_pattern():
    mask = ByteMask(16)
    mask.add(AccessPattern((2,), (8,), 0), 4)
    np.testing.assert_array_equal(mask.flags(AccessPattern.dense((2, 2), 4), 4), [[1, 0], [1, 0]])


@given(st.lists(st.tuples(accesses(), st.integers(1, 99)), max_size=8), accesses())
def test_a_map_keeps_the_last_value_of_each_byte(history, asked):
    values, expected = ByteMap(NBYTES, np.int16), [0] * NBYTES
    for (pattern, itemsize), value in history:
        values.view(pattern, itemsize)[...] = value
        for element in bytes_of(pattern, itemsize):
            expected[element.start : element.stop] = [value] * itemsize
    pattern, itemsize = asked
    grains = values.view(pattern, itemsize).reshape(pattern.elements, -1)
    for found, element in zip(grains, bytes_of(pattern, itemsize), strict=True):
        repeated = np.repeat(found, itemsize // len(found))
        assert repeated.tolist() == [expected[byte] for byte in element]


def test_a_mask_is_empty_until_something_is_added():
    mask = ByteMask(8)
    assert mask.is_empty
    mask.add(AccessPattern((2,), (1,), 0), 1)
    assert not mask.is_empty
    mask.clear()
    assert mask.is_empty
    mask.fill()
    assert not mask.is_empty


def test_a_mask_forgets_what_it_knew_when_it_is_cleared_and_remembers_few_patterns(monkeypatch):
    monkeypatch.setattr(bytemask, "_MOST_COVERED", 2)
    mask, patterns = ByteMask(NBYTES), [AccessPattern((1,), (1,), n) for n in range(5)]
    for pattern in patterns:
        mask.add(pattern, 1)
    assert all(mask.covers(pattern, 1) for pattern in patterns)
    assert len(mask._covered) <= 2
    mask.clear()
    assert mask.is_empty
    assert not any(mask.covers(pattern, 1) for pattern in patterns)


def test_a_copy_that_is_cleared_leaves_the_mask_as_it_was():
    mask, first, second = ByteMask(8), AccessPattern((1,), (1,), 0), AccessPattern((1,), (1,), 3)
    mask.add(first, 1)
    duplicate = copy(mask)
    duplicate.clear()
    duplicate.add(second, 1)
    assert (mask.covers(first, 1), mask.covers(second, 1)) == (True, False)
    assert (duplicate.covers(first, 1), duplicate.covers(second, 1)) == (False, True)
