"""Plain steps: which instructions are compared field by field, and what makes one differ."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from trnsim.dtypes import FLOAT32
from trnsim.errors import SourceLine
from trnsim.isa import (
    CoreBarrier,
    DmaCopy,
    Iota,
    NcMatmul,
    OobMode,
    TensorCopyPredicated,
    TensorScalar,
    TensorTensor,
    VirtualRegister,
)
from trnsim.memory import AccessPattern, Memory, ScalarIndex, Tile, VectorIndex
from trnsim.program.plain import StepOrigin, plain_step


def plain_of(on, instruction):
    """The plain step of an instruction that has been issued."""
    on.context.issue(instruction)
    info = on.context._signatures[instruction.signature()]
    reads, writes = instruction.accesses()
    sources = [source for tile in (*reads, *writes) for source in tile.index_tiles()]
    touches = [(number, tile.layout) for number, tile in enumerate([*reads, *sources, *writes])]
    return plain_step(info, None, touches)


def alike(plain, instruction):
    """True if an instruction agrees with a plain step but for its storages."""
    return plain.has_fields_of(instruction) and plain.storages_of(instruction) is not None


@pytest.fixture
def doubled(bench, random):
    """A bench, and dst = 2 src."""
    on = bench()
    src, dst = on.tile(random((4, 8))), on.empty((4, 8))
    return on, TensorScalar(dst, src, "multiply", 2.0)


def test_an_instruction_is_alike_if_its_fields_are(doubled):
    on, instruction = doubled
    plain = plain_of(on, instruction)
    assert alike(plain, instruction)
    assert [tile.field for tile in plain.tiles] == ["data", "dst"]
    other = TensorScalar(on.empty((4, 8)), on.empty((4, 8)), "multiply", 2.0)
    assert alike(plain, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"operand0": 2},
        {"operand0": True},
        {"operand0": 3.0},
        {"operand0": float("nan")},
        {"operand0": np.float64(2.0)},
        {"op0": "add"},
        {"reverse0": True},
        {"reverse0": 0},
        {"op1": "add", "operand1": 0.0},
    ],
)
def test_another_value_or_type_is_not_alike(doubled, changes):
    on, instruction = doubled
    plain = plain_of(on, instruction)
    fields = {"dst": instruction.dst, "data": instruction.data, "op0": "multiply", "operand0": 2.0}
    assert not alike(plain, TensorScalar(**{**fields, **changes}))


def test_tuples_are_compared_by_the_types_and_values_of_their_items(bench, random):
    on = bench()
    operands = (on.tile(random((4, 8))), on.tile(random((4, 6))))
    dst = on.empty((8, 6), memory=Memory.PSUM)
    plain = plain_of(on, NcMatmul(dst, *operands))
    assert alike(plain, NcMatmul(dst, *operands))
    for changes in ({"accumulate": False}, {"tile_position": (0, 0), "tile_size": (32, 32)},
                    {"tile_size": []}, {"is_moving_onezero": True}):  # fmt: skip
        assert not alike(plain, NcMatmul(dst, *operands, **changes))
    iota = on.empty((4, 8), np.int32)
    plain = plain_of(on, Iota(iota, ((1, 8),), 0))
    assert alike(plain, Iota(iota, ((1, 8),), 0))
    for pattern in (
        ((2, 8),),
        ((1.0, 8),),
        ((1, 8), (0, 1)),
        ((1, 8, 0),),
    ):
        assert not alike(plain, Iota(iota, pattern, 0))
    assert not alike(plain, Iota(iota, ((1, 8),), VirtualRegister(0)))


def test_another_layout_or_kind_is_not_alike(doubled):
    on, instruction = doubled
    plain = plain_of(on, instruction)
    src, dst = instruction.data, instruction.dst
    half = Tile(src.storage, FLOAT32, src.pattern.slice(1, 0, 4))
    for operand in (half, 1.0, None):
        assert not alike(plain, TensorScalar(dst, operand, "multiply", 2.0))
    assert not alike(plain, TensorTensor(dst, src, src, "multiply"))
    index = on.tile(np.zeros((4, 1), np.int32))
    moved = Tile(src.storage, FLOAT32, src.pattern, VectorIndex(index, 32, 4))
    assert not alike(plain, TensorScalar(dst, moved, "multiply", 2.0))


def gathering(on, random, dst, **options):
    """A copy to `dst` of four rows by a vector of indices."""
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [2], [5]], np.int32))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    source = Tile(rows.storage, FLOAT32, pattern, VectorIndex(index, 32, 16))
    return DmaCopy(dst, source, **options)


def test_an_index_in_a_register_a_name_or_part_of_a_tile_is_not_plain(bench, random):
    on = bench()
    dst, mask = on.tile(random((4, 8))), on.tile(np.ones((4, 8), np.uint8))
    assert plain_of(on, gathering(on, random, dst, oob_mode=OobMode.skip)) is None
    assert plain_of(on, TensorCopyPredicated(dst, dst, mask)) is None
    assert plain_of(on, Iota(on.empty((4, 8), np.int32), ((1, 8),), VirtualRegister(3))) is None
    assert CoreBarrier.fences


def test_a_gather_is_plain_and_alike_if_its_indices_lie_alike(bench, random):
    on = bench()
    dst = on.empty((4, 8))
    copy = gathering(on, random, dst)
    plain = plain_of(on, copy)
    assert [(tile.field, tile.is_source) for tile in plain.tiles] == [
        ("src", False),
        ("src", True),
        ("dst", False),
    ]
    assert alike(plain, copy)
    assert alike(plain, gathering(on, random, on.empty((4, 8))))
    rows, wide = copy.src, on.tile(np.zeros((4, 2), np.int32))
    columns = Tile(wide.storage, wide.dtype, wide.pattern.slice(1, 0, 1))
    for index in (None, VectorIndex(columns, 32, 16), ScalarIndex(columns, 32, 16)):
        assert not alike(plain, DmaCopy(dst, Tile(rows.storage, FLOAT32, rows.pattern, index)))
    fewer = rows.pattern._replace(shape=(3, 8))
    assert not alike(plain, DmaCopy(dst, Tile(rows.storage, FLOAT32, fewer, rows.index)))


def test_what_has_its_address_from_an_index_is_not_plain(doubled):
    on, instruction = doubled
    on.context.issue(instruction)
    info = on.context._signatures[instruction.signature()]
    layouts = [(number, instruction.dst.layout) for number in range(3)]
    assert plain_step(info, None, layouts) is None
    assert plain_step(info, None, layouts[:2]) is not None


def test_a_dma_between_tiles_is_plain(bench, random):
    on = bench()
    copy = DmaCopy(on.empty((4, 8)), on.tile(random((4, 8)), memory=Memory.HBM))
    assert alike(plain_of(on, copy), copy)


def frame_at(code, place, caller=None):
    """What a frame tells of where it is."""
    return SimpleNamespace(f_code=code, f_lasti=place, f_back=caller)


def test_a_place_in_the_bytecode_is_known_only_once_its_line_was_compared():
    code, wrapper = plain_of.__code__, frame_at.__code__
    origin = StepOrigin(None)
    assert not origin.matches_bytecode(frame_at(code, 8))
    origin._place = (), code, 8
    assert origin.matches_bytecode(frame_at(code, 8))
    assert not origin.matches_bytecode(frame_at(code, 10))
    assert not origin.matches_bytecode(frame_at(wrapper, 8))
    origin._place = (wrapper,), code, 8
    assert origin.matches_bytecode(frame_at(wrapper, 2, frame_at(code, 8)))
    assert not origin.matches_bytecode(frame_at(wrapper, 2, frame_at(code, 10)))
    assert not origin.matches_bytecode(frame_at(wrapper, 8, frame_at(wrapper, 8)))
    assert not origin.matches_bytecode(frame_at(wrapper, 2))
    origin._place = (wrapper, wrapper), code, 8
    assert origin.matches_bytecode(frame_at(wrapper, 2, frame_at(wrapper, 4, frame_at(code, 8))))
    assert not origin.matches_bytecode(frame_at(wrapper, 2, frame_at(code, 8)))


def test_a_line_is_that_of_the_innermost_frame_of_the_user():
    def next_plain(origin):
        return origin.matches_line(sys._getframe(2))

    def issue_next(origin):
        return next_plain(origin)

    def called(origin):
        return issue_next(origin)  # the line of the call

    line = called.__code__.co_firstlineno + 1
    assert called(StepOrigin(SourceLine(__file__, line)))
    assert not called(StepOrigin(SourceLine(__file__, line + 1)))
