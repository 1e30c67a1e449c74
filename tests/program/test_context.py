"""Issue: check, execute, record; what a context refuses, and what it leaves to numpy."""

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT32, UINT32
from trnsim.errors import IllegalInstruction, UninitializedRead
from trnsim.isa import (
    Activation,
    DmaCopy,
    Engine,
    Memset,
    NcMatmul,
    NcTranspose,
    Reciprocal,
    ReduceCmd,
    Rng,
    TensorCopy,
    TensorReduce,
    TensorScalar,
    TensorTensor,
)
from trnsim.memory import AccessPattern, Memory, Tile

HBM, PSUM = Memory.HBM, Memory.PSUM


def test_an_instruction_is_executed_when_it_is_issued(bench):
    work = bench()
    dst = work.empty((4, 4))
    work.issue(Memset(dst, 3.0))
    assert dst.load().tolist() == [[3.0] * 4] * 4


def recorded(program):
    """(engine, what it waits for, what it follows) of each instruction."""
    return [
        (program.instruction(i).engine, [*program.waits_for(i)], [*program.follows(i)])
        for i in range(len(program))
    ]


def test_the_program_says_what_each_instruction_waits_for_and_what_it_follows(bench):
    work = bench()
    tile, copy = work.empty((4, 4)), work.empty((4, 4))
    work.issue(Memset(tile, 3.0))
    work.issue(TensorCopy(copy, tile, Engine.gpsimd))
    work.issue(TensorCopy(work.empty((4, 4)), tile))
    work.issue(Memset(tile, 4.0))
    assert recorded(work.program) == [
        (Engine.vector, [], []),
        (Engine.gpsimd, [0], []),
        (Engine.vector, [0], []),
        (Engine.vector, [1], [0, 2]),
    ]


def test_inside_in_order_each_engine_keeps_its_order_and_so_do_transfers(bench):
    work = bench(has_values=False)
    engines = [Engine.vector, Engine.gpsimd, Engine.vector, Engine.gpsimd, Engine.vector]
    work.issue(Memset(work.empty((4, 4)), 0.0))
    with work.context.in_order():
        for engine in engines[:3]:
            work.issue(Memset(work.empty((4, 4)), 0.0, engine))
        with work.context.in_order():
            for engine in engines[3:]:
                work.issue(Memset(work.empty((4, 4)), 0.0, engine))
        for _ in range(2):
            work.issue(DmaCopy(work.empty((4, 4)), work.empty((4, 4), memory=HBM)))
    work.issue(Memset(work.empty((4, 4)), 0.0))
    follows = [follows for _, _, follows in recorded(work.program)]
    assert follows == [[], [], [], [1], [2], [3], [], [6], []]
    assert not any(waits_for for _, waits_for, _ in recorded(work.program))


def test_a_refused_instruction_has_no_place_in_the_order(bench):
    """What comes after it in the block does not wait for whatever is issued in its place."""
    work = bench()
    unwritten = work.empty((4, 4))
    with work.context.in_order():
        work.issue(Memset(work.empty((4, 4)), 0.0))
        with pytest.raises(UninitializedRead):
            work.issue(TensorCopy(work.empty((4, 4)), unwritten))
        work.issue(Memset(work.empty((4, 4)), 0.0, Engine.gpsimd))
        work.issue(Memset(work.empty((4, 4)), 0.0))
    assert [follows for _, _, follows in recorded(work.program)] == [[], [], [0]]


def test_random_numbers_are_drawn_in_order_by_each_engine(bench):
    work = bench(has_values=False)
    for engine in (Engine.vector, Engine.gpsimd, Engine.vector, Engine.gpsimd):
        work.issue(Rng(work.empty((4, 4), UINT32), engine))
    work.issue(Memset(work.empty((4, 4)), 0.0))
    assert [follows for _, _, follows in recorded(work.program)] == [[], [], [0], [1], []]


def test_what_uses_the_accumulators_keeps_its_order_and_what_leaves_them_idle_does_not(bench):
    work = bench(has_values=False)
    commands = [ReduceCmd.reset, ReduceCmd.idle, ReduceCmd.reduce, ReduceCmd.idle, ReduceCmd.reduce]
    for command in commands:
        sums = {} if command is ReduceCmd.idle else {"reduce_op": "add"}
        tiles = work.empty((4, 4)), "copy", work.empty((4, 4))
        work.issue(Activation(*tiles, reduce_cmd=command, **sums))
    assert [follows for _, _, follows in recorded(work.program)] == [[], [], [0], [], [2]]


def test_what_nothing_wrote_is_not_read(bench):
    work = bench()
    tile = work.empty((4, 4), name="scores")
    with pytest.raises(
        UninitializedRead, match=r"tensor_copy reads scores SBUF \[4, 4\]"
    ) as caught:
        work.issue(TensorCopy(work.empty((4, 4)), tile))
    assert f"allocated at {tile.storage.line}" in str(caught.value)
    assert caught.value.fix
    assert caught.value.source
    assert len(work.program) == 0


def test_one_element_that_nothing_wrote_is_enough(bench):
    work = bench()
    tile = work.empty((4, 4))
    part = Tile(tile.storage, FLOAT32, tile.pattern.slice(1, 0, 3))
    work.issue(Memset(part, 1.0))
    work.issue(TensorCopy(work.empty((4, 3)), part))
    with pytest.raises(UninitializedRead):
        work.issue(TensorReduce(work.empty((4, 1)), "add", tile, 1))
    work.issue(Memset(Tile(tile.storage, FLOAT32, tile.pattern.slice(1, 3, 4)), 1.0))
    work.issue(TensorCopy(work.empty((4, 4)), tile))


def test_what_nothing_wrote_may_travel_with_what_was_written_and_stays_unwritten(bench):
    work = bench()
    tile, moved, turned = work.empty((4, 4)), work.empty((4, 4)), work.empty((4, 4))
    work.issue(Memset(Tile(tile.storage, FLOAT32, tile.pattern.slice(1, 0, 3)), 2.0))
    work.issue(TensorCopy(moved, tile))
    work.issue(NcTranspose(turned, moved))
    rows = Tile(turned.storage, FLOAT32, turned.pattern.slice(0, 0, 3))
    assert work.issue(Reciprocal(work.empty((3, 4)), rows)).array.tolist() == [[0.5] * 4] * 3
    computed = work.issue(Reciprocal(work.empty((4, 4)), moved))
    assert computed.written_flags().tolist() == [[True] * 3 + [False]] * 4
    with pytest.raises(UninitializedRead):
        work.issue(TensorReduce(work.empty((4, 1)), "add", computed, 1))
    with pytest.raises(UninitializedRead):
        work.issue(TensorCopy(moved, work.empty((4, 4))))


def test_partitions_that_nothing_wrote_stay_unwritten_and_others_are_computed(bench):
    work = bench()
    tiles = [work.empty((4, 4)) for _ in range(3)]
    for tile, end in zip(tiles, (3, 2, 4), strict=True):
        work.issue(Memset(Tile(tile.storage, FLOAT32, tile.pattern.slice(0, 0, end)), 2.0))
    total = work.issue(TensorTensor(work.empty((4, 4)), tiles[0], tiles[1], "add"))
    assert total.written_flags().all(axis=1).tolist() == [True, True, False, False]
    product = work.issue(TensorTensor(tiles[2], tiles[2], total, "multiply"))
    assert product.array[:2].tolist() == [[8.0] * 4] * 2
    weights = work.tile(np.ones((4, 4)), BFLOAT16)
    narrow = work.issue(TensorCopy(work.empty((4, 4), BFLOAT16), product))
    with pytest.raises(UninitializedRead, match="nc_matmul reads"):
        work.issue(NcMatmul(work.empty((4, 4), memory=PSUM), narrow, weights))


def test_a_write_that_failed_wrote_nothing(bench):
    work = bench()
    dst, src = work.empty((4, 4)), work.empty((4, 4))
    with pytest.raises(UninitializedRead):
        work.issue(TensorCopy(dst, src))
    with pytest.raises(UninitializedRead, match="tensor_copy reads"):
        work.issue(TensorCopy(src, dst))


def test_a_shape_only_run_needs_no_values(bench):
    work = bench(has_values=False)
    work.issue(TensorCopy(work.empty((4, 4)), work.empty((4, 4))))
    assert len(work.program) == 1


def test_equal_instructions_are_checked_once_and_counted_each_time(bench):
    work = bench()
    src = work.tile(np.ones((4, 4), np.float32))
    for _ in range(5):
        work.issue(TensorCopy(work.empty((4, 4)), src))
    work.issue(TensorCopy(work.empty((4, 4), BFLOAT16), src))
    assert (len(work.program), len(work.program.checked)) == (6, 2)
    assert list(work.program.which) == [0] * 5 + [1]


def test_what_is_refused_once_is_refused_again(bench):
    work = bench()
    tile = work.tile(np.ones((4, 4), np.float32), memory=HBM)
    for _ in range(2):
        with pytest.raises(IllegalInstruction, match="`src` is HBM"):
            work.issue(TensorCopy(work.empty((4, 4)), tile))


@pytest.mark.parametrize("value", [np.ones((4, 4)), [[1.0]], {}])
def test_an_array_in_place_of_a_tile_is_refused_by_its_name(bench, value):
    work = bench()
    with pytest.raises(IllegalInstruction, match=f"`src` is {type(value).__name__}; legal: a"):
        work.issue(TensorCopy(work.empty((4, 4)), value))


@pytest.mark.parametrize("has_values", [True, False])
def test_a_tile_that_leaves_its_storage_is_refused_when_it_is_used(bench, has_values):
    work = bench(has_values=has_values)
    tile = work.tile(np.ones((4, 4), np.float32))
    outside = Tile(tile.storage, FLOAT32, AccessPattern((4, 4), (16, 4), 16))
    for instruction in (
        TensorCopy(work.empty((4, 4)), outside),
        TensorCopy(outside, tile),
        Memset(outside, 0.0),
    ):
        with pytest.raises(IllegalInstruction, match="reaches beyond its storage of 64 bytes"):
            work.issue(instruction)


def test_infinities_and_nan_are_values_and_no_warnings(bench):
    work = bench()
    tile = work.tile(np.array([[3e38, -3e38, np.inf, np.nan]], np.float32))
    for op, operand in (("multiply", 10.0), ("subtract", np.inf), ("power", 0.5)):
        work.issue(TensorScalar(work.empty((1, 4)), tile, op, operand))
    work.issue(TensorCopy(work.empty((1, 4), BFLOAT16), tile))
    dst = work.empty((4, 4), memory=PSUM)
    assert np.isnan(work.issue(NcMatmul(dst, tile, tile)).load()).any()


def test_the_record_names_the_line_that_issued(bench):
    work = bench()
    work.context.issue(DmaCopy(work.empty((4, 4)), work.tile(np.ones((4, 4), "f4"), memory=HBM)))
    assert work.program.line(0).file == __file__
