"""Views against numpy's, as properties; and what a view may not do to an indirect tensor.

More of plain views, and what is refused of them: tests/nki/test_tensor.py.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import trnsim
from trnsim import nki
from trnsim.errors import IllegalInstruction
from trnsim.isa import VirtualRegister
from trnsim.memory import Box
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to


@pytest.fixture
def rows(on_core):
    """Rows of a [4, 6, 2] tensor in HBM, picked by an index tensor."""
    del on_core
    tensor = nl.ndarray((4, 6, 2), nl.float32, buffer=nl.hbm)
    return tensor.vector_select(0, nl.ndarray((3, 1), nl.uint32))


REFUSED = {
    "slice": lambda t: t.slice(0, 0, 2),
    "select": lambda t: t.select(0, 1),
    "permute": lambda t: t.permute((1, 0, 2)),
    "reshape_dim": lambda t: t.reshape_dim(0, (3, 1)),
    "flatten_dims": lambda t: t.flatten_dims(0, 1),
    "squeeze_dim": lambda t: t.squeeze_dim(-3),
    "expand_dim": lambda t: t.expand_dim(0),
    "reshape": lambda t: t.reshape((1, 3, 6, 2)),
    r"tensor\[0:2\]": lambda t: t[0:2],
    r"tensor\[::2\]": lambda t: t[::2],
    r"tensor\[-1\]": lambda t: t[-1],
    r"tensor\[nl.ds\(1, 2\)\]": lambda t: t[nl.ds(1, 2), 0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rows_that_an_index_tensor_picks_stay_as_they_are(rows, name):
    with pytest.raises(IllegalInstruction, match=f"{name} on dimension -?[03] of") as caught:
        REFUSED[name](rows)
    assert caught.value.fix


def test_a_dimension_that_picked_rows_have_not_is_named(rows):
    for dim in (3, -4, 6):
        with pytest.raises(IllegalInstruction, match=f"dimension {dim} of a tensor of shape"):
            rows.select(dim, 0)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 1, 1)])
def test_a_vector_along_the_partitions_has_free_dimensions_of_one(shape):
    view = nl.ndarray((4,), nl.float32).reshape(shape)
    assert (view.shape, view.nbytes, view.box) == (shape, 16, Box(0, 3, 0, 3))


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("dim", [3, -4, 6])
@pytest.mark.parametrize(
    "view",
    [
        lambda tile, dim: tile.broadcast(dim, 4),
        lambda tile, dim: tile.select(dim, 0),
        lambda tile, dim: tile.squeeze_dim(dim),
        lambda tile, dim: tile.flatten_dims(dim, dim),
    ],
)
def test_a_dimension_that_a_tile_has_not_is_named(view, dim):
    with pytest.raises(IllegalInstruction, match=f"dimension {dim} of a tensor of shape"):
        view(nl.ndarray((128, 4, 2), nl.float32), dim)


@pytest.mark.usefixtures("on_core")
def test_a_new_dimension_is_beside_those_there_are():
    tile = nl.ndarray((128, 4), nl.float32)
    for dim in (0, -3):
        with pytest.raises(IllegalInstruction, match="the partition dimension"):
            tile.expand_dim(dim)
    for dim in (3, -4):
        with pytest.raises(IllegalInstruction, match="use 0 to 2"):
            tile.expand_dim(dim)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize(
    "view",
    [
        lambda tensor: tensor.reshape(()),
        lambda tensor: tensor.squeeze_dim(0),
        lambda tensor: tensor.select(0, 0),
        lambda tensor: tensor.select(0, VirtualRegister(0)),
    ],
)
def test_a_view_has_a_dimension(view):
    with pytest.raises(IllegalInstruction, match="without dimensions; legal: one dimension"):
        view(nl.ndarray((1,), nl.float32, buffer=nl.private_hbm))


@pytest.mark.usefixtures("on_core")
def test_rows_are_picked_by_a_tensor_alone():
    table = nl.ndarray((8, 4), nl.float32, buffer=nl.private_hbm)
    for offsets in (None, 3):
        with pytest.raises(IllegalInstruction, match=r"vector_offset of .*legal: a tensor"):
            table.vector_select(0, offsets)
    for shape in ((4, 2), (1, 4)):
        with pytest.raises(IllegalInstruction, match="legal: one index a partition"):
            table.vector_select(0, nl.ndarray(shape, nl.uint32))


def test_other_dimensions_of_picked_rows_are_free(rows):
    assert rows.permute((0, 2, 1)).shape == (3, 2, 6)
    assert rows.slice(1, 2, 4).shape == (3, 2, 2)
    assert rows[:, 1, 0:1].shape == rows[0:3, 1, 0:1].shape == (3, 1)
    assert rows.reshape((3, 4, 3)).shape == (3, 4, 3)
    assert rows.expand_dim(1).squeeze_dim(1).shape == (3, 6, 2)
    assert rows.flatten_dims(1, 2).is_indirect()


@pytest.mark.usefixtures("on_core")
def test_a_view_as_another_dtype_comes_before_the_dynamic_index():
    tensor = nl.ndarray((4, 6), nl.float32, buffer=nl.hbm)
    with pytest.raises(IllegalInstruction, match="whose place an index gives"):
        tensor.select(0, VirtualRegister(1)).view(nl.int32)


@pytest.mark.usefixtures("on_core")
def test_a_tensor_is_compared_with_none_and_is_a_key():
    tensor = nl.ndarray((4, 6), nl.float32)
    assert tensor != None  # noqa: E711  how public kernels write it
    assert {tensor: 1}[tensor] == 1


@pytest.mark.usefixtures("on_core")
def test_a_whole_reshape_is_a_new_base_for_access_patterns():
    tensor = nl.ndarray((2, 3, 4), nl.float32, buffer=nl.hbm).reshape((6, 4))
    found = tensor.ap([[4, 1], [1, 4]], scalar_offset=VirtualRegister(5), indirect_dim=0)
    assert (found.index.stride_bytes, found.index.limit) == (16, 6)


# Properties: whatever the shape, a view has the elements of numpy's own view.

LENGTHS = st.lists(st.integers(1, 5), min_size=2, max_size=4)
BUFFERS = st.sampled_from([nl.sbuf, nl.psum, nl.hbm])
PLACES = st.sampled_from([None, (0, 0), (32, 2048)])


def counting(core, shape, buffer, place=None):
    """A tensor of 0, 1, 2 ... and the array that numpy views."""
    with issuing_to(CoreContext(core)):
        made = nl.ndarray(shape, nl.int32, buffer=buffer, address=place)
    made.array[...] = np.arange(np.prod(shape)).reshape(shape)
    return made, np.array(made.array)


def free(data, array, buffer):
    """A dimension that a view may change: on chip any but the partition axis."""
    first = 0 if buffer is nl.hbm else 1
    dim = data.draw(st.integers(first, array.ndim - 1))
    return dim if data.draw(st.booleans()) else dim - array.ndim


def divisor(data, length):
    return data.draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))


def sliced(data, tensor, array, _):
    dim = data.draw(st.integers(0, array.ndim - 1))
    start = data.draw(st.integers(0, array.shape[dim] - 1))
    end, step = data.draw(st.integers(start + 1, array.shape[dim])), data.draw(st.integers(1, 3))
    index = (slice(None),) * dim + (slice(start, end, step),)
    return tensor.slice(dim, start, end, step), array[index]


def selected(data, tensor, array, buffer):
    dim = free(data, array, buffer)
    if array.ndim == (1 if buffer is nl.hbm else 2):
        return tensor, array
    place = data.draw(st.integers(0, array.shape[dim] - 1))
    return tensor.select(dim, place), array.take(place, axis=dim)


def permuted(data, tensor, array, buffer):
    first = 0 if buffer is nl.hbm else 1
    dims = (*range(first), *data.draw(st.permutations(range(first, array.ndim))))
    return tensor.permute(dims), array.transpose(dims)


def expanded(data, tensor, array, buffer):
    dim = data.draw(st.integers(0 if buffer is nl.hbm else 1, array.ndim))
    return tensor.expand_dim(dim), np.expand_dims(array, dim)


def squeezed_and_repeated(data, tensor, array, buffer):
    """A new dimension, repeated; and one more, taken away again."""
    dim = data.draw(st.integers(0 if buffer is nl.hbm else 1, array.ndim))
    size = data.draw(st.integers(1, 3))
    wide = tensor.expand_dim(dim).expand_dim(dim).squeeze_dim(dim).broadcast(dim, size)
    return wide, np.stack([array] * size, dim)


def split_and_merged(data, tensor, array, buffer):
    dim = free(data, array, buffer)
    inner, at = divisor(data, array.shape[dim]), dim % array.ndim
    wide = tensor.reshape_dim(dim, (-1, inner))
    shape = (*array.shape[:at], -1, inner, *array.shape[at + 1 :])
    if data.draw(st.booleans()):
        return wide.flatten_dims(at, at + 1), array
    return wide, array.reshape(shape)


CHANGES = (sliced, selected, permuted, expanded, squeezed_and_repeated, split_and_merged)


@given(st.data(), LENGTHS, BUFFERS, PLACES)
def test_any_chain_of_views_has_numpys_elements(core_v3, data, shape, buffer, place):
    place = None if buffer is nl.hbm else place
    tensor, array = counting(core_v3, shape, buffer, place)
    for change in data.draw(st.lists(st.sampled_from(CHANGES), max_size=4)):
        if array.ndim < 5:
            tensor, array = change(data, tensor, array, buffer)
    assert tensor.shape == array.shape
    np.testing.assert_array_equal(tensor.array, array)


@given(st.data(), LENGTHS, BUFFERS)
def test_a_reshape_has_the_elements_in_order(core_v3, data, shape, buffer):
    tensor, array = counting(core_v3, shape, buffer)
    kept = shape[:1] if buffer is not nl.hbm else []
    size = int(np.prod(shape[len(kept) :]))
    inner = divisor(data, size)
    wanted = (*kept, *data.draw(st.permutations([inner, size // inner])))
    np.testing.assert_array_equal(tensor.reshape(wanted).array, array.reshape(wanted))


@given(st.data(), st.tuples(*[st.integers(1, 4)] * 3), BUFFERS)
def test_rearrange_is_a_split_a_transpose_and_a_merge(core_v3, data, lengths, buffer):
    """As einops has it, by numpy: [b, (x y z)] in another order of x, y and z."""
    x, y, z = lengths
    tensor, array = counting(core_v3, (3, x * y * z), buffer)
    order = data.draw(st.permutations("xyz"))
    known = data.draw(st.sampled_from(["xy", "xz", "yz", "xyz"]))
    sizes = {name: dict(zip("xyz", lengths, strict=True))[name] for name in known}
    found = tensor.rearrange(("b", ("x", "y", "z")), ("b", *order), sizes)
    axes = [0, *("xyz".index(name) + 1 for name in order)]
    expected = array.reshape(3, x, y, z).transpose(axes)
    np.testing.assert_array_equal(found.array, expected)
    if order == list("xyz"):
        merged = found.rearrange(("b", "x", "y", "z"), ("b", ("x", "y", "z")))
        np.testing.assert_array_equal(merged.array, array)


@given(st.data(), st.tuples(st.integers(1, 4), st.integers(1, 12)), BUFFERS, PLACES)
def test_an_access_pattern_is_arithmetic_on_element_numbers(core_v3, data, shape, buffer, place):
    """Element [i, j, k] is number offset + i * s0 + j * s1 + k * s2 of the tensor's own rows."""
    P, F = shape
    tensor, array = counting(core_v3, shape, buffer, None if buffer is nl.hbm else place)
    row = data.draw(st.integers(0, P - 1))
    rows = data.draw(st.integers(1, P - row))
    counts = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    strides = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    reach = sum((n - 1) * step for n, step in zip(counts, strides, strict=True))
    assume(reach < F)
    offset = row * F + data.draw(st.integers(0, F - 1 - reach))
    pattern = [[F, rows], *([step, n] for step, n in zip(strides, counts, strict=True))]
    numbers = offset + sum(np.ix_(*(np.arange(n) * step for step, n in pattern)))
    found = tensor.ap(pattern, offset=offset)
    np.testing.assert_array_equal(found.array, array.reshape(-1)[numbers])
    again = tensor.ap(found.get_pattern(), offset=found.offset)
    np.testing.assert_array_equal(again.array, found.array)


@given(st.data(), LENGTHS, BUFFERS, PLACES)
def test_another_dtype_is_numpys_view_of_the_bytes(core_v3, data, shape, buffer, place):
    tensor, array = counting(core_v3, shape, buffer, None if buffer is nl.hbm else place)
    dtype = data.draw(st.sampled_from([nl.int8, nl.uint8, nl.uint16, nl.float16, nl.float32]))
    start = data.draw(st.integers(0, shape[0] - 1))
    tensor, array = tensor[start:], array[start:]
    for method in (tensor.view, tensor.reinterpret_cast):
        seen = method(dtype)
        wanted = np.ascontiguousarray(array).view(dtype.dtype)
        assert seen.shape == wanted.shape
        assert seen.array.tobytes() == wanted.tobytes()
        np.testing.assert_array_equal(seen.view(nl.int32).array, array)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize(
    "seen",
    [
        lambda t: t[0:16, 0:2],
        lambda t: t.slice(1, 0, 2),
        lambda t: t.reshape((16, 2, 2)),
        lambda t: t.ap([[8, 16], [1, 2]]),
    ],
)
def test_columns_that_an_index_tensor_picks_have_no_further_views(seen):
    tile = nl.ndarray((16, 8), nl.float32).indirect(nl.ndarray((16, 1), nl.uint32), 4)
    with pytest.raises(IllegalInstruction, match="whose columns an index tensor picks") as caught:
        seen(tile)
    assert caught.value.fix


# nki-aps.rst: on SBUF and PSUM, one step of the partition dimension is one partition.
@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
def test_an_engine_reads_and_writes_partitions_that_follow_each_other(buffer):
    wide = nl.ndarray((64, 8), nl.float32, buffer=buffer)
    other = nl.ndarray((64, 4), nl.float32)
    nisa.memset(wide, 1.0)
    nisa.tensor_copy(other, wide[:, 0:4])
    tile = nl.ndarray((128, 4), nl.float32, buffer=buffer)
    nisa.memset(tile, 1.0)
    nisa.tensor_copy(other[0:1], tile[32:33:2])
    for stepped in (tile[::2], tile[0:128:2], tile.slice(0, 0, 128, 2)):
        for dst, src in ((other, stepped), (stepped, other)):
            with pytest.raises(IllegalInstruction, match="partitions lie 2 apart; legal: 1 apart"):
                nisa.tensor_copy(dst, src)


@pytest.mark.usefixtures("on_core")
def test_a_dma_steps_over_partitions():
    tile = nl.ndarray((128, 4), nl.float32)
    nisa.memset(tile, 1.0)
    nisa.dma_copy(nl.ndarray((64, 4), nl.float32, buffer=nl.hbm), tile[::2])


@pytest.mark.parametrize(
    ("call", "signature"),
    [
        (lambda x: x.rearrange("a b -> b a"), "tensor.rearrange(src_pattern, dst_pattern"),
        (lambda x: x.permute(), "tensor.permute(dims)"),
        (lambda x: x.slice(0), "tensor.slice(dim, start, end, step=1)"),
        (lambda x: x.reshape(2, 8), "tensor.reshape(shape)"),
        (lambda x: x.view(), "tensor.view(dtype)"),
        (lambda x: x.ap([[4, 4]], offsets=3), "perhaps with offset"),
        (lambda x: x.select(0), "tensor.select(dim, index)"),
    ],
)
def test_a_wrong_call_of_a_view_method_shows_its_signature(call, signature):
    @nki.jit
    def kernel(x):
        call(x)
        return x

    with pytest.raises(IllegalInstruction, match=r"tensor\.[a-z]+: .*; legal: ") as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32))
    assert signature in caught.value.fix
    assert caught.value.line.file == __file__


def test_a_pattern_that_steps_back_is_refused_by_its_strides():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, x.ap([[4, 4], [-1, 4]], offset=3))
        return x

    with pytest.raises(IllegalInstruction, match=r"has the strides \(16, -4\) bytes; legal: 0 or"):
        trnsim.run(kernel, np.ones((4, 4), np.float32))
