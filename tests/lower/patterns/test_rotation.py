"""Halves that change places, by their operations."""

import pytest
from made_graphs import Made

from trnsim.graph.patterns import Producers
from trnsim.graph.rewriting import match_node
from trnsim.lower.patterns.rotation import ROTATION

HALF = (2, 20, 32)


def found(made, value):
    producers = Producers.of_graph(made.graph)
    match = match_node(ROTATION, producers.nodes[value.number], producers)
    return match and match["x"]


def test_a_rotation_is_recognized_by_its_parts():
    made = Made()
    x = made.given(2, 20, 64)
    assert found(made, made.halves(x)) == x
    assert found(made, made.halves(made.given(64))) is not None


OTHERS = {
    "from elsewhere": ((0, 0, 31), (0, 0, 0), (1, 1, 1), 2),
    "with steps": ((0, 0, 0), (0, 0, 0), (1, 1, 2), 2),
    "changed": ((0, 0, 0), (0, 0, 32), (1, 1, 1), 2),
    "along another dimension": ((0, 0, 32), (0, 0, 0), (1, 1, 1), 1),
}


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS.keys())
def test_other_parts_are_none(case):
    second, first, steps, dim = case
    made = Made()
    x = made.given(2, 20, 64)
    parts = [made.graph.slice(x, starts, HALF, steps) for starts in (second, first)]
    joined = made.graph.concatenate([made.of("negate", parts[0]), parts[1]], dim)
    assert found(made, joined) is None


def test_halves_of_two_tensors_of_a_longer_one_and_three_parts_are_none():
    made = Made()
    x, y, z = made.given(2, 20, 64), made.given(2, 20, 64), made.given(2, 20, 80)
    high, low = (made.graph.slice(x, (0, 0, at), HALF) for at in (32, 0))
    negated = made.of("negate", high)
    other = made.graph.slice(y, (0, 0, 0), HALF)
    longer = [made.graph.slice(z, (0, 0, at), HALF) for at in (32, 0)]
    for parts in (
        [negated, other],
        [high, low],
        [negated, low, low],
        [made.of("negate", longer[0]), longer[1]],
    ):
        assert found(made, made.graph.concatenate(parts, 2)) is None
