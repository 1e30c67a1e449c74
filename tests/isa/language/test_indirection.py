"""Tensor indirection: which operands take it, from which generation on, starting where."""

import numpy as np
import pytest

from trnsim.dtypes import FLOAT32, INT32, UINT8, UINT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    BnStats,
    Engine,
    Exponential,
    Max8,
    Reciprocal,
    ScalarTensorTensor,
    SelectReduce,
    TensorCopy,
    TensorCopyPredicated,
    TensorReduce,
    TensorScalar,
    TensorScalarCumulative,
    TensorScalarReduce,
    TensorTensor,
    TensorTensorScan,
)
from trnsim.memory import Memory, SnakeIndex, Tile

SBUF, PSUM = Memory.SBUF, Memory.PSUM
MAKERS = {
    "tensor_copy": lambda dst, src, _: TensorCopy(dst, src),
    "tensor_tensor": lambda dst, src, other: TensorTensor(dst, src, other, "add"),
    "tensor_scalar": lambda dst, src, _: TensorScalar(dst, src, "add", 1.0),
    "tensor_scalar_reduce": lambda dst, src, _: TensorScalarReduce(dst, src, "add", 1.0, "add"),
    "tensor_scalar_cumulative": lambda dst, src, _: TensorScalarCumulative(
        dst, src, "add", "add", 1.0
    ),
    "exponential": lambda dst, src, _: Exponential(dst, src),
}


def indirect(work, tile, offsets, **kwargs):
    """`tile` seen through an index of its own, columns in snake order over 16 partitions."""
    index = work.empty((tile.partitions, offsets.shape[1]), UINT32, **kwargs)
    index.store(np.broadcast_to(offsets, index.shape))
    index.storage.written.add(index.pattern, 4)
    count = tile.shape[1]
    return Tile(tile.storage, tile.dtype, tile.pattern, SnakeIndex(index, count, count, 16))


def reversed_columns(count):
    """Offsets [16, 1] that name the columns from the last to the first."""
    return np.arange(count - 1, count - 17, -1)[:, None] % count


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_gathered_and_a_scattered_operand_work(bench, core_v4, random, name):
    make = MAKERS[name]
    for which in (0, 1):
        work = bench(core_v4)
        src, dst, expected = work.tile(random((16, 8))), work.empty((16, 8)), work.empty((16, 8))
        zeros = work.tile(np.zeros((16, 8), np.float32))
        tiles = [dst, src]
        tiles[which] = indirect(work, tiles[which], reversed_columns(8))
        work.context.issue(make(*tiles, zeros))
        data = work.tile(src.array[:, ::-1] if which else src.array)
        work.context.issue(make(expected, data, zeros))
        found = dst.array if which else dst.array[:, ::-1]
        np.testing.assert_array_equal(found, expected.array)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_indirection_needs_v4(bench, core_v3, core_v4, name):
    for core in (core_v4, core_v3):
        work = bench(core)
        view = indirect(work, work.empty((16, 8)), reversed_columns(8))
        made = MAKERS[name](view, view, work.empty((16, 8)))
        if core is core_v4:
            made.verify(core)
            continue
        message = "on NeuronCore-v3; legal from NeuronCore-v4 on"
        with pytest.raises(IllegalInstruction, match=message):
            made.verify(core)


def test_other_operands_are_not_indirect(bench, core_v4):
    work = bench(core_v4)
    tile, wide = work.empty((16, 8)), work.empty((16, 8))
    view = indirect(work, work.empty((16, 8)), reversed_columns(8))
    mask = work.empty((16, 8), UINT8)
    vector = indirect(work, work.empty((16, 1)), np.zeros((16, 1)))
    for made, message in (
        (TensorTensor(tile, tile, view, "add"), "`data2` is an indirect view; legal: `dst` and"),
        (TensorScalar(tile, tile, "add", vector), "`operand0` is an indirect view; legal: `dst`"),
        (TensorCopyPredicated(tile, view, mask), "`src` is an indirect view; legal: `dst` and `p"),
        (Exponential(tile, tile, vector), "`max_value` is an indirect view; legal: `dst` and `s"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            made.verify(core_v4)
    for made in (
        TensorTensorScan(tile, view, wide, 0.0, "multiply", "add"),
        ScalarTensorTensor(view, tile, "add", 1.0, "add", wide),
        SelectReduce(tile, mask, view, 0.0),
        BnStats(work.empty((16, 6)), view),
        Reciprocal(tile, view),
        Max8(work.empty((16, 8)), view),
    ):
        with pytest.raises(IllegalInstruction, match="legal: no operand of this instruction"):
            made.verify(core_v4)


def placed(work, start, memory=SBUF, column=0, dtype=FLOAT32):
    return work.empty((16, 8), dtype, memory, address=(start, column))


def view_of(work, tile, start, column=4096):
    index = work.empty((16, 1), INT32, address=(start, column))
    return Tile(tile.storage, tile.dtype, tile.pattern, SnakeIndex(index, 8, 8, 16))


def test_a_placed_index_starts_where_what_it_gathers_starts(bench, core_v4):
    work = bench(core_v4)
    dst = work.empty((16, 8))
    for start, is_legal in ((32, True), (64, False), (0, False)):
        made = TensorScalar(dst, view_of(work, placed(work, 32), start), "add", 1.0)
        if is_legal:
            made.verify(core_v4)
            continue
        message = f"`data` starts at partition 32 and its index .* at {start}; legal: the same"
        with pytest.raises(IllegalInstruction, match=message):
            made.verify(core_v4)


def test_a_placed_index_starts_at_a_quadrant(bench, core_v4):
    work = bench(core_v4)
    wide = work.empty((48, 1), INT32, address=(0, 4096))
    index = Tile(wide.storage, INT32, wide.pattern.slice(0, 16, 32))
    tile = placed(work, 0)
    view = Tile(tile.storage, tile.dtype, tile.pattern, SnakeIndex(index, 8, 8, 16))
    message = "the index of `data` starts at partition 16; legal: a multiple of 32"
    with pytest.raises(IllegalInstruction, match=message):
        TensorScalar(work.empty((16, 8)), view, "add", 1.0).verify(core_v4)


def test_the_index_of_a_scatter_starts_where_what_is_read_starts(bench, core_v4):
    work = bench(core_v4)
    dst = placed(work, 64, column=8192)
    in_sbuf, in_psum = placed(work, 32), placed(work, 32, PSUM)
    for src, start, is_legal in (
        (in_sbuf, 32, True),
        (in_sbuf, 64, False),
        (in_psum, 64, True),
        (view_of(work, in_psum, 32), 32, True),
        (view_of(work, in_psum, 32), 64, False),
    ):
        made = TensorScalar(view_of(work, dst, start, 16384), src, "add", 1.0)
        if is_legal:
            made.verify(core_v4)
            continue
        message = "the index of `dst` starts at partition 64 and .* at 32; legal: the same start"
        with pytest.raises(IllegalInstruction, match=message):
            made.verify(core_v4)


def test_the_scalar_engine_does_not_scatter_to_psum(bench, core_v4):
    work = bench(core_v4)
    src = work.empty((16, 8))
    for memory, engine, is_legal in (
        (SBUF, Engine.scalar, True),
        (PSUM, Engine.vector, True),
        (PSUM, Engine.scalar, False),
    ):
        dst = indirect(work, work.empty((16, 8), memory=memory), reversed_columns(8))
        made = TensorScalar(dst, src, "add", 1.0, engine=engine)
        if is_legal:
            made.verify(core_v4)
            continue
        with pytest.raises(IllegalInstruction, match=r"indirect view of PSUM .* on the Scalar E"):
            made.verify(core_v4)


def test_a_gathered_tile_is_reduced(bench, core_v4, random):
    work = bench(core_v4)
    src = work.tile(random((16, 8)))
    view = indirect(work, src, np.zeros((16, 1)))
    dst = work.issue(TensorReduce(work.empty((16, 1)), "maximum", view, 1))
    first_columns = src.array[:, :1]
    np.testing.assert_array_equal(dst.array, first_columns)


def test_gpsimd_copies_no_indirect_view(bench, core_v4):
    work = bench(core_v4)
    tile = work.empty((16, 8))
    view = indirect(work, work.empty((16, 8)), reversed_columns(8))
    for engine in (Engine.vector, Engine.scalar):
        TensorCopy(tile, view, engine).verify(core_v4)
    for dst, src in ((tile, view), (view, tile)):
        with pytest.raises(IllegalInstruction, match="an indirect view; legal: vector, scalar"):
            TensorCopy(dst, src, Engine.gpsimd).verify(core_v4)


def test_an_index_has_integers_in_sbuf_for_every_element(bench, core_v4):
    work = bench(core_v4)

    def copied(partitions, count, dtype=UINT32, memory=SBUF):
        tile, index = work.empty((partitions, 64)), work.empty((partitions, 2), dtype, memory)
        pattern = tile.pattern.slice(1, 0, count)
        view = Tile(tile.storage, tile.dtype, pattern, SnakeIndex(index, 64, count, 16))
        TensorCopy(work.empty((partitions, count)), view, Engine.vector).verify(core_v4)

    copied(32, 32)
    copied(20, 4)
    for given, message in (
        ((32, 33), "legal: up to 32 elements, as groups of 16 partitions share"),
        ((20, 5), "legal: up to 4 elements"),
        ((16, 8, FLOAT32), "legal: integers in SBUF"),
        ((16, 8, UINT32, PSUM), "legal: integers in SBUF"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            copied(*given)
