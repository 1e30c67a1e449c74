"""NkiTensor: NumPy's indexing, view methods, and the partition axis that stays."""

import re
from contextlib import suppress
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnsim
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import Memset
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to


@pytest.fixture(scope="module")
def make(core_v3):
    """A tensor of 0, 1, 2 ... in the buffer asked for."""

    def tensor(shape, buffer=nl.sbuf, dtype=nl.int32, address=None):
        with issuing_to(CoreContext(core_v3)):
            made = nl.ndarray(shape, dtype, buffer=buffer, address=address)
        made.array[...] = np.arange(np.prod(shape)).reshape(shape)
        return made

    return tensor


def indices(length):
    """An index of an axis: an integer, a slice, nl.ds; and what numpy takes for it."""
    integers = st.integers(-length, length - 1)
    slices = st.tuples(st.integers(0, length - 1), st.integers(1, length), st.integers(1, 3))

    def spelled(parts):
        start, size, step = parts
        end = min(start + size, length)
        return st.sampled_from(
            [
                slice(start, end, step),
                slice(start - length, end if end < length else None, step),
                nl.ds(start, end - start),
            ]
        )

    return st.one_of(integers, slices.flatmap(spelled), st.just(slice(None)))


def for_numpy(index, *, keep):
    if isinstance(index, nl.ds):
        return slice(index.start, index.start + index.size)
    if keep and isinstance(index, int):
        return slice(index, index + 1 or None)
    return index


@given(st.data(), st.lists(st.integers(1, 5), min_size=2, max_size=4), st.booleans())
def test_indexing_is_numpys_but_keeps_the_partition_axis_on_chip(make, data, shape, on_chip):
    tensor = make(shape, nl.sbuf if on_chip else nl.hbm)
    count = data.draw(st.integers(1, len(shape)))
    front = data.draw(st.integers(0, count))
    rest = [slice(None)] * (len(shape) - count)
    first = [data.draw(indices(n)) for n in shape[:front]]
    last = [data.draw(indices(n)) for n in shape[len(shape) - count + front :]]
    full = [*first, *rest, *last]
    keys = first if front == count and data.draw(st.booleans()) else [*first, ..., *last]
    found = tensor[tuple(keys)]
    expected = tensor.array[
        tuple(for_numpy(k, keep=on_chip and d == 0) for d, k in enumerate(full))
    ]
    assert found.ndim >= (2 if on_chip else 1)
    np.testing.assert_array_equal(found.array.ravel(), np.ravel(expected))
    if expected.ndim >= (2 if on_chip else 1):
        assert found.shape == expected.shape


def test_views_by_equal_keys_are_found_again_and_others_are_not(make):
    tensor = make((8, 16))
    keys = (slice(2, 4), nl.ds(2, 4), slice(2, 4, 1), slice(2, 4, 2), nl.ds(2, 2), (0, nl.ds(2, 4)))
    for _ in range(2):
        shapes = [tensor[key].shape for key in keys]
        assert shapes == [(2, 16), (4, 16), (2, 16), (1, 16), (2, 16), (1, 4)]
    assert len(tensor.layout.cuts) == len(keys)
    for key in keys:
        assert tensor[key].layout is tensor[key].layout


def test_a_view_found_again_is_of_its_own_tensor(make):
    """Views are found by the place of a tensor: tensors of one place share them, others do not."""
    key = np.s_[2:4, nl.ds(1, 3)]
    first, second, wide = make((8, 16)), make((8, 16)), make((8, 20))
    in_hbm, narrow = make((8, 16), nl.hbm), make((8, 16), dtype=nl.int16)
    placed = make((8, 16), address=(32, 64))
    for _ in range(2):
        for tensor in (first, second, wide, in_hbm, narrow, placed, first.view(nl.float32)):
            found = tensor[key]
            assert (found.storage, found.dtype) == (tensor.storage, tensor.dtype)
            assert (found.buffer, found.shape) == (tensor.buffer, (2, 3))
            np.testing.assert_array_equal(found.array, tensor.array[2:4, 1:4])
    assert first[key].layout is second[key].layout
    assert first[key].layout is not in_hbm[key].layout


def test_a_view_outlives_no_tensor(make):
    """The tensor of a view is freed with it: what is kept of a view has no bytes."""
    for value in (1, 2):
        tensor = make((8, 16))
        tensor.array[...] = value
        assert (tensor[nl.ds(2, 4), ::2].array == value).all()
        storage = ref(tensor.storage)
        del tensor
        assert storage() is None


def test_a_view_by_a_register_is_never_kept():
    @jit
    def kernel(x):
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((1, 8), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for row in range(2):
            start = nisa.register_alloc(4 * row)
            part = nl.ndarray((1, 4), nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=part, src=tile[:, nl.ds(start, 4)])
            nisa.dma_copy(dst=out[row : row + 1], src=part)
        return out

    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    for _ in range(4):
        np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, x.reshape(2, 4))


@pytest.mark.parametrize("key", [np.s_[True], np.s_[1.0:3], nl.ds(1.0, 2), nl.ds(0, True)])
def test_an_index_that_equals_an_integer_does_not_stand_for_it(make, key):
    tensor = make((8, 16))
    assert tensor[1].shape == tensor[1:3][0].shape == (1, 16)
    assert tensor[nl.ds(1, 2)].shape == (2, 16)
    before = dict(tensor.layout.cuts)
    with suppress(IllegalInstruction):
        assert tensor[key].array.size
    assert tensor.layout.cuts == before


def test_a_version_refuses_a_key_beside_an_equal_one_that_was_kept():
    """An nl.affine_range is a slice until NKI 0.6, and its slice is found again."""

    @jit
    def kernel(x, is_range):
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        key = nl.affine_range(0, 4) if is_range else slice(0, 4, 1)
        nisa.dma_copy(dst=tile[key], src=x[key])
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.ones((4, 8), np.float32)
    for _ in range(2):
        for version, is_range in (("0.6", True), ("0.6", False), ("0.7", False)):
            assert trnsim.run(kernel, x, is_range, nki=version).outputs.all()
        with pytest.raises(IllegalInstruction, match=r"nl\.affine_range between"):
            trnsim.run(kernel, x, True, nki="0.7")


def test_a_single_key_needs_no_tuple(make):
    tensor = make((4, 6), nl.hbm)
    assert tensor[2].shape == (6,)
    assert tensor[2][3].shape == (1,)
    assert make((4, 6))[2].shape == (1, 6)
    assert make((4, 6))[:, 2].shape == (4, 1)
    assert make((4, 6, 2))[:, 2, 1].shape == (4, 1)


WRONG_KEYS = {
    "past the end": (np.s_[:, 6], r"index 6 of dimension 1, which has 6 elements; legal: 0 to 5"),
    "before the start": (
        np.s_[:, -7],
        "index -7 of dimension 1, .*; legal: 0 to 5, and from the end -1 to -6",
    ),
    "slice past the end": (np.s_[0:5], "slice 0:5 of dimension 0, which has 4 .*; legal: from 0"),
    "slice from before": (np.s_[:, -7:-1], "slice -7:-1 of dimension 1"),
    "slice of two numbers": (np.s_[:, nl.ds(4, 3)], r"slice nl.ds\(4, 3\) of dimension 1"),
    "end before start": (np.s_[:, 3:2], "slice 3:2 of dimension 1, .* start <= end"),
    "backwards": (np.s_[:, ::-1], "slice ::-1 of dimension 1, .* step >= 1"),
    "too many": (np.s_[0, 0, 0, 0], r"4 indices for .* which has 3 dimensions"),
    "two ellipses": ((..., 0, ...), r"1 indices for .* which has 3 dimensions"),
    "a float": (np.s_[:, 0.5], r"an index of type float; legal: integers, slices, nl.ds, Ellipsis"),
    "an array": (np.s_[:, np.zeros(3)], "an index of type ndarray"),
    "a new axis": (np.s_[:, None], "an index of type NoneType"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
def test_a_wrong_index_is_refused_with_what_is_legal(make, name):
    key, message = WRONG_KEYS[name]
    with pytest.raises(IllegalInstruction, match=message) as caught:
        _ = make((4, 6, 2), nl.hbm)[key]
    assert caught.value.fix


def test_a_wrong_index_on_chip_is_named_as_it_is_written(make):
    """On chip an integer keeps its dimension, but is no slice."""
    for index, words in ((-7, "index -7 of dim.* 1"), (6, "index 6 of dim"), (2**70, "index 11")):
        with pytest.raises(IllegalInstruction, match=words):
            _ = make((4, 6))[:, index]
    assert make((4, 6))[:, -6].pattern == make((4, 6))[:, 0:1].pattern
    assert make((4, 6))[:, 6:6].shape == (4, 0)


@jit
def blocks(x):
    """AWS's sb_blocks_migrated (nki/migration/index.rst), and a cast from PSUM."""
    kept = nl.ndarray((128, x.shape[0], x.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0]):
        kept[0:128, i, 0 : x.shape[2]] = nl.load(x[i])
    swapped = nl.ndarray((x.shape[2], 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    swapped[...] = nl.transpose(kept[:, 1])
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        nl.store(out[i], kept[0:128, i, 0 : x.shape[2]])
    other = nl.ndarray(swapped.shape, dtype=swapped.dtype, buffer=nl.shared_hbm)
    nl.store(other, swapped)
    return out, other


@pytest.mark.parametrize("version", ["0.3", "0.7"])
def test_a_tile_is_assigned_to_a_part_of_a_tensor(random, version):
    x = random((3, 128, 8))
    out, other = trnsim.run(blocks, x, nki=version).outputs
    np.testing.assert_array_equal(out, x)
    np.testing.assert_array_equal(other, x[1].T.astype(other.dtype))


def test_an_assigned_tile_has_the_shape_of_the_part():
    @jit
    def kernel(x):
        tile = nl.load(x)
        tile[:, 0:2] = nl.load(x)

    with pytest.raises(IllegalInstruction, match="tensor_copy: axis F is 2 elsewhere but 4"):
        trnsim.run(kernel, np.ones((8, 4), np.float32))


@pytest.mark.parametrize(
    ("buffer", "value", "words"),
    [
        (nl.sbuf, 3, r"tensor\[...\] = 3, for SBUF \[4, 6\] int32; emulated: .*fix: .*nisa.memset"),
        (nl.sbuf, [1], "= list, for SBUF"),
        (nl.sbuf, nl.shared_hbm, r"= HBM \[4, 6\] int32, for SBUF .*fix: write nisa.dma_copy"),
        (nl.shared_hbm, nl.sbuf, r"= SBUF \[4, 6\] int32, for HBM .*fix: write nl.store"),
    ],
)
def test_assignments_that_no_document_has_are_refused(make, buffer, value, words):
    if isinstance(value, nl.MemoryRegion):
        value = make((4, 6), value)
    with pytest.raises(NotModelled, match=f"(?s){words}"):
        make((4, 6), buffer)[...] = value


VIEWS = {
    "slice": (lambda t: t.slice(1, 1, 5, 2), lambda a: a[:, 1:5:2]),
    "select": (lambda t: t.select(1, 3), lambda a: a[:, 3]),
    "permute": (lambda t: t.permute((0, 2, 1)), lambda a: a.transpose(0, 2, 1)),
    "expand_dim": (lambda t: t.expand_dim(1), lambda a: a[:, None]),
    "expand_dim at the end": (lambda t: t.expand_dim(-1), lambda a: a[..., None]),
    "squeeze_dim": (lambda t: t.expand_dim(2).squeeze_dim(2), lambda a: a),
    "broadcast": (lambda t: t.expand_dim(1).broadcast(1, 3), lambda a: np.stack([a] * 3, 1)),
    "reshape_dim": (lambda t: t.reshape_dim(1, (2, -1)), lambda a: a.reshape(4, 2, 3, 2)),
    "reshape_dim of 0": (lambda t: t.reshape_dim(0, (4,)), lambda a: a),
    "flatten_dims": (lambda t: t.flatten_dims(1, 2), lambda a: a.reshape(4, 12)),
    "reshape": (lambda t: t.reshape((4, 3, 4)), lambda a: a.reshape(4, 3, 4)),
    "reshape inferring": (lambda t: t.reshape((4, -1)), lambda a: a.reshape(4, 12)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.hbm])
def test_a_view_has_numpys_elements_and_moves_nothing(make, name, buffer):
    view_of, exact = VIEWS[name]
    tensor = make((4, 6, 2), buffer)
    view = view_of(tensor)
    np.testing.assert_array_equal(view.array, exact(tensor.array))
    assert view.storage is tensor.storage
    assert view.buffer is buffer


MOVES = {
    "select": lambda t: t.select(0, 1),
    "permute": lambda t: t.permute((1, 0, 2)),
    "broadcast": lambda t: t.slice(0, 0, 1).broadcast(0, 4),
    "expand_dim": lambda t: t.expand_dim(0),
    "expand_dim from the back": lambda t: t.expand_dim(-4),
    "squeeze_dim": lambda t: t.slice(0, 0, 1).squeeze_dim(0),
    "reshape_dim": lambda t: t.reshape_dim(0, (2, 2)),
    "flatten_dims": lambda t: t.flatten_dims(0, 1),
    "reshape": lambda t: t.reshape((8, 6)),
    "select from the back": lambda t: t.select(-3, 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_no_view_moves_the_partition_axis_on_chip(make, name):
    with pytest.raises(
        IllegalInstruction, match="the partition dimension of an on-chip tensor stays"
    ):
        MOVES[name](make((4, 6, 2)))
    assert MOVES[name](make((4, 6, 2), nl.hbm)).size in {12, 24, 48}


def test_a_reshape_of_part_of_a_tensor_keeps_its_partitions(make):
    part = make((4, 6, 4))[1:3, :, 0:2]
    np.testing.assert_array_equal(part.reshape((2, 2, 3, 2)).array, part.array.reshape(2, 2, 3, 2))
    with pytest.raises(IllegalInstruction, match="needs a copy"):
        part.reshape((2, 12))


def test_a_tensor_describes_itself(make):
    tensor = make((4, 6, 2))
    part = tensor[1:3, 2:6:2, 1]
    assert (tensor.ndim, tensor.size, tensor.strides, tensor.offset) == (3, 48, (12, 2, 1), 0)
    assert tensor.get_pattern() == [[12, 4], [2, 6], [1, 2]]
    assert (part.shape, part.strides, part.offset) == ((2, 2), (12, 4), 17)
    assert tensor.is_contiguous()
    assert tensor[0:2].is_contiguous()
    assert not part.is_contiguous()
    assert not tensor.is_indirect()


def test_contiguity_on_chip_is_within_a_partition(make):
    assert make((4, 6))[:, 0:3].is_contiguous()
    assert not make((4, 6), nl.hbm)[:, 0:3].is_contiguous()


@pytest.mark.parametrize(
    ("dtype", "shape"), [(nl.uint8, (4, 24)), (nl.bfloat16, (4, 12)), (nl.float32, (4, 6))]
)
def test_a_view_as_another_dtype_has_the_same_bytes(make, dtype, shape):
    tensor = make((4, 6))
    for view in (tensor.view(dtype), tensor.reinterpret_cast(dtype)):
        assert (view.shape, view.dtype) == (shape, dtype)
        assert view.array.tobytes() == tensor.array.tobytes()
    assert tensor.view(dtype).view(nl.int32).shape == (4, 6)


def test_a_wider_view_needs_a_last_axis_that_it_divides(make):
    tensor = make((4, 6), dtype=nl.uint8)
    assert tensor[:, 0:4].view(nl.float32).shape == (4, 1)
    with pytest.raises(IllegalInstruction, match="a multiple of 4 bytes"):
        tensor.view(nl.float32)


def test_an_access_pattern_counts_elements_from_the_views_own_start(make):
    tensor = make((4, 6))
    part = tensor[:, 2:6]
    assert part.ap(part.get_pattern()).array.tolist() == part.array.tolist()
    assert part.ap([[6, 4], [1, 2]], offset=1).array.tolist() == tensor.array[:, 3:5].tolist()
    assert tensor.ap([[6, 4], [2, 3]]).array.tolist() == tensor.array[:, ::2].tolist()
    halves = tensor.ap([[12, 4], [1, 12]], dtype=nl.int16)
    assert halves.array.tolist() == tensor.array.view(np.int16).tolist()


def test_the_free_size_of_a_view_steps_one_partition_as_that_of_its_tensor_does(make):
    tensor = make((4, 6))
    half = tensor[:, 3:6]
    for step in (3, 6):
        assert half.ap([[step, 4], [1, 3]]).array.tolist() == tensor.array[:, 3:6].tolist()
    as_bytes = half.ap([[12, 4], [1, 12]], dtype=nl.int8)
    assert as_bytes.view(nl.int32).array.tolist() == tensor.array[:, 3:6].tolist()
    placed = make((4, 6), address=(0, 32))
    assert placed[:, 3:6].ap([[3, 4], [1, 3]]).strides == placed.strides


def test_in_hbm_the_free_size_of_a_view_is_a_stride_as_any_other(make):
    rows = make((4, 6), buffer=nl.shared_hbm)[:, 3:6]
    assert rows.ap([[3, 3], [1, 3]]).strides == (3, 1)


def test_an_access_pattern_out_of_bounds_may_be_made_and_not_used(make, core_v3):
    outside = make((4, 6)).ap([[6, 4], [1, 7]])
    with (
        issuing_to(CoreContext(core_v3)) as context,
        pytest.raises(IllegalInstruction, match=re.escape("reaches beyond its storage of 96")),
    ):
        context.issue(Memset(outside, 0))


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("step", [0, 64, 31, 33, 1, -32])
def test_an_access_pattern_steps_by_one_partition(buffer, step):
    t = nl.ndarray((16, 32), nl.float32, buffer=buffer)
    assert t.ap([[32, 16], [1, 32]]).shape == (16, 32)
    assert t.ap([[step, 1], [1, 32]]).shape == (1, 32)
    message = f"with a step of {step} elements on the partition dimension; legal: 32, the free size"
    with pytest.raises(IllegalInstruction, match=message) as caught:
        t.ap(pattern=[[step, 8], [1, 32]], offset=0)
    assert caught.value.source == "nki-aps.rst, Restriction on SBUF/PSUM Tensors"


@pytest.mark.usefixtures("on_core")
def test_an_access_pattern_of_a_view_steps_by_its_own_or_its_tensors_free_size():
    t = nl.ndarray((16, 32), nl.float32)
    for view, step in ((t[:, 0:8], 8), (t[:, 0:8], 32), (t.view(nl.bfloat16), 64)):
        assert view.ap([[step, 16], [1, 8]]).strides[0] * view.dtype.itemsize == 128
    assert t.ap([[64, 16], [1, 64]], dtype=nl.bfloat16).shape == (16, 64)
    with pytest.raises(IllegalInstruction, match=r"step of 16 elements .*; legal: 32 or 8, the"):
        t[:, 0:8].ap([[16, 16], [1, 8]])
    with pytest.raises(IllegalInstruction, match=r"step of 32 elements .*; legal: 64, the free"):
        t.ap([[32, 16], [1, 32]], dtype=nl.bfloat16)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("pattern", [[32, 16], (32, [1, 32]), 32, [], [[32, 16, 1]], [[32, 0]]])
def test_an_access_pattern_is_a_list_of_pairs(pattern):
    t = nl.ndarray((16, 32), nl.float32)
    message = f"ap({pattern!r}); legal: a list of [stride, count] pairs"
    with pytest.raises(IllegalInstruction, match=re.escape(message)) as caught:
        t.ap(pattern)
    assert caught.value.fix.startswith("describe the view as [[stride, count], ...]")


@pytest.mark.usefixtures("on_core")
def test_an_access_pattern_in_hbm_steps_as_it_likes():
    t = nl.ndarray((16, 32), nl.float32, buffer=nl.hbm)
    assert t.ap([[0, 16], [64, 2], [0, 3], [4, 2], [2, 2], [1, 2]]).ndim == 6


@pytest.mark.usefixtures("on_core")
def test_an_access_pattern_on_chip_has_four_free_dimensions():
    t = nl.ndarray((16, 32), nl.float32)
    four = [[16, 2], [8, 2], [4, 2], [2, 2]]
    assert t.ap([[32, 16], *four]).shape == (16, 2, 2, 2, 2)
    with pytest.raises(IllegalInstruction, match=r"with 5 free dimensions; legal on chip: up to 4"):
        t.ap([[32, 16], *four, [1, 2]])


def test_what_an_engine_steps_through_has_four_dimensions_however_it_is_spelled():
    @jit
    def kernel(x, ranges):
        tile, out = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        part = tile.reshape((x.shape[0], *(3,) * ranges))
        for dim in range(1, ranges + 1):
            part = part.slice(dim, 0, 2)
        nisa.tensor_scalar(part, part, nl.add, 1.0)
        nl.store(out, tile)
        return out

    for ranges in (1, 4):
        x = np.zeros((4, 3**ranges), np.float32)
        assert trnsim.run(kernel, x, ranges).outputs.sum() == 4 * 2**ranges
    x = np.zeros((4, 3**5), np.float32)
    message = r"`dst` is SBUF .*, whose free axes are 5 dimensions in memory; legal: up to 4"
    with pytest.raises(IllegalInstruction, match=message) as caught:
        trnsim.run(kernel, x, 5)
    assert caught.value.source == "nki-aps.rst, Hardware Capability"


def test_free_axes_that_follow_each_other_in_memory_are_one_dimension(random):
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        parts = tile.reshape((x.shape[0], 2, 2, 2, 2, 2))
        nisa.tensor_scalar(parts, parts, nl.multiply, 2.0)
        nl.store(out, tile)
        return out

    x = random((4, 32))
    np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, 2 * x)


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.hbm])
@pytest.mark.parametrize("place", [0, 3, 8])
@pytest.mark.parametrize("dim", [0, 1])
def test_an_empty_slice_is_a_view_that_no_instruction_takes(buffer, place, dim):
    @jit
    def kernel(x, is_used):
        tile = nl.ndarray((8, 8), nl.float32, buffer=buffer)
        keys = [slice(None)] * 2
        keys[dim] = slice(place, place)
        nothing = tile[tuple(keys)]
        assert nothing.shape == ((0, 8), (8, 0))[dim]
        assert tile[nl.ds(2, 0), :].shape == (0, 8)
        assert nothing.size == nothing[0:0].size == 0
        if is_used and buffer is nl.hbm:
            nisa.dma_copy(nothing, nothing)  # here
        elif is_used:
            nisa.memset(nothing, 0.0)  # here
        return x

    x = np.zeros((8, 8), np.float32)
    for numerics in (True, False):
        trnsim.run(kernel, x, is_used=False, numerics=numerics)
        message = r"`dst` is .*, which has no elements; legal: at least one on each axis"
        with pytest.raises(IllegalInstruction, match=message):
            trnsim.run(kernel, x, is_used=True, numerics=numerics)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("key", [slice(4, 3), slice(9, 9), slice(-9, -9)])
def test_a_slice_that_runs_backwards_or_lies_outside_is_refused_at_once(key):
    t = nl.ndarray((8, 8), nl.float32)
    with pytest.raises(IllegalInstruction, match="of dimension 1, which has 8 elements"):
        _ = t[:, key]
    with pytest.raises(IllegalInstruction, match="slice 3:3:1"):  # its own documented rule
        t.slice(1, 3, 3)


@pytest.mark.parametrize("given", [{}, {"address": (32, 64)}])
def test_the_base_of_a_view_is_the_tensor_as_it_was_allocated(given, random):
    x = random((4, 6))
    found = []

    @jit
    def kernel(x):
        tile = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.sbuf, **given)
        nisa.dma_copy(dst=tile, src=x)
        part = tile[1:3, 2:4].reshape((2, 2, 1)).view(nl.int32)
        found.append(np.array(part.base_tensor.array))
        found.append(
            (tile.base_tensor is tile, x[0:2].base_tensor.shape, x[0:2].base_tensor.buffer)
        )
        return x

    trnsim.run(kernel, x)
    np.testing.assert_array_equal(found[0], x)
    assert found[1] == (True, (4, 6), nl.shared_hbm)
