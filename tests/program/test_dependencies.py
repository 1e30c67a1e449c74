"""What comes before what: racy pairs and repaired ones, and an oracle that looks at each byte."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import UINT8
from trnsim.isa import Engine
from trnsim.isa.language.declaration import State
from trnsim.memory import AccessPattern, Memory, Storage, Tile
from trnsim.program.dependencies import _MOST_PARTS, DependencyTable

V, S, G, DMA = Engine.vector, Engine.scalar, Engine.gpsimd, Engine.dma
ROWS, PITCH = 300, 8
UNIT_BYTES = 64
"""Of a column, so that a bucket has 128 rows of `PITCH` columns: 64 KiB."""


class History:
    """A table and one storage: what comes before an access to ranges of rows and bytes.

    `issue` returns what the instruction waits for, and what it follows on its own engine.
    """

    def __init__(self):
        self.table = DependencyTable()
        self.storage = Storage(Memory.HBM, ROWS * PITCH * UNIT_BYTES, PITCH * UNIT_BYTES)

    def tile(self, rows, columns=(0, PITCH)):
        whole = AccessPattern.dense((ROWS, PITCH * UNIT_BYTES), 1)
        part = whole.slice(0, *rows).slice(1, *(UNIT_BYTES * column for column in columns))
        return Tile(self.storage, UINT8, part)

    def issue(self, engine, reads=(), writes=(), after=(), states=()):
        tiles = [[self.tile(*at) for at in places] for places in (reads, writes)]
        return self.table.before(engine, *tiles, after, states)


class VectorHistory(History):
    """The same of a vector, whose rows are single bytes: as many of them as a row above has."""

    def __init__(self):
        super().__init__()
        self.storage = Storage(Memory.HBM, ROWS * PITCH * UNIT_BYTES, 1)

    def tile(self, rows, columns=(0, PITCH)):
        del columns
        whole = AccessPattern.dense((ROWS * PITCH * UNIT_BYTES,), 1)
        return Tile(
            self.storage, UINT8, whole.slice(0, *(PITCH * UNIT_BYTES * row for row in rows))
        )


@pytest.fixture
def history():
    return History()


@pytest.mark.parametrize("kind", [History, VectorHistory])
def test_a_storage_has_several_buckets(kind):
    assert len(kind().tile((0, ROWS)).layout.buckets) == 3
    assert len(kind().tile((127, 129)).layout.buckets) == 2


ALL = ((0, ROWS),)
TOP, BOTTOM = ((0, 150),), ((150, ROWS),)


def test_a_reader_waits_for_the_writer_even_on_its_own_engine(history):
    assert history.issue(V, writes=[ALL]) == ([], [])
    assert history.issue(V, reads=[ALL]) == ([0], [])
    assert history.issue(S, reads=[TOP]) == ([0], [])


def test_readers_do_not_wait_for_each_other(history):
    history.issue(V, writes=[ALL])
    history.issue(S, reads=[ALL])
    assert history.issue(G, reads=[ALL]) == ([0], [])


def test_an_overwriting_engine_waits_for_writer_and_readers_on_other_engines(history):
    history.issue(V, writes=[ALL])
    history.issue(S, reads=[ALL])
    assert history.issue(G, writes=[ALL]) == ([0, 1], [])


def test_a_compute_engine_follows_itself_without_waiting(history):
    history.issue(V, writes=[ALL])
    assert history.issue(V, writes=[ALL]) == ([], [0])
    history.issue(V, reads=[ALL])
    assert history.issue(V, writes=[ALL]) == ([], [1, 2])


def test_what_is_read_and_overwritten_is_waited_for_and_not_followed_as_well(history):
    history.issue(V, writes=[ALL])
    assert history.issue(V, reads=[TOP], writes=[ALL]) == ([0], [])


def test_what_is_named_besides_is_followed_on_the_same_compute_engine_else_waited_for(history):
    for engine in (V, S, DMA):
        history.issue(engine)
    assert history.issue(V, after=(0, 1, 2)) == ([1, 2], [0])
    assert history.issue(DMA, after=(0, 1, 2)) == ([0, 1, 2], [])


def test_state_of_an_engine_orders_the_uses_by_that_engine(history):
    for engine in (V, G):
        history.issue(engine, states=[State.generators])
    assert history.issue(V, states=[State.accumulators]) == ([], [])
    assert history.issue(V, states=[State.generators, State.accumulators]) == ([], [0, 2])
    assert history.issue(G, states=[State.generators]) == ([], [1])
    assert history.issue(V, states=[State.generators]) == ([], [3])


def test_dmas_keep_no_order_among_themselves(history):
    history.issue(DMA, writes=[ALL])
    assert history.issue(DMA, writes=[ALL]) == ([0], [])
    history.issue(DMA, reads=[ALL])
    history.issue(DMA, reads=[ALL])
    assert history.issue(DMA, writes=[ALL]) == ([1, 2, 3], [])


def test_what_does_not_overlap_is_independent(history):
    history.issue(V, writes=[TOP])
    assert history.issue(S, writes=[BOTTOM]) == ([], [])
    assert history.issue(G, reads=[BOTTOM]) == ([1], [])
    assert history.issue(DMA, writes=[(*TOP, (0, 4))]) == ([0], [])
    assert history.issue(S, reads=[(*TOP, (4, 8))]) == ([0], [])


def test_a_reader_of_several_parts_waits_for_all_their_writers(history):
    history.issue(V, writes=[TOP])
    history.issue(S, writes=[BOTTOM])
    assert history.issue(G, reads=[ALL]) == ([0, 1], [])


def test_an_overwritten_part_is_forgotten_but_waited_for_through_its_successor(history):
    history.issue(V, writes=[TOP])
    assert history.issue(S, writes=[ALL]) == ([0], [])
    assert history.issue(G, reads=[TOP]) == ([1], [])


def test_a_writer_waits_for_a_reader_of_what_nothing_had_written(history):
    assert history.issue(DMA, reads=[ALL]) == ([], [])
    assert history.issue(DMA, writes=[BOTTOM]) == ([0], [])


def test_a_writer_waits_for_a_reader_of_what_was_written_only_in_part(history):
    history.issue(V, writes=[TOP])
    assert history.issue(DMA, reads=[ALL]) == ([0], [])
    assert history.issue(S, writes=[BOTTOM]) == ([1], [])


def test_reading_one_part_does_not_hold_up_writing_another(history):
    history.issue(DMA, reads=[TOP])
    assert history.issue(DMA, writes=[BOTTOM]) == ([], [])


def test_what_straddled_two_tiles_before_does_not_tie_them_together(history):
    history.issue(S, writes=[((0, 128), (2, 6))])
    history.issue(DMA, reads=[((0, 128), (0, 4))])
    assert history.issue(V, writes=[((0, 128), (4, 8))]) == ([0], [])
    assert history.issue(V, writes=[((0, 128), (0, 4))]) == ([0, 1], [])


def test_an_instruction_never_waits_for_itself(history):
    assert history.issue(V, reads=[ALL], writes=[ALL]) == ([], [])
    assert history.issue(DMA, reads=[TOP, BOTTOM], writes=[ALL]) == ([0], [])


def test_storages_are_independent():
    one, two = History(), History()
    two.table = one.table
    one.issue(V, writes=[ALL])
    assert two.issue(S, reads=[ALL], writes=[ALL]) == ([], [])
    assert one.issue(S, reads=[ALL]) == ([0], [])


@st.composite
def rectangles(draw):
    """Rows and bytes of the storage, often across the border of a bucket of rows."""
    borders = st.sampled_from([0, 1, 100, 127, 128, 129, 200, 255, 256, 257])
    first, column = draw(borders), draw(st.integers(0, 6))
    rows, width = draw(st.sampled_from([1, 2, 30, 43])), draw(st.integers(1, PITCH - column))
    return (first, first + rows), (column, column + width)


accesses = st.tuples(
    st.sampled_from([V, S, G, DMA]),
    st.lists(rectangles(), max_size=3),
    st.lists(rectangles(), max_size=2),
    st.sets(st.integers(0, 11), max_size=1),
    st.sets(st.sampled_from([State.accumulators, State.generators]), max_size=1),
)


class Bytes:
    """The last writer of each byte and its readers since, and the last use of each state."""

    def __init__(self):
        self.writer = np.full((ROWS, PITCH), -1)
        self.readers = np.zeros((ROWS, PITCH), np.int64)  # bit i: instruction i
        self.used = {}
        self.engines = []

    def before(self, engine, reads, writes, after, states):
        """What the next instruction waits for, and what it follows."""
        index = len(self.engines)
        self.engines.append(engine)
        needed, replaced = set(), set(after)
        for rows, columns in reads:
            at = slice(*rows), slice(*columns)
            needed |= set(self.writer[at].flat)
            self.readers[at] |= 1 << index
        for rows, columns in writes:
            at = slice(*rows), slice(*columns)
            seen = int(np.bitwise_or.reduce(self.readers[at], axis=None))
            replaced |= set(self.writer[at].flat) | {i for i in range(index) if seen >> i & 1}
            self.writer[at], self.readers[at] = index, 0
        for state in states:
            replaced.add(self.used.get((engine, state), -1))
            self.used[engine, state] = index
        needed, replaced = needed - {-1, index}, replaced - {-1, index}
        own = {i for i in replaced if engine is not DMA and self.engines[i] is engine}
        return sorted(needed | replaced - own), sorted(own - needed)


@given(st.lists(accesses, max_size=12))
def test_each_instruction_comes_after_the_last_writers_and_the_readers_since_and_no_other(stream):
    found = compared(History(), stream)
    for pair in conflicts(stream):
        assert pair[0] in reachable(found)[pair[1]]


@given(st.lists(accesses, max_size=12))
def test_of_a_vector_as_well(stream):
    def whole(places):
        return [(rows, (0, PITCH)) for rows, _ in places]

    compared(VectorHistory(), [(e, whole(r), whole(w), *rest) for e, r, w, *rest in stream])


def compared(history, stream):
    """What comes before each instruction of a stream, which is what the oracle finds."""
    expected, found = Bytes(), []
    for index, (engine, reads, writes, after, states) in enumerate(stream):
        earlier = sorted(i for i in after if i < index)
        before = history.issue(engine, reads, writes, earlier, states)
        assert before == expected.before(engine, reads, writes, earlier, states)
        found.append(before)
    return found


def conflicts(stream):
    """Pairs of instructions of which one writes bytes that the other reads or writes."""
    touched = []
    for _, *places, _, _ in stream:
        masks = np.zeros((2, ROWS, PITCH), bool)
        for mask, rectangles in zip(masks, places, strict=True):
            for rows, columns in rectangles:
                mask[slice(*rows), slice(*columns)] = True
        touched.append(masks)
    for later, (looks, changes) in enumerate(touched):
        for earlier, (looked, changed) in enumerate(touched[:later]):
            if (changed & (looks | changes)).any() or (looked & changes).any():
                yield earlier, later


def reachable(found):
    """For each instruction those that started before it, by whatever chain."""
    reach = []
    for waits_for, follows in found:
        direct = {*waits_for, *follows}
        reach.append(direct.union(*(reach[earlier] for earlier in direct)))
    return reach


def test_narrow_parts_of_a_wide_tile_are_found_among_many():
    table, width = DependencyTable(), 4 * 4096
    storage = Storage(Memory.SBUF, 128 * width, width)
    whole = AccessPattern.dense((128, width), 1)
    table.before(DMA, [], [Tile(storage, UINT8, whole)])

    def read_s(first, last):
        columns = [
            Tile(storage, UINT8, whole.slice(1, 4 * n, 4 * n + 4)) for n in range(first, last)
        ]
        begin = time.process_time()
        for column in columns:
            table.before(V, [column], [])
        return time.process_time() - begin

    times = [read_s(first, first + 128) for first in range(0, 4096, 128)]
    assert min(times[-16:]) < 5 * min(times[1:3])


@pytest.mark.parametrize(
    ("pieces", "kept"), [(2, 2), (_MOST_PARTS, _MOST_PARTS), (_MOST_PARTS + 1, 1)]
)
def test_a_tile_that_is_read_in_pieces_keeps_them_when_it_is_written_if_they_are_few(pieces, kept):
    table, width = DependencyTable(), 4 * pieces
    storage = Storage(Memory.SBUF, 128 * width, width)
    whole = AccessPattern.dense((128, width), 1)
    tile = Tile(storage, UINT8, whole)
    columns = [Tile(storage, UINT8, whole.slice(1, 4 * n, 4 * n + 4)) for n in range(pieces)]
    for turn in range(2):
        first = turn * (pieces + 1)
        readers = list(range(1, first))[-pieces:] if turn else []
        written = table.before(DMA, [], [tile]).waits_for
        assert written == ([0, *readers] if turn else [])
        assert [table.before(V, [column], []).waits_for for column in columns] == [[first]] * pieces
    table.before(DMA, [], [tile])
    (bucket,) = storage.accesses.values()
    assert len(bucket.parts) == kept


def test_reads_before_the_first_write_are_waited_for_where_they_overlap_it(history):
    history.issue(DMA, reads=[((0, ROWS),)])
    history.issue(V, reads=[((0, 10),)])
    history.issue(S, reads=[((200, 210),)])
    assert history.issue(DMA, writes=[((5, 6),)]).waits_for == [0, 1]
    assert history.issue(G, reads=[((0, 10),)]).waits_for == [3]
    assert history.issue(DMA, writes=[((0, ROWS),)]).waits_for == [0, 1, 2, 3, 4]


def test_a_read_of_a_tensor_that_nothing_has_written_takes_no_longer_for_more_rows(history):
    """A gather reads all of a table: a part for each 128 rows of it made them slow."""
    for _ in range(3):
        history.issue(DMA, reads=[((0, ROWS),)])
    assert len(history.storage.accesses) == 1
