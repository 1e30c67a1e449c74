"""Programs in columns: what is recorded and what can be asked of it."""

from array import array
from itertools import accumulate

from trnsim.dtypes import BFLOAT16, UINT8
from trnsim.errors import SourceLine
from trnsim.isa import DmaCopy, Engine, Memset, TensorCopy
from trnsim.memory import Memory
from trnsim.program import Program
from trnsim.program.dependencies import Before
from trnsim.program.program import Successors


def test_an_empty_program_has_no_instructions(core_v3):
    assert len(Program(core_v3)) == 0


def test_lines_and_dependences_are_those_that_were_appended(core_v3):
    program = Program(core_v3)
    first, second = SourceLine("k.py", 3), SourceLine("k.py", 4)
    comes_after = [Before([], []), Before([0], []), Before([], [1]), Before([0, 2], [1])]
    for line, before in zip((first, None, second, first), comes_after, strict=True):
        program.append(0, before, line)
    assert [program.line(i) for i in range(4)] == [first, None, second, first]
    assert [list(program.waits_for(i)) for i in range(4)] == [[], [0], [], [0, 2]]
    assert [list(program.follows(i)) for i in range(4)] == [[], [], [1], [1]]
    assert program.lines == [first, second]


def test_an_instruction_is_described_by_its_operands(bench):
    work = bench()
    work.issue(Memset(work.empty((4, 4), BFLOAT16, name="acc"), 0))
    checked = work.program.instruction(0)
    assert (checked.opcode, checked.engine) == ("memset", Engine.vector)
    assert "dst=" in checked.describe()
    assert "SBUF [4, 4] bfloat16" in checked.describe()
    assert checked.dims == {"P": 4, "F": 4}
    assert checked.cost == work.cost(checked.instruction)


def test_a_record_holds_no_values(bench, random):
    work = bench()
    work.issue(TensorCopy(work.empty((4, 4)), work.tile(random((4, 4)))))
    tiles = [tile for _, tile in work.program.checked[0].instruction.tiles()]
    assert len(tiles) == 2
    assert all(tile.storage.data is None for tile in tiles)


def test_a_use_goes_from_the_first_write_to_the_last_read_or_write(bench):
    work = bench(has_values=False)
    a, b = work.empty((2, 8), UINT8, name="a"), work.empty((2, 8), UINT8, name="b")
    work.issue(Memset(b, 0))
    work.issue(Memset(a, 0))
    work.issue(TensorCopy(b, a))
    work.issue(Memset(b, 1))
    uses = {use.name: use for use in work.program.uses.values()}
    assert (uses["a"].first_write, uses["a"].last_use) == (1, 2)
    assert (uses["b"].first_write, uses["b"].last_use) == (0, 3)
    assert (uses["a"].memory, uses["a"].row_bytes) == (Memory.SBUF, 8)
    assert uses["a"].line == a.storage.line


def test_placed_tensors_have_no_recorded_life_and_hbm_tensors_what_moved(bench):
    work = bench(has_values=False)
    placed = work.empty((2, 8), UINT8, address=(0, 0))
    source = work.empty((2, 8), UINT8, Memory.HBM, name="source")
    target = work.empty((2, 8), UINT8, Memory.HBM, name="target")
    work.issue(DmaCopy(placed, source))
    work.issue(DmaCopy(placed, source))
    work.issue(DmaCopy(target, placed))
    source_use, target_use = work.program.uses.values()
    assert (source_use.name, source_use.first_write, source_use.last_use) == ("source", -1, 1)
    assert (source_use.nbytes, source_use.reads, source_use.read_bytes) == (16, 2, 32)
    assert (target_use.first_write, target_use.written_bytes, target_use.reads) == (2, 16, 0)
    serials = [source.storage.serial, source.storage.serial, target.storage.serial]
    assert list(work.program.tensor_of) == serials


def test_the_successors_of_an_instruction_are_in_the_order_of_the_program():
    count = 400  # of few, any sort is stable
    rows = [[], *([0] for _ in range(1, count)), [count - 1, 0, 1]]
    before = array("l", [one for row in rows for one in row])
    starts = array("l", [0, *accumulate(map(len, rows))])
    followed = Successors(before, starts)
    assert list(followed.of(0)) == [*range(1, count), count]
    assert [list(followed.of(index)) for index in (1, 2, count - 1, count)] == [
        *([count], [], [count], []),
    ]
    assert followed.counts.tolist() == [len(row) for row in rows]
