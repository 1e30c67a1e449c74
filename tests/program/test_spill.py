"""Spills: what gives way, what waits for what, and that no data are lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import FLOAT32, UINT8
from trnsim.errors import OutOfMemory
from trnsim.isa import DmaCopy, Engine, Memset, TensorCopy, TensorScalar, TensorTensor
from trnsim.memory import Memory, Tile, capacity_bytes
from trnsim.program import fit_programs, peak
from trnsim.program.spill import NEXT, insert_spills
from trnsim.timing import timelines
from trnsim.timing.occupancy import occupancy

SBUF, PSUM, HBM = Memory.SBUF, Memory.PSUM, Memory.HBM
ROWS = 128


def full(core):
    return int(core.sbuf_partition_bytes)


def moves(program):
    """ "-a" for each save of tensor a and "+a" for each reload, in order."""
    found = []
    for index in range(len(program)):
        checked = program.instruction(index)
        if checked.is_spill:
            move = checked.instruction
            sign = "-" if NEXT.get(move.src.memory) is move.dst.memory else "+"
            found.append(sign + move.dst.storage.name.removeprefix("spill of "))
    return found


def halves(work, *names, share=2):
    """Tensors of which `share` are more than a partition holds."""
    size = int(full(work.core) // share) + 1
    return [work.empty((ROWS, size), UINT8, name=name) for name in names]


def test_a_program_of_which_all_parts_fit_needs_no_transfers(bench, core):
    work = bench(core, has_values=False)
    tile = work.empty((ROWS, full(core)), UINT8)
    work.issue(Memset(tile, 0))
    work.issue(TensorScalar(tile, tile, "add", 1))
    found = insert_spills(work.program)
    assert (found.saved_bytes, found.reloaded_bytes, found.largest) == (0, 0, None)
    assert list(found.program.which) == list(work.program.which)
    assert found.program.issued is work.program is work.program.issued


def test_what_has_no_room_is_saved_once_and_reloaded_when_it_is_needed(bench, core):
    work = bench(core, has_values=False)
    a, b = halves(work, "a", "b")
    for tile in (a, b, a, b, a):
        first = tile.storage.name not in [use.name for use in work.program.uses.values()]
        out = work.empty((ROWS, 1), UINT8)
        work.issue(
            Memset(tile, 0) if first else TensorCopy(out, Tile(tile.storage, UINT8, part(tile)))
        )
    found = insert_spills(work.program)
    assert moves(found.program) == ["-a", "-b", "+a", "+b", "+a"]
    assert found.saved_bytes == 2 * a.nbytes
    assert found.reloaded_bytes == 3 * a.nbytes
    assert found.largest.name == "a"
    assert found.program.issued is work.program


def part(tile):
    return tile.pattern.slice(1, 0, 1)


def test_what_is_needed_last_gives_way(bench):
    work = bench(has_values=False)
    a, b, c, d = halves(work, *"abcd", share=3.5)
    for tile in (a, b, c, d):
        work.issue(Memset(tile, 0))
    for tile in (d, a, c, b):
        work.issue(TensorScalar(tile, tile, "add", 1))
    assert moves(insert_spills(work.program).program)[:1] == ["-b"]


def test_a_tile_of_an_input_is_not_saved_unless_it_was_changed(bench):
    for change in (False, True):
        work = bench(has_values=False)
        a, b = halves(work, "a", "b")
        source = work.empty(a.shape, UINT8, HBM, name="source")
        target = work.empty(a.shape, UINT8, HBM)
        work.issue(DmaCopy(a, source))
        work.issue(TensorScalar(a, a, "add", 1) if change else DmaCopy(target, a))
        work.issue(Memset(b, 0))
        work.issue(DmaCopy(target, b))
        work.issue(DmaCopy(target, a))
        assert moves(insert_spills(work.program).program) == (["-a"] if change else []) + ["+a"]


@pytest.mark.parametrize("who", ["itself", "another core"])
def test_a_tile_of_a_tensor_that_is_written_later_is_saved(bench, who):
    work = bench(has_values=False)
    a, b = halves(work, "a", "b")
    source = work.empty(a.shape, UINT8, HBM)
    target = work.empty(a.shape, UINT8, HBM)
    work.issue(DmaCopy(a, source))
    work.issue(DmaCopy(target, a))
    work.issue(Memset(b, 0))
    work.issue(DmaCopy(source if who == "itself" else target, b))
    work.issue(DmaCopy(target, a))
    changed = {source.storage.serial} if who == "another core" else set()
    assert moves(insert_spills(work.program, changed).program) == ["-a", "+a"]


def test_what_is_overwritten_before_it_is_read_is_neither_saved_nor_reloaded(bench):
    work = bench(has_values=False)
    a, b = halves(work, "a", "b")
    target = work.empty(a.shape, UINT8, HBM)
    for _ in range(2):
        for tile in (a, b):
            work.issue(Memset(tile, 0))
            work.issue(DmaCopy(target, tile))
    assert moves(insert_spills(work.program).program) == []


def test_parts_of_one_tensor_give_way_one_by_one(bench, core_v3):
    work = bench(has_values=False)
    size = full(core_v3) // 8
    whole = work.empty((ROWS, 8 * size), UINT8, name="whole")
    other = work.empty((ROWS, size), UINT8, name="other")
    tiles = [
        Tile(whole.storage, UINT8, whole.pattern.slice(1, i * size, (i + 1) * size))
        for i in range(8)
    ]
    for tile in (*tiles, other, other, *tiles):
        work.issue(Memset(tile, 0))
    assert insert_spills(work.program).saved_bytes == 0, "every write is a new start"
    for tile in (*tiles, other, other, *tiles):
        work.issue(TensorScalar(tile, tile, "add", 1))
    found = insert_spills(work.program)
    assert found.saved_bytes == 2 * ROWS * size, "one tile for the other tensor, and that at last"


def test_a_load_without_room_is_put_off_until_its_data_are_needed(bench):
    work = bench(has_values=False)
    tiles = halves(work, *"abc")
    target = work.empty(tiles[0].shape, UINT8, HBM)
    for tile in tiles:
        work.issue(
            DmaCopy(tile, work.empty(tile.shape, UINT8, HBM, name=f"input {tile.storage.name}"))
        )
    for tile in tiles:
        work.issue(DmaCopy(target, tile))
    program = insert_spills(work.program).program
    assert moves(program) == []
    loads = [program.instruction(i).instruction.src.storage.memory is HBM for i in range(6)]
    assert loads == [True, False] * 3


def test_a_load_that_nothing_uses_is_made_at_the_end(bench):
    work = bench(has_values=False)
    a, b = halves(work, "a", "b")
    target, source = (work.empty(a.shape, UINT8, HBM) for _ in range(2))
    work.issue(Memset(a, 0))
    work.issue(DmaCopy(b, source))
    work.issue(DmaCopy(target, a))
    program = insert_spills(work.program).program
    assert moves(program) == []
    assert list(program.which) == [0, 2, 1]


def test_many_loads_that_nothing_uses_are_made_in_turn(bench):
    work = bench(has_values=False)
    a, b = halves(work, "a", "b")
    target, source = (work.empty(a.shape, UINT8, HBM) for _ in range(2))
    work.issue(Memset(a, 0))
    for _ in range(2000):
        work.issue(DmaCopy(b, source))
    work.issue(DmaCopy(target, a))
    work.issue(DmaCopy(target, b))
    program = insert_spills(work.program).program
    assert moves(program) == []
    assert list(program.which) == [0, 2, *[1] * 2000, 2]


def test_a_load_may_move_what_its_user_needs(bench):
    work = bench(has_values=False)
    whole = full(work.core)
    x, y, z = (
        work.empty((ROWS, whole * n // 20), UINT8, name=name)
        for n, name in ((9, "x"), (8, "y"), (12, "z"))
    )
    target, source = work.empty(y.shape, UINT8, HBM), work.empty(z.shape, UINT8, HBM)
    for tile in (x, y):
        work.issue(Memset(tile, 0))
    work.issue(DmaCopy(z, source))
    work.issue(DmaCopy(target, y))
    some = Tile(z.storage, UINT8, z.pattern.slice(1, 0, x.shape[1]))
    work.issue(TensorTensor(x, x, some, "add"))
    program = insert_spills(work.program).program
    assert moves(program) == ["-x", "+x"]
    assert peak(program, SBUF).bytes_per_partition <= whole


def test_who_needs_room_waits_for_the_save_and_who_reads_for_the_reload(bench, core):
    work = bench(core, has_values=False)
    a, b = halves(work, "a", "b")
    target = work.empty(a.shape, UINT8, HBM)
    for tile in (a, b):
        work.issue(Memset(tile, 0))
    for tile in (b, a):
        work.issue(DmaCopy(target, tile))
    program = insert_spills(work.program).program
    # 0 set a, 1 save a, 2 set b, 3 store b, 4 reload a, 5 store a
    assert moves(program) == ["-a", "+a"]
    assert [list(program.waits_for(i)) for i in range(6)] == [
        [],
        [0],
        [0, 1],
        [2],
        [0, 1, 2, 3],
        [0, 3, 4],
    ]
    (timeline,) = timelines([program])
    spans = list(timeline.spans())
    assert all(spans[i].start_s >= spans[j].end_s for i in range(6) for j in program.waits_for(i))
    assert [spans[i].opcode for i in (1, 4)] == ["dma_copy", "dma_copy"]
    assert "spill of a" in spans[1].operands
    assert spans[4].line == work.program.line(3)


def test_traffic_of_spills_is_that_of_tensors_of_their_own(bench):
    work = bench(has_values=False)
    a, b = halves(work, "a", "b")
    target = work.empty(a.shape, UINT8, HBM, name="target")
    for tile in (a, b):
        work.issue(Memset(tile, 0))
    for tile in (b, a):
        work.issue(DmaCopy(target, tile))
    program = insert_spills(work.program).program
    in_hbm = {use.name: use for use in program.uses.values() if use.memory is HBM}
    assert in_hbm.keys() == {"spill of a", "target"}
    spill = in_hbm["spill of a"]
    assert (spill.nbytes, spill.written_bytes, spill.read_bytes, spill.reads) == (
        *[a.nbytes] * 3,
        1,
    )
    assert (spill.first_write, spill.last_use, spill.is_spill) == (1, 4, True)
    assert spill.line == a.storage.line
    assert (in_hbm["target"].first_write, in_hbm["target"].last_use) == (3, 5)
    serials = {use.name: serial for serial, use in program.uses.items() if use.memory is HBM}
    moved = {1: "spill of a", 3: "target", 4: "spill of a", 5: "target"}
    assert list(program.tensor_of) == [serials[moved[i]] if i in moved else -1 for i in range(6)]
    lives = [(u.name, u.first_write, u.last_use) for u in program.uses.values() if u.memory is SBUF]
    assert lives == [("a", 0, 1), ("b", 2, 3), ("a", 4, 5)]


def test_what_one_instruction_accesses_must_fit(bench, core):
    size = full(core) // 2
    for extra in (0, 1):
        work = bench(core, has_values=False)
        a, b = work.empty((1, size), UINT8), work.empty((1, size + extra), UINT8)
        other = work.empty((1, size), UINT8)
        for tile in (a, other, b):
            work.issue(Memset(tile, 0))
        work.issue(TensorCopy(Tile(b.storage, UINT8, b.pattern.slice(1, extra, size + extra)), a))
        work.issue(TensorCopy(other, a))
        work.issue(TensorScalar(other, other, "add", 1))
        work.issue(TensorScalar(b, b, "add", 1))
        if not extra:
            assert insert_spills(work.program).saved_bytes > 0
            continue
        message = (
            f"SBUF of {core.name} holds {2 * size} bytes a partition; tensor_copy alone accesses "
            f"{2 * size + 1}"
        )
        with pytest.raises(OutOfMemory, match=message) as caught:
            insert_spills(work.program)
        assert caught.value.line == work.program.line(3)
        assert "smaller tiles" in caught.value.fix


STEPS = st.lists(
    st.tuples(st.sampled_from(["load", "set", "add", "store"]), st.integers(0, 5)), max_size=40
)


@given(STEPS, st.sampled_from([2, 3, 5]))
def test_every_instruction_finds_its_data_in_sbuf(bench, steps, share):
    """Follows data through the spilled program; each tensor is known by its length."""
    work = bench(has_values=False)
    largest = full(work.core) // share - 1
    names = range(6)
    tiles, sources, targets = (
        [work.empty((ROWS, largest - i), UINT8, memory, name=f"{i}") for i in names]
        for memory in (SBUF, HBM, HBM)
    )
    written = set()
    for number, (what, i) in enumerate(steps):
        # Numbers make instructions distinct.
        made = {
            "load": DmaCopy(tiles[i], sources[i]),
            "set": Memset(tiles[i], number),
            "add": TensorScalar(tiles[i], tiles[i], "add", number + 1),
            "store": DmaCopy(targets[i], tiles[i]),
        }
        work.issue(made[what if i in written else "load" if what == "store" else "set"])
        written.add(i)
    program = insert_spills(work.program).program
    assert peak(program, SBUF).bytes_per_partition <= full(work.core)
    assert len(program) == len(work.program) + len(moves(program))
    stays = {f"{i}": [] for i in names}
    for use in program.uses.values():
        if use.memory is SBUF:
            stays[use.name].append(range(use.first_write, use.last_use + 1))
    assert followed(program, largest, stays) == followed(work.program, largest)


def followed(program, largest, stays=None):
    """The instructions that read or set data, in order, with the history of the data."""
    in_sbuf, in_hbm, found = {}, {}, []
    for index in range(len(program)):
        checked = program.instruction(index)
        instruction = checked.instruction
        i = largest - instruction.dst.storage.pitch_bytes
        assert stays is None or any(index in stay for stay in stays[f"{i}"]), f"{i} is away"
        if isinstance(instruction, DmaCopy):
            is_load = instruction.dst.memory is SBUF
            if is_load:
                in_sbuf[i] = in_hbm.get(i, "source") if checked.is_spill else "source"
            elif checked.is_spill:
                in_hbm[i] = in_sbuf[i]
            else:
                found.append(("store", i, in_sbuf[i]))
            continue
        made = (
            instruction.value
            if isinstance(instruction, Memset)
            else (instruction.operand0, in_sbuf[i])
        )
        in_sbuf[i] = made
        found.append((i, made))
    return found


SLICES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 7), st.integers(1, 8)), max_size=30
)


@given(SLICES)
def test_whatever_is_accessed_fits_and_waits_for_what_it_waited_for(bench, slices):
    work = bench(has_values=False)
    eighth = full(work.core) // 8
    tiles = [work.empty((ROWS, full(work.core)), UINT8, name=f"{i}") for i in range(4)]
    for number, (is_set, i, start, length) in enumerate(slices):
        pattern = tiles[i].pattern.slice(1, start * eighth, min(start + length, 8) * eighth)
        tile = Tile(tiles[i].storage, UINT8, pattern)
        work.issue(Memset(tile, number) if is_set else TensorScalar(tile, tile, "add", number))
    issued, program = work.program, insert_spills(work.program).program
    assert peak(program, SBUF).bytes_per_partition <= full(work.core)
    places = [i for i in range(len(program)) if not program.instruction(i).is_spill]
    assert [program.which[place] for place in places] == list(issued.which)
    for index, place in enumerate(places):
        assert {places[one] for one in issued.waits_for(index)} <= set(program.waits_for(place))
        later = {*program.waits_for(place), *program.follows(place)}
        assert {places[one] for one in issued.follows(index)} <= later
    for index in range(len(program)):
        assert all(one < index for one in program.waits_for(index))
    (timeline,) = timelines([program])
    assert len(timeline) == len(program)


def test_what_exceeds_psum_is_copied_to_sbuf_and_back(bench, core):
    work = bench(core, has_values=False)
    half = capacity_bytes(core, PSUM) // 2 // 4
    a, b, c = (work.empty((ROWS, half), FLOAT32, PSUM, name=name) for name in "abc")
    kept = work.empty((ROWS, half), FLOAT32)
    for tile in (a, b, c):
        work.issue(Memset(tile, 0))
    for tile in (a, b, c):
        work.issue(TensorCopy(kept, tile))
    spill = insert_spills(work.program, memory=PSUM)
    program = spill.program
    assert moves(program) == ["-b", "+b"], "a is needed first, and c was just made"
    assert spill.saved_bytes == spill.reloaded_bytes == b.nbytes
    copies = [one for one in program.checked if one.is_spill]
    assert [one.opcode for one in copies] == ["tensor_copy", "tensor_copy"]
    assert {one.engine for one in copies} == {Engine.vector}
    assert peak(program, PSUM).bytes_per_partition <= capacity_bytes(core, PSUM)
    (room,) = (use for use in program.uses.values() if use.is_spill)
    assert (room.memory, room.row_bytes, room.nbytes) == (SBUF, 4 * half, b.nbytes)
    assert (room.first_write, room.last_use) == tuple(
        index for index in range(len(program)) if program.instruction(index).is_spill
    )


@pytest.mark.parametrize(("columns", "dtype"), [(8, FLOAT32), (7, UINT8), (1, UINT8)])
def test_copies_out_of_psum_move_as_many_bytes_as_there_are(bench, columns, dtype):
    work = bench(has_values=False)
    tiles = [work.empty((3, columns), UINT8, PSUM) for _ in range(2)]
    tiles.append(work.empty((3, capacity_bytes(work.core, PSUM) - columns), UINT8, PSUM))
    for tile in (*tiles, *tiles):
        work.issue(Memset(tile, 0) if tile is tiles[2] else TensorScalar(tile, tile, "add", 1))
    spill = insert_spills(work.program, memory=PSUM)
    moved = {one.instruction.dst.dtype for one in spill.program.checked if one.is_spill}
    assert spill.saved_bytes in (3 * columns, 6 * columns)
    assert moved == {dtype}


def test_what_is_moved_out_of_psum_may_be_moved_on_to_hbm(bench, core_v3):
    work = bench(has_values=False)
    in_psum = [work.empty((ROWS, capacity_bytes(core_v3, PSUM)), UINT8, PSUM) for _ in range(2)]
    in_sbuf = work.empty((ROWS, capacity_bytes(core_v3, SBUF)), UINT8, name="wide")
    work.issue(Memset(in_sbuf, 0))
    for tile in (*in_psum, *in_psum):
        work.issue(TensorScalar(tile, tile, "add", 1))
    work.issue(DmaCopy(work.empty(in_sbuf.shape, UINT8, HBM), in_sbuf))
    (program,), found = fit_programs([work.program], "spill")
    assert [str(error).split()[0] for error in found] == ["PSUM", "SBUF"]
    assert "saved to SBUF" in str(found[0])
    assert "saved to HBM" in str(found[1])
    (timeline,) = timelines([program])
    for memory in (PSUM, SBUF):
        assert peak(program, memory).bytes_per_partition <= capacity_bytes(core_v3, memory)
        assert occupancy(timeline, memory).peak_bytes <= capacity_bytes(core_v3, memory)
