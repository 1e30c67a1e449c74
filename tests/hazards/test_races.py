"""Happens-before between two cores: by the detector alone, and in kernels, racy and repaired."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import DataRace, SourceLine
from trnsim.hazards import RaceDetector
from trnsim.hazards.races import _distinct_ticks

A = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
HERE, THERE = SourceLine("kernel.py", 1), SourceLine("kernel.py", 2)


@pytest.mark.parametrize("after", [0, 3, 4, 99, 100])
@pytest.mark.parametrize("ticks", [[], [0], [4, 4, 1], [3, 1, 2, 4], [*range(101)], [7, *range(9)]])
def test_each_tick_after_the_last_meeting_once(ticks, after):
    assert sorted(_distinct_ticks(np.array(ticks, np.int64), after)) == sorted(
        {tick for tick in ticks if tick > after}
    )


def accesses(first, second, *, swapped, joined=False, is_strict=True):
    """Core 0 does `first` and core 1 `second`, both (reads, writes); in the other order too."""
    detector = RaceDetector(2, is_strict=is_strict)
    turns = [(0, first, HERE), (1, second, THERE)]
    for core, (reads, writes), line in reversed(turns) if swapped else turns:
        detector.before(core, writes)
        for tile in writes:
            tile.array[...] = core + 1
        detector.accessed(core, reads, writes, line)
        if joined:
            meet(detector, (*reads, *writes)[0])
    return detector


def meet(detector, tile=None):
    """Both cores meet: at a barrier on a tile, or in an exchange."""
    detector.meets((0, 1), [] if tile is None else [tile])
    for core in (0, 1):
        detector.accessed(core, [], [], None)


@pytest.fixture(params=[False, True], ids=["core 0 first", "core 1 first"])
def swapped(request):
    return request.param


KINDS = {
    "write and write": lambda tile: (([], [tile]), ([], [tile])),
    "write and read": lambda tile: (([], [tile]), ([tile], [])),
    "read and write": lambda tile: (([tile], []), ([], [tile])),
    "both and read": lambda tile: (([tile], [tile]), ([tile], [])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_accesses_of_which_one_writes_race_whoever_ran_first(shared, kind, swapped):
    with pytest.raises(DataRace, match="nothing orders the two") as caught:
        accesses(*KINDS[kind](shared[0:4]), swapped=swapped)
    assert all(f"at {line}" in caught.value.reason for line in (HERE, THERE))
    assert caught.value.line == (HERE if swapped else THERE)
    assert "core_barrier" in caught.value.fix


@pytest.mark.parametrize("kind", KINDS)
def test_a_join_between_them_orders_them(shared, kind, swapped):
    pair = KINDS[kind](shared[0:4])
    assert accesses(*pair, swapped=swapped, joined=True).races == []


def test_two_reads_are_no_race(shared, swapped):
    assert accesses(([shared[0:4]], []), ([shared[0:4]], []), swapped=swapped).races == []


def test_strided_neighbours_are_no_race(shared, swapped):
    even, odd = shared[0:16:2], shared[1:16:2]
    assert accesses(([], [even]), ([], [odd]), swapped=swapped).races == []


def test_one_common_element_of_two_strides_is_a_race(shared, swapped):
    with pytest.raises(DataRace):
        accesses(([], [shared[0:16:2]]), ([shared[14:16]], []), swapped=swapped)


def test_adjacent_ranges_are_no_race_and_overlapping_ones_are(shared, swapped):
    accesses(([], [shared[0:4]]), ([], [shared[4:8]]), swapped=swapped)
    with pytest.raises(DataRace):
        accesses(([], [shared[0:5]]), ([], [shared[4:8]]), swapped=swapped)


def test_a_core_never_races_with_itself(shared):
    detector = RaceDetector(2)
    for _ in range(3):
        detector.accessed(0, [shared[0:4]], [shared[0:4]], HERE)
    assert detector.races == []


def test_a_join_orders_what_came_before_it_and_not_what_comes_after(shared):
    detector = RaceDetector(2)
    detector.accessed(0, [], [shared[0:4]], HERE)
    meet(detector, shared[0:4])
    detector.accessed(1, [shared[0:4]], [], THERE)
    with pytest.raises(DataRace, match=r"writes .* while the other reads"):
        detector.accessed(0, [], [shared[0:4]], HERE)


def test_an_old_write_is_remembered_under_newer_ones_elsewhere(shared):
    detector = RaceDetector(2)
    detector.accessed(0, [], [shared[0:4]], HERE)
    for _ in range(5):
        detector.accessed(0, [], [shared[8:12]], SourceLine("kernel.py", 9))
    with pytest.raises(DataRace, match=r"kernel\.py:1:"):
        detector.accessed(1, [shared[0:4]], [], THERE)


def test_two_writes_of_the_same_values_are_no_race_and_of_others_are(shared, swapped):
    tile, other = shared[0:4], shared[2:6]
    detector = RaceDetector(2)
    first, second = (1, 0) if swapped else (0, 1)
    for core in (first, second):
        tile.array[...] = 7
        detector.accessed(core, [], [tile], HERE)
    (doubtful,) = detector.doubtful
    assert "nothing orders the two: the bytes are equal for these inputs" in str(doubtful)
    other.array[:, 2:] = 8
    detector.accessed(second, [], [other], THERE)
    other.array[:, 1] = 8
    with pytest.raises(DataRace, match=r"writes .* while the other writes"):
        detector.accessed(second, [], [other], THERE)


def test_a_core_that_reads_what_the_other_writes_races_whatever_the_values(shared, swapped):
    tile = shared[0:4]
    detector = RaceDetector(2)
    for core in (0, 1):
        detector.accessed(core, [], [tile], HERE)
    with pytest.raises(DataRace, match=r"reads .* while the other writes"):
        detector.accessed(int(swapped), [tile], [], THERE)


@pytest.mark.parametrize("seed", range(40))
def test_random_accesses_race_where_an_element_has_two_of_which_one_writes(shared, seed):
    """The oracle is a dictionary: per core and element, whether it was read, and the last value."""
    random = np.random.default_rng(seed)
    detector = RaceDetector(2, is_strict=False)
    read, wrote = (set(), set()), ({}, {})
    races = doubtful = 0
    for number in range(12):
        core, writes = int(random.integers(2)), bool(random.integers(2))
        # Apart at first: a half for each core.
        first, last = (8 * core, 8 * core + 8) if number < 6 else (0, 16)
        start, stop = sorted(random.choice(np.arange(first, last + 1), 2, replace=False))
        part = slice(int(start), int(stop), int(random.integers(1, 4)))
        tile, elements, value = shared[part], range(16)[part], int(random.integers(2))
        line, peer = SourceLine("kernel.py", number), 1 - core
        detector.before(core, [tile] * writes)
        before = [wrote[peer][element] for element in elements if element in wrote[peer]]
        if writes:
            tile.array[...] = value
            races += any(theirs != value for theirs in before)
            doubtful += any(theirs == value for theirs in before)
            races += not read[peer].isdisjoint(elements)
            wrote[core].update(dict.fromkeys(elements, value))
        else:
            races += bool(before)
            read[core].update(elements)
        detector.accessed(core, [tile] * (not writes), [tile] * writes, line)
    assert (len(detector.races), len(detector.doubtful)) == (races, doubtful)


def test_where_it_is_not_strict_each_pair_of_lines_is_reported_once(shared):
    pair = ([], [shared[0:4]]), ([shared[0:4]], [])
    detector = accesses(*pair, swapped=False, is_strict=False)
    detector.accessed(1, [shared[0:4]], [], THERE)
    assert len(detector.races) == 1
    detector.accessed(1, [shared[0:4]], [], HERE)
    assert len(detector.races) == 2


def test_a_barrier_on_one_tensor_orders_no_other(shared, bench, swapped):
    z = bench().empty((1, 4), memory=trnsim.memory.Memory.HBM)
    first, second = (1, 0) if swapped else (0, 1)
    detector = RaceDetector(2, is_strict=False)
    detector.accessed(first, [], [shared[0:4]], HERE)
    detector.accessed(first, [], [z], HERE)
    meet(detector, z)
    detector.accessed(second, [z], [], THERE)
    assert detector.races == []
    detector.accessed(second, [shared[0:4]], [], THERE)
    assert len(detector.races) == 1


@pytest.mark.parametrize("link", [0, 1, 2])
def test_what_waits_for_what_orders_across_a_meeting(shared, link):
    """Write, then what waits for it; a meeting; then a read that waits for the meeting."""
    for missing in (None, link):
        detector = RaceDetector(2, is_strict=False)
        waits = [[place] if missing != number else [] for number, place in enumerate((0, 1, 0))]
        detector.accessed(0, [], [shared[0:4]], HERE)
        detector.accessed(0, [], [], None, waits[0])
        detector.meets((0, 1))
        detector.accessed(0, [], [], None, waits[1])
        detector.accessed(1, [], [], None)
        detector.accessed(1, [shared[0:4]], [], THERE, waits[2])
        assert len(detector.races) == (missing is not None)


def test_each_of_several_writes_must_be_ordered(shared):
    detector = RaceDetector(2)
    detector.accessed(0, [], [shared[0:4]], HERE)
    detector.accessed(0, [], [shared[4:8]], SourceLine("kernel.py", 9))
    detector.meets((0, 1))
    detector.accessed(0, [], [], None, [1])
    detector.accessed(1, [], [], None)
    detector.accessed(1, [shared[4:8]], [], THERE, [0])
    with pytest.raises(DataRace, match=r"kernel\.py:1:"):
        detector.accessed(1, [shared[0:8]], [], THERE, [0])


# Kernels


def exchanging(order, *, writer=0):
    """The writer fills a shared tensor, the other reads it; `order` stands between the two."""

    WRITER[0] = writer

    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        box = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        if rank == writer:
            nisa.dma_copy(dst=box, src=tile)
        order(box, tile)
        if rank != writer:
            nisa.dma_copy(dst=tile, src=box)
            nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel[2]


def by_barrier(box, _):
    nisa.core_barrier(box, (0, 1))


def by_sendrecv(_, tile):
    other = 1 - nl.program_id(0)
    received = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=tile, dst=received, send_to_rank=other, recv_from_rank=other, pipe_id=0)


def by_sendrecv_of_it(box, tile):
    """What the writer sends is what it has read back; what the reader got, it overwrites later."""
    nisa.dma_copy(dst=tile, src=box) if nl.program_id(0) == WRITER[0] else None
    by_sendrecv(box, tile)


def by_barrier_of_a_copy(box, tile):
    """What the barrier guards was copied from the tensor by the writer, and is read before it."""
    copied = nl.ndarray(box.shape, dtype=box.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == WRITER[0]:
        nisa.dma_copy(dst=copied, src=box)
    nisa.core_barrier(copied, (0, 1))
    if nl.program_id(0) != WRITER[0]:
        nisa.dma_copy(dst=tile, src=copied)


WRITER = [0]


def by_barrier_elsewhere(_, tile):
    """A barrier on a tensor that has nothing to do with it."""
    z = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.core_barrier(z, (0, 1))


def by_delay(_, tile):
    """What orders nothing: work of its own."""
    for _ in range(20):
        nisa.tensor_copy(dst=tile, src=tile)


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("order", [by_barrier, by_sendrecv_of_it, by_barrier_of_a_copy])
def test_a_barrier_and_an_exchange_of_the_tensor_order_a_read_after_a_write(order, writer):
    np.testing.assert_array_equal(trnsim.run(exchanging(order, writer=writer), A).outputs, A)


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("order", [by_delay, by_barrier_elsewhere, by_sendrecv])
def test_time_and_meetings_over_other_tensors_order_nothing(writer, numerics, order):
    with pytest.raises(DataRace, match="nothing orders the two") as caught:
        trnsim.run(exchanging(order, writer=writer), A, numerics=numerics)
    assert "with this tensor as data" in caught.value.fix


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_write_after_the_other_core_read_is_a_race_without_a_barrier(writer, is_ordered):
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        if is_ordered:
            nisa.core_barrier(a, (0, 1))
        if rank == writer:
            nisa.memset(dst=tile, value=-1.0)
            nisa.dma_copy(dst=a, src=tile)
        nisa.dma_copy(dst=out[rank], src=tile)
        return out

    if is_ordered:
        outputs = trnsim.run(kernel[2], A.copy()).outputs
        np.testing.assert_array_equal(outputs[1 - writer], A)
    else:
        with pytest.raises(DataRace):
            trnsim.run(kernel[2], A.copy())


@pytest.mark.parametrize("reach", [8, 9])
def test_halves_of_one_tensor_race_as_soon_as_they_overlap(reach):
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(rank))
        mine = slice(0, reach) if rank == 0 else slice(8, 16)
        nisa.dma_copy(dst=out[:, mine], src=tile[:, mine])
        return out

    if reach == 8:
        expected = A + np.repeat(np.float32([0, 1]), 8)
        np.testing.assert_array_equal(trnsim.run(kernel[2], A).outputs, expected)
    else:
        with pytest.raises(DataRace, match=r"writes .* while the other writes"):
            trnsim.run(kernel[2], A)


@pytest.mark.parametrize("numerics", [True, False])
def test_a_kernel_that_does_not_divide_its_work_is_in_doubt(numerics):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        nisa.dma_copy(dst=out, src=tile)
        return out

    run = trnsim.run(kernel[2], A, numerics=numerics)
    if numerics:
        np.testing.assert_array_equal(run.outputs, A)
    (warning,) = run.warnings
    assert run.doubtful == (warning,)
    why = "are equal for these inputs" if numerics else "could not be judged, as the run has no val"
    assert "nothing orders the two: " in warning
    assert why in warning
    assert __file__ in warning


def test_equal_bytes_are_no_excuse_for_a_read():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nisa.dma_copy(dst=out, src=tile)
        nisa.dma_copy(dst=tile, src=out)
        return out

    for numerics in (True, False):
        with pytest.raises(DataRace, match=r"one core (reads|writes) .* while the other"):
            trnsim.run(kernel[2], A, numerics=numerics)


def test_an_index_that_picks_the_same_row_for_the_same_values_is_no_race():
    @nki.jit
    def kernel(a, rows):
        tile = nl.ndarray((4, 16), dtype=a.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=-1.0)
        nisa.dma_copy(dst=by_rows(a, rows), src=tile)
        return a

    rows = np.array([[[0], [2], [4], [6]], [[1], [3], [5], [6]]], np.int32)
    expected = [True] * 7 + [False]
    outputs = trnsim.run(kernel[2], A.copy(), rows).outputs
    assert (outputs == -1).all(axis=1).tolist() == expected


def test_private_tensors_never_race():
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        mine = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
        out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=mine, src=a)
        nisa.dma_copy(dst=out[rank], src=mine)
        return out

    np.testing.assert_array_equal(trnsim.run(kernel[2], A).outputs, [A, A])


def test_races_are_warnings_of_the_run_on_demand():
    run = trnsim.run(exchanging(by_delay), A, races="warn")
    assert len(run.warnings) == 1
    assert "nothing orders the two" in run.warnings[0]


@pytest.mark.parametrize("order", [by_barrier, by_sendrecv_of_it, by_barrier_of_a_copy])
def test_without_values_a_barrier_orders_as_with_values(order):
    run = trnsim.run(exchanging(order), A, numerics=False)
    assert len(run.program) == len(trnsim.run(exchanging(order), A).program)


def test_without_values_a_race_is_found_too():
    with pytest.raises(DataRace):
        trnsim.run(exchanging(by_delay), A, numerics=False)


def by_register(a, rows):
    """The row that a register names: 1 on core 0, 2 on core 1."""
    del rows
    return a.ap([[16, 1], [1, 16]], scalar_offset=nisa.register_alloc(1 + nl.program_id(0)))


def by_rows(a, rows):
    """The rows that an index tensor names: even on core 0, odd on core 1."""
    index = nl.load(rows[nl.program_id(0)])
    return a.ap([[16, 4], [1, 16]], vector_offset=index)


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("chosen", [by_register, by_rows])
def test_rows_that_an_index_picks_apart_are_no_race(chosen, numerics):
    @nki.jit
    def kernel(a, rows):
        target = chosen(a, rows)
        tile = nl.ndarray(target.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=-1.0 - nl.program_id(0))
        nisa.dma_copy(dst=target, src=tile)
        return a

    rows = np.arange(8, dtype=np.int32).reshape(4, 2).T.reshape(2, 4, 1).copy()
    run = trnsim.run(kernel[2], A.copy(), rows, numerics=numerics)
    if numerics:
        changed = {by_register: [0, -1, -2] + [0] * 5, by_rows: [-1, -2] * 4}[chosen]
        for row, value in enumerate(changed):
            expected = np.full(16, value) if value else A[row]
            np.testing.assert_array_equal(run.outputs[row], expected)
    assert run.warnings == ()


def test_an_index_that_picks_a_row_of_the_other_core_is_a_race():
    @nki.jit
    def kernel(a, rows):
        tile = nl.ndarray((4, 16), dtype=a.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=-1.0 - nl.program_id(0))
        nisa.dma_copy(dst=by_rows(a, rows), src=tile)

    rows = np.array([[[0], [2], [4], [6]], [[1], [3], [5], [6]]], np.int32)
    with pytest.raises(DataRace, match=r"writes .* while the other writes"):
        trnsim.run(kernel[2], A.copy(), rows)
