"""The layout in which a value is computed."""

import pytest

from trnsim.graph import Graph
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.inputs import ProgramInputs
from trnsim.lower.emit.places.framing import choose_frame, has_no_repeats
from trnsim.lower.emit.places.tensor_place import in_hbm
from trnsim.lower.emit.places.walk import Frame, row_major_frame


class Stored:
    """A stand-in for a tensor in HBM."""

    def __init__(self, *shape):
        self.shape = shape


def frame_of_sum(shape, *, is_multiplied=False):
    """The frame of ``x + 1`` for an input in HBM, whose last dimension a product may sum over."""
    g = Graph()
    x = g.input(shape, "float32")
    y = g.elementwise("add", x, 1.0)
    if is_multiplied:
        g.outputs = [g.dot_general(y, g.input((shape[-1], 5), "float32"), (1, 0))]
    emission = Emission(g, ProgramInputs(frozenset(), None), 1 << 16)
    return choose_frame(emission, y, [in_hbm(Stored(*shape), shape)], {x.number})


def test_rows_of_hbm_lie_along_the_partitions():
    assert frame_of_sum((300, 40)) == row_major_frame((300, 40))


def test_what_a_product_sums_over_lies_along_the_partitions():
    assert frame_of_sum((300, 40), is_multiplied=True) == Frame((300, 40), (1,), (0,))


@pytest.mark.parametrize(
    ("rows", "columns", "is_turned"),
    [(1, 256, True), (31, 4096, True), (32, 4096, False), (1, 255, False)],
)
def test_few_long_rows_are_turned(rows, columns, is_turned):
    frame = frame_of_sum((rows, columns))
    assert (frame.p_dims == (1,)) == is_turned


def test_what_is_repeated_covers_nothing():
    one = in_hbm(Stored(3), (3,))
    assert has_no_repeats(one)
    assert not has_no_repeats(one.repeated((2, 3), (1,)))
    assert has_no_repeats(one.repeated((1, 3), (1,)))
