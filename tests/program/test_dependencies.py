"""Who waits for whom: racy pairs and repaired ones, and a brute-force oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import UINT8
from trnsim.isa import Engine
from trnsim.memory import AccessPattern, Memory, Storage, Tile
from trnsim.program.dependencies import DependencyTable

V, S, G, DMA = Engine.vector, Engine.scalar, Engine.gpsimd, Engine.dma
ROWS, PITCH = 300, 8


class History:
    """A table, one storage, and predecessors by (engine, reads, writes) of row and byte ranges."""

    def __init__(self):
        self.table = DependencyTable()
        self.storage = Storage(Memory.HBM, ROWS * PITCH, PITCH)
        self.count = 0

    def tile(self, rows, columns=(0, PITCH)):
        whole = AccessPattern.dense((ROWS, PITCH), 1)
        return Tile(self.storage, UINT8, whole.slice(0, *rows).slice(1, *columns))

    def issue(self, engine, reads=(), writes=()):
        tiles = [[self.tile(*at) for at in places] for places in (reads, writes)]
        found = self.table.predecessors(self.count, engine, *tiles)
        self.count += 1
        return found


@pytest.fixture
def history():
    return History()


ALL = ((0, ROWS),)
TOP, BOTTOM = ((0, 150),), ((150, ROWS),)


def test_a_reader_waits_for_the_writer_even_on_its_own_engine(history):
    assert history.issue(V, writes=[ALL]) == set()
    assert history.issue(V, reads=[ALL]) == {0}
    assert history.issue(S, reads=[TOP]) == {0}


def test_readers_do_not_wait_for_each_other(history):
    history.issue(V, writes=[ALL])
    history.issue(S, reads=[ALL])
    assert history.issue(G, reads=[ALL]) == {0}


def test_an_overwriting_engine_waits_for_writer_and_readers_on_other_engines(history):
    history.issue(V, writes=[ALL])
    history.issue(S, reads=[ALL])
    assert history.issue(G, writes=[ALL]) == {0, 1}


def test_a_compute_engine_keeps_its_order_without_waiting(history):
    history.issue(V, writes=[ALL])
    history.issue(V, reads=[ALL])
    assert history.issue(V, writes=[ALL]) == set()


def test_dmas_keep_no_order_among_themselves(history):
    history.issue(DMA, writes=[ALL])
    assert history.issue(DMA, writes=[ALL]) == {0}
    history.issue(DMA, reads=[ALL])
    history.issue(DMA, reads=[ALL])
    assert history.issue(DMA, writes=[ALL]) == {1, 2, 3}


def test_what_does_not_overlap_is_independent(history):
    history.issue(V, writes=[TOP])
    assert history.issue(S, writes=[BOTTOM]) == set()
    assert history.issue(G, reads=[BOTTOM]) == {1}
    assert history.issue(DMA, writes=[(*TOP, (0, 4))]) == {0}
    assert history.issue(S, reads=[(*TOP, (4, 8))]) == {0}


def test_a_reader_of_several_parts_waits_for_all_their_writers(history):
    history.issue(V, writes=[TOP])
    history.issue(S, writes=[BOTTOM])
    assert history.issue(G, reads=[ALL]) == {0, 1}


def test_an_overwritten_part_is_forgotten_but_waited_for_through_its_successor(history):
    history.issue(V, writes=[TOP])
    assert history.issue(S, writes=[ALL]) == {0}
    assert history.issue(G, reads=[TOP]) == {1}


def test_a_writer_waits_for_a_reader_of_what_nothing_had_written(history):
    assert history.issue(DMA, reads=[ALL]) == set()
    assert history.issue(DMA, writes=[BOTTOM]) == {0}


def test_a_writer_waits_for_a_reader_of_what_was_written_only_in_part(history):
    history.issue(V, writes=[TOP])
    assert history.issue(DMA, reads=[ALL]) == {0}
    assert history.issue(S, writes=[BOTTOM]) == {1}


def test_reading_one_part_does_not_hold_up_writing_another(history):
    history.issue(DMA, reads=[TOP])
    assert history.issue(DMA, writes=[BOTTOM]) == set()


def test_what_straddled_two_tiles_before_does_not_tie_them_together(history):
    history.issue(S, writes=[((0, 128), (2, 6))])
    history.issue(DMA, reads=[((0, 128), (0, 4))])
    assert history.issue(V, writes=[((0, 128), (4, 8))]) == {0}
    assert history.issue(V, writes=[((0, 128), (0, 4))]) == {0, 1}


def test_an_instruction_never_waits_for_itself(history):
    assert history.issue(V, reads=[ALL], writes=[ALL]) == set()
    assert history.issue(DMA, reads=[TOP, BOTTOM], writes=[ALL]) == {0}


def test_storages_are_independent():
    one, two = History(), History()
    two.table = one.table
    one.issue(V, writes=[ALL])
    two.count = 1
    assert two.issue(S, reads=[ALL], writes=[ALL]) == set()


@st.composite
def rectangles(draw):
    """Rows and bytes of the storage, often across the border of a bucket of rows."""
    borders = st.sampled_from([0, 1, 100, 127, 128, 129, 200, 255, 256, 257])
    first, column = draw(borders), draw(st.integers(0, 6))
    rows, width = draw(st.sampled_from([1, 2, 30, 43])), draw(st.integers(1, PITCH - column))
    return (first, first + rows), (column, column + width)


accesses = st.tuples(
    st.sampled_from([V, S, G, DMA]),
    st.lists(rectangles(), max_size=2),
    st.lists(rectangles(), max_size=1),
)


@given(st.lists(accesses, max_size=12))
def test_every_conflict_is_ordered_and_nothing_else_waits(stream):
    history = History()
    waits = []
    touched = []
    for index, (engine, reads, writes) in enumerate(stream):
        waits.append(history.issue(engine, reads, writes))
        marks = []
        for places in (reads, writes):
            mask = np.zeros((ROWS, PITCH), bool)
            for rows, columns in places:
                mask[slice(*rows), slice(*columns)] = True
            marks.append(mask)
        touched.append((engine, *marks))
        reach = reachable(waits, touched)
        for earlier in range(index):
            needed = conflict(touched[earlier], touched[index])
            assert not needed or earlier in reach[index], (earlier, index)
        for earlier in waits[index]:
            assert earlier < index
            assert conflict(touched[earlier], touched[index]), (earlier, index)


def conflict(first, second):
    """Whether the order of two accesses matters."""
    _, reads, writes = first
    _, later_reads, later_writes = second
    return bool(
        (writes & later_reads).any()
        or (writes & later_writes).any()
        or (reads & later_writes).any()
    )


def reachable(waits, touched):
    """For each instruction those that have ended, or on its own engine started, before it."""
    reach = []
    for index, direct in enumerate(waits):
        before = set(direct)
        engine = touched[index][0]
        if engine is not DMA:
            before |= {i for i in range(index) if touched[i][0] is engine}
        for earlier in list(before):
            before |= reach[earlier]
        reach.append(before)
    return reach
