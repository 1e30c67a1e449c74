"""What the caller gives."""

import pytest

from trnsim.graph import Graph
from trnsim.lower.emit.inputs import ProgramInputs, is_dense
from trnsim.lower.emit.places.tensor_place import in_hbm
from trnsim.nki import language as nl


class Tensor:
    """A tensor in HBM by its shape."""

    def __init__(self, *shape):
        self.shape = shape


def test_a_weight_is_known_where_all_of_it_lies_in_order():
    graph = Graph()
    x, w = (graph.input((4, 6), "float32") for _ in range(2))
    inputs = ProgramInputs(frozenset({w.number}), None)
    places = {value.number: inputs.add(value, Tensor(4, 6)) for value in (x, w)}
    assert inputs.weight_of(places[w.number]) == w.number
    assert inputs.weight_of(places[w.number].transposed((1, 0))) is None
    assert inputs.weight_of(places[x.number]) is None
    assert inputs.is_input(places[x.number].storage)
    assert not inputs.is_input(Tensor(4, 6))


def test_what_is_dense_is_all_of_a_tensor_in_order():
    whole = in_hbm(Tensor(4, 6), (4, 6))
    assert is_dense(whole)
    assert is_dense(whole.reshaped((24,)))
    assert not is_dense(whole.transposed((1, 0)))
    assert not is_dense(whole.sliced((2, 6), (0, 0), (1, 1)))


class Tile:
    """Columns of one tile of SBUF."""

    def __init__(self, shape, dtype, columns=None):
        self.shape, self.dtype, self.columns = shape, dtype, columns

    def __getitem__(self, where):
        return Tile(self.shape, self.dtype, where[1])

    def reshape(self, shape):
        return Tile(shape, self.dtype, self.columns)


@pytest.mark.parametrize(("columns", "is_full"), [(64, False), (65, True)])
def test_what_passes_takes_the_place_of_what_was_read(monkeypatch, columns, is_full):
    monkeypatch.setattr("trnsim.lower.emit.inputs.new", Tile)
    inputs = ProgramInputs(frozenset(), None, ring_bytes=4 * 130)
    first, second = (inputs.ring_tile((128, 1, columns), nl.float32) for _ in range(2))
    assert (first.columns, second.columns) == (slice(0, columns), slice(columns, 2 * columns))
    third = inputs.ring_tile((128, 1, 2), nl.float32)
    assert inputs.is_ring_full == is_full
    assert third.columns == (slice(0, 2) if is_full else slice(128, 130))


def test_what_fills_more_than_half_of_the_ring_has_a_tile_of_its_own(monkeypatch):
    monkeypatch.setattr("trnsim.lower.emit.inputs.new", Tile)
    inputs = ProgramInputs(frozenset(), None, ring_bytes=4 * 130)
    assert inputs.ring_tile((128, 1, 66), nl.float32).columns is None
    assert inputs.ring_tile((127, 1, 2), nl.float32).columns is None
    assert not inputs.is_ring_full
