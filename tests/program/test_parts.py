"""Parts of tensors in SBUF: where they are cut, and when their data are needed again."""

from trnsim.dtypes import UINT8
from trnsim.isa import DmaCopy, Memset, TensorCopy, TensorScalar
from trnsim.memory import Memory, Tile
from trnsim.program.parts import MIN_PART_BYTES, NEVER, Access, AccessKind, Division

HBM = Memory.HBM
USE, CHANGE, FILL = AccessKind.USE, AccessKind.CHANGE, AccessKind.FILL
SHORT = MIN_PART_BYTES


def columns(tile, start, end):
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(1, start, end))


def rows(tile, start, end):
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(0, start, end))


def test_a_program_without_tensors_in_sbuf_has_no_parts(bench):
    work = bench(has_values=False)
    assert (
        Division(work.program, Memory.SBUF).parts,
        Division(work.program, Memory.SBUF).peak_bytes(),
    ) == ([], 0)
    work.issue(Memset(work.empty((1, 8), UINT8, address=(0, 0)), 0))
    work.issue(Memset(work.empty((1, 8), UINT8, Memory.PSUM), 0))
    assert (
        Division(work.program, Memory.SBUF).parts,
        Division(work.program, Memory.SBUF).accesses,
    ) == ([], [[], []])


def test_a_tensor_is_cut_where_accesses_begin_and_end(bench):
    work = bench(has_values=False)
    tile = work.empty((3, 4 * SHORT), UINT8)
    work.issue(Memset(columns(tile, 0, SHORT), 0))
    work.issue(Memset(columns(tile, SHORT, 4 * SHORT), 0))
    work.issue(Memset(tile, 1))
    division = Division(work.program, Memory.SBUF)
    assert [part[1:] for part in division.parts] == [(0, SHORT, 3), (SHORT, 3 * SHORT, 3)]
    assert [part.nbytes for part in division.parts] == [3 * SHORT, 9 * SHORT]
    assert {part.serial for part in division.parts} == {tile.storage.serial}
    assert division.accesses == [
        [Access(0, FILL, NEVER)],
        [Access(1, FILL, NEVER)],
        [Access(0, FILL, NEVER), Access(1, FILL, NEVER)],
    ]


def test_no_part_is_shorter_than_transfers_like_it_except_a_whole_tensor(bench):
    work = bench(has_values=False)
    tile, short = work.empty((1, 2 * SHORT + 1), UINT8), work.empty((1, 1), UINT8)
    for end in (1, SHORT - 1, SHORT, SHORT + 1, SHORT + 2, 2 * SHORT):
        work.issue(Memset(columns(tile, 0, end), 0))
    work.issue(Memset(short, 0))
    lengths = [part.row_bytes for part in Division(work.program, Memory.SBUF).parts]
    assert lengths == [SHORT, SHORT + 1, 1]


def test_data_are_needed_until_the_last_use_before_they_are_overwritten(bench):
    work = bench(has_values=False)
    a, b = work.empty((2, 8), UINT8), work.empty((2, 8), UINT8)
    work.issue(Memset(a, 0))  # 0
    work.issue(TensorCopy(b, a))  # 1
    work.issue(TensorCopy(b, a))  # 2
    work.issue(Memset(a, 1))  # 3
    work.issue(TensorScalar(a, a, "add", 1))  # 4
    first, second = 0, 1
    assert Division(work.program, Memory.SBUF).accesses == [
        [Access(first, FILL, 1)],
        [Access(first, USE, 2), Access(second, FILL, NEVER)],
        [Access(first, USE, NEVER), Access(second, FILL, NEVER)],
        [Access(first, FILL, 4)],
        [Access(first, CHANGE, NEVER)],
    ]


def test_a_write_to_some_rows_or_columns_or_every_other_byte_needs_the_rest(bench):
    for change in (
        lambda tile: rows(tile, 0, 1),
        lambda tile: columns(tile, 0, 7),
        lambda tile: Tile(tile.storage, tile.dtype, tile.pattern.slice(1, 0, 8, 2)),
    ):
        work = bench(has_values=False)
        tile = work.empty((2, 8), UINT8)
        work.issue(Memset(tile, 0))
        work.issue(Memset(change(tile), 1))
        accesses = Division(work.program, Memory.SBUF).accesses
        assert accesses == [[Access(0, FILL, 1)], [Access(0, CHANGE, NEVER)]]


def test_the_peak_is_that_of_parts_and_not_of_tensors(bench):
    work = bench(has_values=False)
    tile, source = work.empty((1, 4 * SHORT), UINT8), work.empty((1, SHORT), UINT8, HBM)
    target = work.empty((1, SHORT), UINT8, HBM)
    for start in range(0, 4 * SHORT, SHORT):
        work.issue(DmaCopy(columns(tile, start, start + SHORT), source))
        work.issue(DmaCopy(target, columns(tile, start, start + SHORT)))
    assert Division(work.program, Memory.SBUF).peak_bytes() == SHORT
    work.issue(Memset(columns(tile, 0, SHORT), 0))
    work.issue(TensorCopy(columns(tile, SHORT, 2 * SHORT), columns(tile, 0, SHORT)))
    assert Division(work.program, Memory.SBUF).peak_bytes() == 2 * SHORT
