"""Places of elements, and what is compared with them."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.graph.ops.leaves import Iota


def one_hot(made, labels, shape, dim):
    places = made.graph.apply(Iota(shape, "int32", dim))
    return made.of("compare", places, made.repeated(labels, places, [1 - dim]), direction="EQ")


@pytest.mark.parametrize("shape", [(1, 1), (40, 5), (130, 2049), (300, 7)])
@pytest.mark.parametrize("dim", [0, 1])
def test_labels_among_places(shape, dim):
    made = Made("float32")
    numbers = made.random.integers(0, shape[dim], shape[1 - dim]).astype(np.int32)
    labels = made.given(shape[1 - dim], dtype="int32", array=numbers)
    said = one_hot(made, labels, shape, dim)
    x = made.given(*shape)
    chosen = made.of("select", said, x, 0.0)
    made.check(chosen, made.graph.reduce("add", chosen, [1]), chip=CHIPS[sum(shape) % 4])


def test_places_alone_and_through_views():
    made = Made("float32")
    places = made.graph.apply(Iota((33, 70), "int32", 1))
    other = made.graph.apply(Iota((2, 33, 70), "int32", 1))
    wide = made.of("convert", places, dtype="float32")
    made.check(wide, made.graph.transpose(wide, (1, 0)), made.of("add", other, 1))


def test_places_are_not_read_from_hbm():
    made = Made("float32")
    x = made.given(256, 1024)
    places = made.of("convert", made.graph.apply(Iota((256, 1024), "int32", 1)), dtype="float32")
    spans = made.run(made.of("multiply", x, places)).timeline.spans()
    assert sum(span.opcode == "dma_copy" for span in spans) == 4


@pytest.mark.parametrize("length", [(1 << 15) - 1, 1 << 15, 32771, 40000, 1 << 17, 300_000])
def test_places_of_a_long_line(length):
    made = Made("float32")
    places = made.graph.apply(Iota((length,), "int32", 0))
    others = made.graph.apply(Iota((length,), "int32", 0))
    x = made.given(length)
    weighted = made.of("multiply", x, made.of("convert", others, dtype="float32"))
    made.check(made.of("add", made.of("multiply", places, 2), 5), weighted, chip=CHIPS[length % 4])
