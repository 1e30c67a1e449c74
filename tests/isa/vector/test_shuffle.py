"""nc_stream_shuffle: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT32, INT32, UINT8
from trnsim.errors import IllegalInstruction, UninitializedRead
from trnsim.isa import NcStreamShuffle, Reciprocal, TensorCopy, TensorPartitionReduce
from trnsim.memory import Memory, Tile

IDENTITY = tuple(range(32))
KEEP = 255
masks = st.lists(st.one_of(st.integers(0, 31), st.just(KEEP)), min_size=32, max_size=32)


def part(tile, start, end):
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(0, start, end))


def shuffled(src, dst, mask):
    """Partition by partition, quadrant by quadrant."""
    result = dst.copy()
    for partition in range(len(dst)):
        quadrant, lane = divmod(partition, 32)
        if mask[lane] != KEEP:
            result[partition] = src[32 * quadrant + mask[lane]]
    return result


@given(
    mask=masks,
    shape=st.sampled_from([(32, 1), (64, 5), (128, 3), (96, 2, 2)]),
    dtype=st.sampled_from([FLOAT32, BFLOAT16, INT32, UINT8]),
    memory=st.sampled_from([Memory.SBUF, Memory.PSUM]),
)
def test_each_partition_comes_from_its_own_quadrant(bench, random, mask, shape, dtype, memory):
    work = bench()
    src, dst = work.tile(random(shape) * 9, dtype), work.tile(random(shape, seed=1), dtype, memory)
    expected = shuffled(src.array, dst.array, mask)
    work.issue(NcStreamShuffle(dst, src, tuple(mask)))
    np.testing.assert_array_equal(dst.array, expected)


@given(masks)
def test_a_shuffle_may_be_in_place(bench, random, mask):
    work = bench()
    tile = work.tile(random((64, 3)))
    work.issue(NcStreamShuffle(tile, tile, tuple(mask)))
    np.testing.assert_array_equal(tile.array, shuffled(random((64, 3)), random((64, 3)), mask))


def test_a_mask_of_255_leaves_the_partition_as_it_is(bench, random):
    # Release notes of NKI 0.4.0: "now preserves existing destination data instead of zeroing it"
    work = bench()
    src, dst = work.tile(random((32, 4))), work.tile(np.full((32, 4), 7, np.float32))
    work.issue(NcStreamShuffle(dst, src, (KEEP,) * 31 + (0,)))
    assert (dst.array[:31] == 7).all()
    np.testing.assert_array_equal(dst.array[31], src.array[0])


def test_bits_are_moved_as_they_are(bench):
    work = bench()
    bits = np.arange(32, dtype=np.int32)[:, None] + 2**30 + 1
    dst = work.issue(
        NcStreamShuffle(work.empty((32, 1), INT32), work.tile(bits, INT32), IDENTITY[::-1])
    )
    assert dst.array.tolist() == bits[::-1].tolist()


def test_one_partition_is_broadcast_though_the_rest_is_not_written(bench):
    work = bench()
    tile = work.empty((32, 2))
    work.issue(TensorCopy(part(tile, 0, 1), work.tile(np.array([[1, 2]], np.float32))))
    work.issue(NcStreamShuffle(tile, tile, (0,) * 32))
    assert tile.array.tolist() == [[1, 2]] * 32
    single = work.tile(np.array([[5.0]], "f4"))
    assert work.issue(NcStreamShuffle(work.empty((32, 1)), single, (0,) * 32)).load().sum() == 160


def test_partitions_that_the_mask_names_must_have_been_written(bench):
    work = bench()
    tile = work.empty((32, 2))
    work.issue(TensorCopy(part(tile, 0, 1), work.tile(np.array([[1, 2]], np.float32))))
    moved = work.issue(NcStreamShuffle(work.empty((32, 2)), tile, (*[0] * 31, 1)))
    assert moved.written_flags().all(axis=1).tolist() == [True] * 31 + [False]
    with pytest.raises(UninitializedRead, match="nc_stream_shuffle reads"):
        work.issue(NcStreamShuffle(tile, tile, (*[1] * 31, 2)))


def test_partitions_that_the_mask_keeps_are_not_written(bench):
    work = bench()
    src, dst = work.tile(np.ones((32, 2), "f4")), work.empty((32, 2))
    work.issue(NcStreamShuffle(dst, src, (0,) * 16 + (KEEP,) * 16))
    work.issue(TensorCopy(work.empty((16, 2)), part(dst, 0, 16)))
    computed = work.issue(Reciprocal(work.empty((32, 2)), dst))
    assert computed.written_flags().all(axis=1).tolist() == [True] * 16 + [False] * 16
    with pytest.raises(UninitializedRead, match="tensor_partition_reduce reads"):
        work.issue(TensorPartitionReduce(work.empty((1, 2)), "add", dst))


def test_a_mask_that_keeps_everything_does_nothing(bench):
    work = bench()
    src, dst = work.empty((32, 2)), work.tile(np.ones((32, 2), "f4"))
    work.issue(NcStreamShuffle(dst, src, (KEEP,) * 32))
    assert (dst.array == 1).all()


def refused(work, message, made):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made.verify(work.core)
    assert caught.value.fix
    assert caught.value.source


def test_a_shuffle_does_not_cast_or_reshape(bench):
    work = bench()
    tile = work.empty((32, 4))
    narrow = work.empty((32, 4), BFLOAT16)
    NcStreamShuffle(narrow, narrow, IDENTITY).verify(work.core)
    NcStreamShuffle(work.empty((32, 2, 2)), tile, IDENTITY).verify(work.core)
    refused(work, "legal: equal dtypes", NcStreamShuffle(tile, narrow, IDENTITY))
    short = NcStreamShuffle(tile, work.empty((32, 3)), IDENTITY)
    refused(work, "axis F is 4 elsewhere but 3 in `src`", short)


@pytest.mark.parametrize(
    "mask",
    [
        (0,) * 31,
        (0,) * 33,
        (32, *[0] * 31),
        (-1, *[0] * 31),
        (254, *[0] * 31),
        (0.5, *[0] * 31),
        None,
        7,
    ],
)
def test_a_mask_is_32_partitions_of_a_quadrant(bench, mask):
    work = bench()
    tile = work.empty((32, 4))
    NcStreamShuffle(tile, tile, (0, 31, KEEP, *[1] * 29)).verify(work.core)
    message = "shuffle_mask .*; legal: a list of 32 integers from 0 to 31, or 255"
    refused(work, message, NcStreamShuffle(tile, tile, mask))


def test_a_mask_names_partitions_that_src_has(bench):
    work = bench()
    dst, src = work.empty((32, 4)), work.empty((16, 4))
    NcStreamShuffle(dst, src, (15,) * 32).verify(work.core)
    refused(work, "takes partitions beyond src", NcStreamShuffle(dst, src, (16,) * 32))
    refused(
        work, "takes partitions beyond src", NcStreamShuffle(work.empty((64, 4)), dst, IDENTITY)
    )


@pytest.mark.parametrize(
    ("lengths", "starts"),
    [
        ((32, 32), {0, 32, 64, 96}),
        ((16, 1), {0, 32, 64, 96}),
        ((64, 64), {0, 64}),
        ((33, 64), {0, 64}),
        ((32, 64), {0, 64}),
    ],
)
def test_the_longer_tile_decides_where_both_may_start(bench, lengths, starts):
    work = bench()
    whole = work.empty((128, 4))
    for start in (0, 32, 64, 96):
        if start + lengths[0] > 128:
            continue
        dst, src = part(whole, start, start + lengths[0]), work.empty((lengths[1], 4))
        made = NcStreamShuffle(dst, src, (0,) * 32)
        if start in starts:
            made.verify(work.core)
        else:
            refused(work, f"`dst` starts at partition {start}.*legal starts", made)


def test_three_or_four_quadrants_start_at_the_first(bench):
    work = bench()
    whole, short = work.empty((128, 4)), work.empty((128, 4))
    for length in (65, 96, 128):
        for tiles in ((part(whole, 0, length), short), (short, part(whole, 0, length))):
            NcStreamShuffle(*tiles, (KEEP,) * 32).verify(work.core)
        made = NcStreamShuffle(part(short, 64, 128), part(whole, 0, length), (KEEP,) * 32)
        refused(work, "`dst` starts at partition 64, and .* quadrants are active", made)


@pytest.mark.parametrize("F", [1, 64, 65, 512])
def test_a_shuffle_costs_a_cycle_an_element(bench, core, F):
    work = bench(core)
    tile = work.empty((64, F), BFLOAT16)
    made = NcStreamShuffle(tile, tile, IDENTITY)
    assert work.cycles(made, core.vector_clock_hz) == pytest.approx(max(64, F))
