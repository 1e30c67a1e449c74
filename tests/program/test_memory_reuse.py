"""Rooms: in whatever order instructions start, no more lives in a memory than it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import UINT8
from trnsim.isa import DmaCopy, Engine, Memset, TensorCopy
from trnsim.memory import Memory, Tile, capacity_bytes
from trnsim.program import fit_programs
from trnsim.program.memory_reuse import add_reuse_waits
from trnsim.timing import timelines
from trnsim.timing.compiler_policy import policy_of
from trnsim.timing.occupancy import occupancy, tensor_lifetimes

HBM, SBUF, PSUM = Memory.HBM, Memory.SBUF, Memory.PSUM
ROWS = 4


def before(program, index):
    return {*program.waits_for(index), *program.follows(index)}


def test_a_program_whose_tensors_all_have_room_at_once_is_left_alone(bench, core):
    for memory in (SBUF, PSUM):
        work = bench(core, has_values=False)
        half = capacity_bytes(core, memory) // 2
        for _ in range(2):
            work.issue(Memset(work.empty((1, half), UINT8, memory), 0))
        assert add_reuse_waits(work.program, [memory]) is work.program
        work.issue(Memset(work.empty((1, 1), UINT8, memory), 0))
        assert add_reuse_waits(work.program, [memory]) is not work.program


def test_a_tensor_begins_after_all_accesses_to_the_one_whose_room_it_takes(bench, core_v3):
    work = bench(has_values=False)
    size = capacity_bytes(core_v3, SBUF) // 2
    target = work.empty((1, size), UINT8, HBM)
    first, second, third, fourth = (work.empty((1, size), UINT8) for _ in range(4))
    work.issue(Memset(first, 0))
    work.issue(DmaCopy(target, first))  # 1
    work.issue(Memset(second, 0))
    work.issue(Memset(third, 0))  # 3
    work.issue(DmaCopy(fourth, target))  # 4: it waits for what stored there, and for the second
    program = add_reuse_waits(work.program, [SBUF])
    assert program.issued is work.program
    assert [sorted(before(program, index)) for index in range(5)] == [[], [0], [], [0, 1], [1, 2]]
    assert list(program.follows(3)) == [0], "an engine writes after itself without waiting"


def test_each_part_of_a_tensor_begins_after_the_one_before(bench, core_v3):
    work = bench(has_values=False)
    size = capacity_bytes(core_v3, SBUF)
    source = work.empty((1, size // 2), UINT8, HBM)
    work.issue(Memset(work.empty((1, size), UINT8), 0))
    whole = work.empty((1, size), UINT8)
    halves = [
        Tile(whole.storage, UINT8, whole.pattern.slice(1, start, start + size // 2))
        for start in (0, size // 2)
    ]
    for half in halves:
        work.issue(DmaCopy(half, source))
    work.issue(TensorCopy(halves[0], halves[1]))
    program = add_reuse_waits(work.program, [SBUF])
    assert [sorted(before(program, index)) for index in range(4)] == [[], [0], [0], [1, 2]]


def test_loads_of_a_loop_run_ahead_as_far_as_there_is_room(bench, core):
    work = bench(core, has_values=False)
    size = capacity_bytes(core, SBUF) // 8
    source, target = (work.empty((128, size), UINT8, HBM) for _ in range(2))
    for _ in range(40):
        tile, made = (work.empty((128, size), UINT8) for _ in range(2))
        work.issue(DmaCopy(tile, source))
        work.issue(TensorCopy(made, tile))
        work.issue(DmaCopy(target, made))
    (program,), exceeded = fit_programs([work.program], "raise")
    assert not exceeded
    used = occupancy(timelines([program])[0], SBUF)
    assert used.peak_bytes > capacity_bytes(core, SBUF) // 2
    assert used.peak_bytes <= capacity_bytes(core, SBUF)
    without = occupancy(timelines([work.program])[0], SBUF)
    assert without.peak_bytes > capacity_bytes(core, SBUF), "unbounded loads would not fit"


ENGINES = (Engine.vector, Engine.scalar, Engine.gpsimd)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["new", "add", "load", "store"]),
        st.integers(0, 5),
        st.integers(1, 4),
        st.sampled_from(ENGINES),
    ),
    max_size=60,
)


def work_of(bench, steps, memory):
    """A program of tensors of several sizes on all engines; four at most live at once."""
    work = bench(has_values=False)
    quarter = capacity_bytes(work.core, memory) // 4 // 4
    tiles = []
    hbm = work.empty((ROWS, 4 * quarter), UINT8, HBM)
    for what, which, size, engine in steps:
        if not tiles or what in ("new", "load"):
            tile = work.empty((ROWS, size * quarter), UINT8, memory)
            tiles = [*tiles[-3:], tile]
            part = Tile(hbm.storage, UINT8, hbm.pattern.slice(1, 0, size * quarter))
            is_load = what == "load" and memory is SBUF
            work.issue(DmaCopy(tile, part) if is_load else Memset(tile, size))
        elif what == "store" and memory is SBUF:
            tile = tiles[which % len(tiles)]
            stored = Tile(hbm.storage, UINT8, hbm.pattern.slice(1, 0, tile.shape[1]))
            work.issue(DmaCopy(stored, tile))
        else:
            one, other = tiles[which % len(tiles)], tiles[-1]
            width = min(one.shape[1], other.shape[1])
            source, made = (
                Tile(tile.storage, UINT8, tile.pattern.slice(1, 0, width)) for tile in (one, other)
            )
            chosen = engine if memory is SBUF else Engine.vector
            if source.storage is not made.storage:
                work.issue(TensorCopy(made, source, engine=chosen))
    return work


@pytest.mark.parametrize("memory", [SBUF, PSUM])
@given(steps=STEPS)
def test_no_order_holds_more_than_there_is(bench, memory, steps):
    program = work_of(bench, steps, memory).program
    made = add_reuse_waits(program, [memory])
    for name in ("compiler", "issued"):
        (timeline,) = timelines([made], policy_of(name))
        assert len(timeline) == len(program)
        assert occupancy(timeline, memory).peak_bytes <= capacity_bytes(program.core, memory)
    for index in range(len(made)):
        assert before(program, index) <= before(made, index)
        assert all(earlier < index for earlier in before(made, index))


def test_a_life_ends_with_its_last_access_in_time(bench):
    """Two engines read one tile; the first of them in the order of issue is the last in time."""
    work = bench(has_values=False)
    tile = work.empty((128, 1024), UINT8)
    slow, quick = work.empty((128, 1024), UINT8), work.empty((128, 8), UINT8)
    few = Tile(tile.storage, UINT8, tile.pattern.slice(1, 0, 8))
    work.issue(Memset(tile, 0))
    work.issue(TensorCopy(slow, tile, engine=Engine.gpsimd))
    work.issue(TensorCopy(quick, few, engine=Engine.vector))
    timeline = work.timeline
    spans = list(timeline.spans())
    assert spans[1].busy_until_s > spans[2].busy_until_s
    found = tensor_lifetimes(timeline, SBUF)
    assert found.end_s[0] == spans[1].busy_until_s
    assert found.begin_s.tolist() == [span.start_s for span in spans]
