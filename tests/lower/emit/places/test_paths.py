"""Views between a value and the shape in which it is computed."""

from trnsim.graph import Graph
from trnsim.lower.emit.places.paths import follow, invert_view, is_passed
from trnsim.lower.emit.places.tensor_place import in_hbm


class Stored:
    """A stand-in for a tensor in HBM."""


def chain():
    g = Graph()
    x = g.input((6, 8), "float32")
    made = g.transpose(g.reshape(x, (2, 3, 8)), (1, 0, 2))
    g.elementwise("negate", made)
    return g.nodes


def test_reshapes_and_transposes_are_passed():
    assert [is_passed(node) for node in chain()] == [True, True, False]


def test_a_place_follows_the_views_and_comes_back():
    reshape, transpose, _ = chain()
    start = in_hbm(Stored(), (6, 8))
    found = follow((reshape, transpose), start)
    assert found.shape == (3, 2, 8)
    assert found.steps == ((8,), (24,), (1,))
    assert invert_view(reshape, invert_view(transpose, found)) == start


def test_a_view_that_steps_cannot_say_is_none():
    g = Graph()
    x = g.input((3, 4), "float32")
    turned = g.transpose(x, (1, 0))
    g.reshape(g.elementwise("negate", turned), (12,))
    placed = in_hbm(Stored(), (3, 4)).transposed((1, 0))
    assert follow((g.nodes[-1],), placed) is None
