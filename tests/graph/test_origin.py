"""Where an operation came from is noted, and is no part of what it does."""

import copy

from trnsim.errors import SourceLine
from trnsim.graph import Graph, Origin

HERE = Origin("layers.0.mlp", "aten::relu", SourceLine("net.py", 3))


def relu(origin):
    g = Graph()
    x = g.input((4,), "float32")
    g.current_origin = origin
    g.outputs = [g.elementwise("relu", x)]
    return g


def test_operations_come_from_what_is_set_when_they_are_added():
    g = relu(HERE)
    g.current_origin = None
    g.add(g.nodes[0].operation, g.inputs, [g.fresh(g.inputs[0].type)])
    assert [node.origin for node in g.nodes] == [HERE, None]


def test_graphs_that_do_the_same_are_equal_wherever_they_came_from():
    one, other = relu(HERE), relu(None)
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one.key()) == repr(other.key())
    assert str(one) == str(other)


def test_a_copy_came_from_the_same():
    assert copy.deepcopy(relu(HERE)).nodes[0].origin == HERE
