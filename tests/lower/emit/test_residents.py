"""Results in SBUF, and room for them."""

import pytest
from made_graphs import Made

from trnsim.lower.emit import residents as module
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.emit.places.walk import Frame
from trnsim.lower.emit.residents import Residents
from trnsim.nki import language as nl


class Tile:
    """A tile, or a tensor in HBM, by its shape."""

    def __init__(self, shape, dtype=nl.float32, buffer=None):
        self.shape, self.dtype, self.buffer = tuple(shape), dtype, buffer


@pytest.fixture
def chain(monkeypatch):
    """Two results that are read by a third, and SBUF without a chip beneath it."""
    monkeypatch.setattr("trnsim.lower.emit.places.walk.new", Tile)
    monkeypatch.setattr(module.nl, "ndarray", Tile)
    made = Made()
    x = made.given(256, 100)
    first, second = made.of("tanh", x), made.of("exponential", x)
    made.graph.outputs = [made.graph.dot_general(first, second, (1, 1))]
    return made.graph, first, second


FRAME = Frame((256, 100), (0,), (1,))
SQUARE = Frame((256, 256), (0,), (1,))
BYTES = 2 * 100 * 4
"""Two blocks of rows, 100 columns of float32."""


@pytest.mark.parametrize(("most_bytes", "is_on_chip"), [(BYTES - 1, False), (BYTES, True)])
def test_a_result_stays_in_sbuf_while_there_is_room(chain, most_bytes, is_on_chip):
    graph, first, _ = chain
    residents = Residents(GraphFacts(graph), {}, None, most_bytes)
    placed = residents.allocate(FRAME, first)
    assert placed.is_on_chip == is_on_chip
    assert residents.free_bytes() == most_bytes - BYTES * is_on_chip
    assert residents.spilled == ([] if is_on_chip else [placed.storage])
    assert residents.demand.wanted_bytes == BYTES
    if not is_on_chip:
        assert placed.storage.shape == (FRAME.rows, FRAME.columns)
        assert placed.storage.buffer == nl.shared_hbm


def test_what_was_read_by_all_leaves_its_room(chain):
    graph, first, second = chain
    placed = {}
    residents = Residents(GraphFacts(graph), placed, None, 2 * BYTES)
    for value in (first, second):
        placed[value.number] = [residents.allocate(FRAME, value)]
    assert residents.free_bytes() == 0
    placed[graph.outputs[0].number] = [
        residents.allocate_in_hbm(Frame((256, 256), (0,), (1,)), nl.float32)
    ]
    assert residents.free_bytes() == 2 * BYTES
    assert residents.unread() == []


def test_an_output_is_wanted_to_the_end(chain):
    graph, first, _ = chain
    graph.outputs = [*graph.outputs, first]
    placed = {}
    residents = Residents(GraphFacts(graph), placed, None, 2 * BYTES)
    placed[first.number] = [residents.allocate(FRAME, first)]
    placed[graph.outputs[0].number] = [
        residents.allocate_in_hbm(Frame((256, 256), (0,), (1,)), nl.float32)
    ]
    assert residents.is_unread(first, {})
    assert residents.free_bytes() == BYTES
