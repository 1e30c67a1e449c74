"""Images whose rows and columns are repeated, by their operations."""

import pytest
from made_graphs import Made

from trnsim.graph.patterns import Producers
from trnsim.graph.rewriting import match_node
from trnsim.lower.patterns.enlarging import IMAGE_ENLARGEMENT, repeat_counts


def found(shape, wide, dims, result):
    made = Made()
    images = made.given(*shape)
    value = made.graph.broadcast_in_dim(images, wide, dims)
    value = made.graph.reshape(value, result)
    producers = Producers.of_graph(made.graph)
    match = match_node(IMAGE_ENLARGEMENT, producers.nodes[value.number], producers)
    return match and (match["images"] == images, repeat_counts(match))


def test_rows_and_columns_are_repeated():
    wide = (1, 3, 4, 2, 5, 3)
    assert found((1, 3, 4, 5), wide, (0, 1, 2, 4), (1, 3, 8, 15)) == (True, (2, 3))


@pytest.mark.parametrize(
    ("shape", "wide", "dims", "result"),
    [
        ((1, 3, 4, 5), (1, 3, 4, 2, 5, 3), (0, 1, 2, 4), (1, 3, 120)),
        ((1, 3, 4, 5), (1, 3, 4, 2, 5, 3), (0, 1, 2, 4), (1, 3, 15, 8)),
        ((1, 3, 4, 5), (1, 3, 2, 4, 3, 5), (0, 1, 3, 5), (1, 3, 8, 15)),
        ((1, 3, 4, 1), (1, 3, 4, 2, 5, 3), (0, 1, 2, 4), (1, 3, 8, 15)),
        ((1, 3, 4, 5), (1, 3, 4, 2, 5), (0, 1, 2, 4), (1, 3, 8, 5)),
        ((3, 4, 5), (1, 3, 4, 2, 5, 3), (1, 2, 4), (1, 3, 8, 15)),
    ],
)
def test_other_repeats_are_none(shape, wide, dims, result):
    assert found(shape, wide, dims, result) is None
