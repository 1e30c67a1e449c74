"""Access patterns against numpy's own views of a real array: the same elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.errors import IllegalInstruction
from trnsim.memory import AccessPattern

ITEMSIZE = 4


def view(pattern, array):
    """The elements of `array` that a pattern names."""
    return np.ndarray(
        pattern.shape, array.dtype, array, pattern.offset_bytes, pattern.strides_bytes
    )


def start(shape):
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    return AccessPattern.dense(tuple(shape), ITEMSIZE), array


def an_axis(data, ndim):
    """An axis, counted from the front or from the back."""
    return data.draw(st.integers(-ndim, ndim - 1), label="axis")


def a_slice(data, pattern, array):
    dim = an_axis(data, array.ndim)
    length = array.shape[dim]
    first = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(first + 1, length))
    step = data.draw(st.integers(1, 3))
    index = [slice(None)] * array.ndim
    index[dim] = slice(first, end, step)
    return pattern.slice(dim, first, end, step), array[tuple(index)]


def a_select(data, pattern, array):
    dim = an_axis(data, array.ndim)
    if array.ndim == 1:
        return pattern, array
    index = data.draw(st.integers(0, array.shape[dim] - 1))
    return pattern.select(dim, index), np.moveaxis(array, dim, 0)[index]


def a_permutation(data, pattern, array):
    dims = tuple(data.draw(st.permutations(range(array.ndim))))
    return pattern.permute(dims), array.transpose(dims)


def an_expansion(data, pattern, array):
    if array.ndim == 5:
        return pattern, array
    dim = data.draw(st.integers(-array.ndim - 1, array.ndim))
    return pattern.expand_dim(dim), np.expand_dims(array, dim)


def a_squeeze(data, pattern, array):
    ones = [dim for dim, length in enumerate(array.shape) if length == 1]
    if not ones or array.ndim == 1:
        return pattern, array
    dim = data.draw(st.sampled_from(ones))
    return pattern.squeeze_dim(dim), array.squeeze(dim)


def a_broadcast(data, pattern, array):
    ones = [dim for dim, length in enumerate(array.shape) if length == 1]
    if not ones:
        return pattern, array
    dim, size = data.draw(st.sampled_from(ones)), data.draw(st.integers(1, 3))
    shape = (*array.shape[:dim], size, *array.shape[dim + 1 :])
    return pattern.broadcast(dim, size), np.broadcast_to(array, shape)


def a_split(data, pattern, array):
    if array.ndim > 3:
        return pattern, array
    dim = an_axis(data, array.ndim) % array.ndim
    length = array.shape[dim]
    inner = data.draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))
    lengths = data.draw(
        st.sampled_from([(length // inner, inner), (-1, inner), (length // inner, -1)])
    )
    shape = (*array.shape[:dim], length // inner, inner, *array.shape[dim + 1 :])
    return pattern.reshape_dim(dim, lengths), array.reshape(shape)


def a_flattening(data, pattern, array):
    first = data.draw(st.integers(0, array.ndim - 1))
    last = data.draw(st.integers(first, array.ndim - 1))
    shape = (*array.shape[:first], -1, *array.shape[last + 1 :])
    try:
        flat = pattern.flatten_dims(first, last)
    except IllegalInstruction:
        return pattern, array
    return flat, array.reshape(shape)


def a_reshape(data, pattern, array):
    lengths = [array.size]
    for _ in range(data.draw(st.integers(0, 2))):
        last = lengths.pop()
        divisor = data.draw(st.sampled_from([n for n in range(1, last + 1) if last % n == 0]))
        lengths += [divisor, last // divisor]
    try:
        reshaped = pattern.reshape(tuple(lengths))
    except IllegalInstruction:
        # It says that a copy is needed: then numpy cannot do it without one either.
        assert not is_view(array, lengths)
        return pattern, array
    return reshaped, array.reshape(lengths)


def is_view(array, lengths):
    """Whether numpy reshapes without a copy."""
    return np.may_share_memory(array.reshape(lengths), array)


STEPS = [
    a_slice,
    a_select,
    a_permutation,
    an_expansion,
    a_squeeze,
    a_broadcast,
    a_split,
    a_flattening,
    a_reshape,
]


@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_any_chain_of_views_names_the_elements_that_numpys_views_do(data, shape):
    pattern, array = start(shape)
    whole = array
    for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=6)):
        pattern, array = step(data, pattern, array)
        assert pattern.shape == array.shape
        assert pattern.elements == array.size
        np.testing.assert_array_equal(view(pattern, whole), array)


@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_numpy_can_flatten_exactly_what_the_pattern_can(data, shape):
    pattern, array = start(shape)
    for step in data.draw(st.lists(st.sampled_from([a_slice, a_permutation]), max_size=3)):
        pattern, array = step(data, pattern, array)
    flat = is_view(array, (array.size,))
    if flat:
        np.testing.assert_array_equal(
            view(pattern.reshape((-1,)), array_base(array)), array.ravel()
        )
    else:
        with pytest.raises(IllegalInstruction, match="needs a copy"):
            pattern.reshape((-1,))


def array_base(array):
    while array.base is not None:
        array = array.base
    return array


@given(st.data(), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_contiguity_is_what_numpy_calls_it(data, shape):
    pattern, array = start(shape)
    for step in data.draw(st.lists(st.sampled_from([a_slice, a_permutation]), max_size=3)):
        pattern, array = step(data, pattern, array)
    assert pattern.is_contiguous(ITEMSIZE) == array.flags.c_contiguous


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_packed_patterns_are_those_that_cover_a_run_of_bytes_once(data, shape):
    pattern, array = start(shape)
    whole = array
    for step in data.draw(
        st.lists(st.sampled_from([a_slice, a_permutation, a_broadcast]), max_size=3)
    ):
        pattern, array = step(data, pattern, array)
    places = np.sort(view(pattern, whole).ravel())
    assert pattern.is_packed(ITEMSIZE) == bool((np.diff(places) == 1).all())


def test_rows_may_lie_further_apart_than_they_are_long():
    pattern = AccessPattern.dense((4, 3), ITEMSIZE, pitch_bytes=100)
    assert pattern.strides_bytes == (100, 4)
    assert not pattern.is_contiguous(ITEMSIZE)
    assert pattern.is_contiguous(ITEMSIZE, first_dim=1)


@pytest.mark.parametrize("new", [1, 2, 4, 8])
def test_reinterpreting_changes_the_last_length_by_the_ratio(new):
    array = np.arange(24, dtype=np.uint32).reshape(3, 8)
    pattern = AccessPattern.dense((3, 8), 4).slice(1, 2, 6).reinterpret(4, new)
    same = np.ndarray(pattern.shape, f"u{new}", array, pattern.offset_bytes, pattern.strides_bytes)
    np.testing.assert_array_equal(same, array[:, 2:6].view(f"u{new}"))


DENSE = AccessPattern.dense((2, 3, 4), ITEMSIZE)
REFUSED = {
    "slice past the end": (lambda p: p.slice(1, 0, 4), r"slice 0:4:1 of dimension 1, which has 3"),
    "slice of nothing": (lambda p: p.slice(1, 2, 2), r"legal: 0 <= start < end <= 3, step >= 1"),
    "slice backwards": (lambda p: p.slice(1, 0, 3, -1), r"slice 0:3:-1"),
    "slice from before": (lambda p: p.slice(1, -1, 3), r"slice -1:3:1"),
    "index past the end": (lambda p: p.select(2, 4), r"index 4 of dimension 2.*legal: 0 to 3"),
    "index before": (lambda p: p.select(2, -1), r"index -1 of dimension 2"),
    "axis past the end": (lambda p: p.select(3, 0), r"dimension 3 of .*legal: -3 to 2"),
    "axis before": (lambda p: p.select(-4, 0), r"dimension -4 of"),
    "no permutation": (lambda p: p.permute((0, 1, 1)), r"legal: a permutation of \(0, 1, 2\)"),
    "too few axes": (lambda p: p.permute((1, 0)), r"permute\(1, 0\)"),
    "broadcast of 3": (lambda p: p.broadcast(1, 3), r"broadcast to 3 of dimension 1, which has 3"),
    "broadcast to 0": (lambda p: p.slice(1, 0, 1).broadcast(1, 0), r"a size of at least 1"),
    "expand too far": (lambda p: p.expand_dim(4), r"expand_dim\(4\)"),
    "squeeze of 3": (lambda p: p.squeeze_dim(1), r"squeeze_dim\(1\).*legal: a length of 1"),
    "split of 3 by 2": (lambda p: p.reshape_dim(1, (2, 2)), r"shape \(2, 2\) for 3 elements"),
    "two unknown": (lambda p: p.reshape_dim(1, (-1, -1)), r"one of them may be -1"),
    "length 0": (lambda p: p.reshape((0, 24)), r"shape \(0, 24\) for 24 elements"),
    "flatten backwards": (lambda p: p.flatten_dims(2, 1), r"flatten_dims\(2, 1\)"),
    "flatten of a slice": (
        lambda p: p.slice(2, 0, 2).flatten_dims(1, 2),
        r"non-contiguous layout",
    ),
    "reshape of a permutation": (lambda p: p.permute((2, 1, 0)).reshape((24,)), r"needs a copy"),
    "wider than the row": (lambda p: p.slice(2, 0, 3).reinterpret(4, 8), r"a multiple of 8 bytes"),
    "strided last axis": (lambda p: p.slice(2, 0, 4, 2).reinterpret(4, 2), r"is contiguous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_view_is_refused_with_what_is_legal(name):
    view_of, message = REFUSED[name]
    with pytest.raises(IllegalInstruction, match=message) as caught:
        view_of(DENSE)
    assert caught.value.fix
    assert caught.value.source == "nki.language.NkiTensor"


def test_a_view_just_inside_the_limits_is_legal():
    assert DENSE.slice(1, 2, 3).shape == (2, 1, 4)
    assert DENSE.select(2, 3).shape == (2, 3)
    assert DENSE.slice(1, 0, 1).broadcast(1, 1).shape == (2, 1, 4)
    assert DENSE.expand_dim(3).shape == (2, 3, 4, 1)
    assert DENSE.flatten_dims(1, 1) == DENSE
    assert DENSE.slice(2, 0, 2).reinterpret(4, 8).shape == (2, 3, 1)


def test_the_order_is_that_of_the_elements_whatever_the_dimensions():
    gaps = AccessPattern((4, 32), (256, 8), 16)
    assert gaps.order == AccessPattern((4, 8, 1, 4), (256, 32, 5, 8), 16).order
    assert gaps.order == AccessPattern((128,), (8,), 16).order
    others = (
        AccessPattern((32, 4), (8, 256), 16),
        AccessPattern((4, 32), (256, 8), 20),
        AccessPattern((4, 32), (256, 4), 16),
    )
    assert all(gaps.order != other.order for other in others)
