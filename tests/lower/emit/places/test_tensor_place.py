"""Views of what lies somewhere, beside numpy's views of the same elements."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.lower.emit.places.tensor_place import (
    PendingResult,
    SbufMatrix,
    TensorPlace,
    in_hbm,
    merge_axes,
)

SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4).map(tuple)


def dense(shape):
    """A tensor in HBM and the numbers of its elements."""
    count = int(np.prod(shape))
    return in_hbm(SimpleNamespace(shape=(count,)), shape), np.arange(count).reshape(shape)


def elements(placed):
    """The number of the element at each place, by its steps alone."""
    found = np.empty(placed.shape, int)
    for index in product(*map(range, placed.shape)):
        steps = (i * step[0] for i, step in zip(index, placed.steps, strict=True))
        found[index] = placed.offset[0] + sum(steps)
    return found


@given(SHAPES, st.data())
def test_a_transpose_is_numpys(shape, data):
    placed, array = dense(shape)
    order = data.draw(st.permutations(range(len(shape))))
    found = placed.transposed(order)
    assert found.shape == array.transpose(order).shape
    np.testing.assert_array_equal(elements(found), array.transpose(order))


@given(SHAPES, st.data())
def test_a_slice_is_numpys(shape, data):
    placed, array = dense(shape)
    starts = [data.draw(st.integers(0, n - 1)) for n in shape]
    strides = [data.draw(st.integers(1, 3)) for _ in shape]
    wanted = array[tuple(slice(s, None, k) for s, k in zip(starts, strides, strict=True))]
    found = placed.sliced(wanted.shape, starts, strides)
    np.testing.assert_array_equal(elements(found), wanted)
    again = found.sliced((1,) * len(shape), [n - 1 for n in wanted.shape], (1,) * len(shape))
    assert elements(again).item() == wanted.flat[-1]


@given(SHAPES, st.data())
def test_a_repeat_is_numpys_broadcast(shape, data):
    placed, array = dense(shape)
    outer, after = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    wide = tuple(data.draw(st.sampled_from([1, 5])) if n == 1 else n for n in shape)
    dims = range(1, len(shape) + 1)
    found = placed.repeated((outer, *wide, after), dims)
    wanted = np.broadcast_to(array[None, ..., None], (outer, *wide, after))
    np.testing.assert_array_equal(elements(found), wanted)


@given(SHAPES, st.data())
def test_a_reshape_is_numpys_or_none_where_no_step_says_it(shape, data):
    placed, array = dense(shape)
    order = data.draw(st.permutations(range(len(shape))))
    count = int(np.prod(shape))
    first = data.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    wanted = array.transpose(order).reshape(first, 1, -1)
    found = placed.transposed(order).reshaped(wanted.shape)
    if found is None:
        view = array.transpose(order).view()
        with pytest.raises(AttributeError):  # numpy cannot without a copy either
            view.shape = wanted.shape
    else:
        np.testing.assert_array_equal(elements(found), wanted)


def test_a_reshape_of_what_repeats_keeps_its_repeats():
    placed, array = dense((3,))
    wide = placed.repeated((3, 4), (0,))
    split = wide.reshaped((3, 2, 2))
    np.testing.assert_array_equal(elements(split), np.repeat(array, 4).reshape(3, 2, 2))
    assert wide.reshaped((12,)) is None
    assert wide.reshaped((2, 6)) is None


def test_neighbours_merge_where_they_are_evenly_spaced():
    assert merge_axes((2, 1, 3, 4), ((12,), (99,), (4,), (1,))) == [(24, (1,))]
    assert merge_axes((2, 3), ((4,), (1,))) == [(2, (4,)), (3, (1,))]
    assert merge_axes((2, 3), ((0,), (0,))) == [(6, (0,))]
    assert merge_axes((2, 3), ((3, 0), (1, 0))) == [(6, (1, 0))]
    assert merge_axes((2, 3), ((0, 3), (1, 0))) == [(2, (0, 3)), (3, (1, 0))]
    assert merge_axes((1, 1), ((5,), (7,))) == []


def test_a_place_says_what_it_is():
    tile = SimpleNamespace(shape=(128, 2, 40))
    on_chip = TensorPlace(SbufMatrix(tile, 200), (200, 40), ((1, 0), (0, 1)), (0, 0))
    pending = TensorPlace(PendingResult(), (2,), ((1, 0),), (0, 0))
    assert (on_chip.is_on_chip, on_chip.is_pending) == (True, False)
    assert (pending.is_on_chip, pending.is_pending) == (False, True)
    assert (dense((2, 3))[0].is_on_chip, dense((2, 3))[0].is_pending) == (False, False)
    assert on_chip.storage.columns == 40
    for ask in (pending.storage.chunk_columns, lambda: pending.storage.load_columns(0, 1)):
        with pytest.raises(NotImplementedError):
            ask()
    with pytest.raises(NotImplementedError):
        pending.storage.tile(None)


@pytest.mark.parametrize("shape", [(6, 1, 4), (24, 1), (1, 24), (2, 3, 4), (1,), ()])
def test_lengths_of_one_do_not_part_elements_that_lie_together(shape):
    whole = in_hbm(SimpleNamespace(shape=(int(np.prod(shape)),)), shape)
    assert whole.is_contiguous
    reshaped = whole.reshaped((int(np.prod(shape)), 1))
    assert reshaped is not None
    assert reshaped.is_contiguous


def test_elements_that_lie_apart_are_not_contiguous():
    placed, _ = dense((4, 6))
    assert placed.sliced((2, 6), (0, 0), (1, 1)).is_contiguous
    assert not placed.sliced((2, 6), (1, 0), (1, 1)).is_contiguous
    assert not placed.sliced((4, 3), (0, 0), (1, 1)).is_contiguous
    assert not placed.sliced((2, 6), (0, 0), (2, 1)).is_contiguous
    assert not placed.transposed((1, 0)).is_contiguous
    assert not placed.repeated((2, 4, 6), (1, 2)).is_contiguous
    on_chip = TensorPlace(SbufMatrix(None, 4), (4, 6), ((1, 0), (0, 1)), (0, 0))
    assert not on_chip.is_contiguous
