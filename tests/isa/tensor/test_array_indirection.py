"""Tensor indirection on the Tensor Engine: values and legality."""

from dataclasses import replace

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT32, UINT16
from trnsim.errors import IllegalInstruction
from trnsim.isa import NcMatmul
from trnsim.memory import Memory, SnakeIndex, Tile

SBUF, PSUM = Memory.SBUF, Memory.PSUM


def gathered(work, shape, columns, dtype=BFLOAT16, memory=SBUF, address=None, at=(0, 0)):
    """A view of `columns`, the same in every group of 32 partitions, of a tile of `shape`."""
    places = {} if address is None else {"address": address}
    source = work.empty(shape, dtype, memory, **places)
    groups = -(-len(columns) // 32)
    offsets = np.zeros((shape[0], groups), np.uint16)
    for i, column in enumerate(columns):
        offsets[i % 32 :: 32, i // 32] = column
    index = work.empty(offsets.shape, UINT16, address=at if address is not None else None)
    index.put(offsets)
    index.storage.written.add(index.pattern, 2)
    pattern = source.pattern.slice(1, 0, 1).broadcast(1, len(columns))
    pattern = type(pattern)(pattern.shape, source.pattern.strides_bytes, pattern.offset_bytes)
    return source, Tile(
        source.storage, dtype, pattern, SnakeIndex(index, shape[1], len(columns), 32)
    )


def test_operands_are_gathered_in_groups_of_32_partitions(bench, random, core_v4):
    work = bench(core_v4)
    columns = [5, 0, 5, 7]
    source, stationary = gathered(work, (64, 8), columns)
    source.store(random((64, 8)))
    source.storage.written.add(source.pattern, 2)
    moving = work.tile(random((64, 6), seed=1), BFLOAT16)
    dst = work.issue(NcMatmul(work.empty((4, 6), memory=PSUM), stationary, moving))
    expected = source.load()[:, columns].astype(np.float64).T @ moving.load()
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-4, atol=1e-5)


def test_a_scattered_dst_accumulates_where_it_lands(bench, core_v4):
    work = bench(core_v4)
    target, dst = gathered(work, (4, 8), [6, 1], FLOAT32, PSUM)
    ones = work.tile(np.ones((1, 4)), BFLOAT16)
    for value in (1, 2):
        work.issue(NcMatmul(dst, ones, work.tile(np.full((1, 2), value), BFLOAT16)))
    straight = Tile(target.storage, FLOAT32, target.pattern.slice(1, 0, 2))
    work.issue(NcMatmul(straight, ones, work.tile(np.full((1, 2), 10), BFLOAT16)))
    assert target.load()[:, [0, 1, 6]].tolist() == [[10, 13, 3]] * 4


def test_indirection_comes_with_v4_and_without_tiles(bench, core_v3, core_v4):
    def made(core, dtype=BFLOAT16, **options):
        work = bench(core)
        _, stationary = gathered(work, (64, 8), [1, 2, 3, 4], dtype)
        wide = FLOAT32 if dtype is FLOAT32 else BFLOAT16
        moving = work.empty((64, 4), wide)
        return NcMatmul(work.empty((4, 4), memory=PSUM), stationary, moving, **options)

    made(core_v4, tile_position=(0, 0), tile_size=(64, 128)).verify(core_v4)
    for core, options, message in (
        (core_v3, {}, "`stationary` is indirect on NeuronCore-v3; legal from NeuronCore-v4"),
        (
            core_v4,
            {"tile_position": (64, 0), "tile_size": (64, 128)},
            r"tile_position=\(64, 0\) with indirect `stationary`",
        ),
        (core_v4, {"dtype": FLOAT32}, "`stationary` is .* and indirect; legal dtypes"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            made(core, **options).verify(core)


def test_an_identity_matrix_is_not_gathered(bench, core_v4):
    work = bench(core_v4)
    _, moving = gathered(work, (4, 8), [0, 1, 2, 3])
    data, dst = work.empty((4, 4), BFLOAT16), work.empty((4, 4), BFLOAT16, PSUM)
    with pytest.raises(IllegalInstruction, match="`moving` is indirect with is_transpose=True"):
        NcMatmul(dst, data, moving, is_transpose=True).verify(core_v4)


@pytest.mark.parametrize(
    ("data_start", "index_start", "message"),
    [
        (32, 32, None),
        (0, 32, "index of `stationary` starts at partition 32 and `stationary` at 0"),
        (0, 16, "index of `stationary` starts at partition 16; legal: a multiple of 32"),
    ],
)
def test_a_placed_index_starts_with_what_it_picks(bench, core_v4, data_start, index_start, message):
    work = bench(core_v4)
    _, stationary = gathered(work, (32, 8), [1, 2], address=(data_start, 0), at=(index_start, 1024))
    dst, moving = work.empty((2, 4), memory=PSUM), work.empty((32, 4), BFLOAT16)
    instruction = NcMatmul(dst, stationary, moving)
    if message is None:
        instruction.verify(core_v4)
        return
    with pytest.raises(IllegalInstruction, match=message):
        instruction.verify(core_v4)


def test_an_index_as_views_make_it_is_shared_by_32_partitions(bench, core_v4):
    """nki.language.NkiTensor.indirect: "32 for tensor engine"."""
    work = bench(core_v4)
    _, view = gathered(work, (32, 8), range(8))
    narrow = replace(view.index, group_partitions=16)
    stationary = Tile(view.storage, view.dtype, view.pattern, narrow)
    dst = work.empty((8, 6), memory=PSUM)
    made = NcMatmul(dst, stationary, work.empty((32, 6), BFLOAT16))
    assert made.stationary.index.group_partitions == 32
    assert made.dst is dst
