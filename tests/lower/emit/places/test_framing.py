"""The layout in which a value is computed."""

import pytest
from made_graphs import Made

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


def of_normalization(made, g, x):
    """The gradient of batch normalization by its input, as PyTorch's compiler writes it."""
    mean, scale = (made.repeated(made.given(x.shape[1]), x, [1]) for _ in range(2))
    centred = made.of("multiply", made.of("subtract", x, mean), scale)

    def mean_of(value):
        total = made.graph.reduce("add", made.graph.reduce("add", value, [2, 3]), [0])
        part = made.of("multiply", total, x.shape[1] / x.type.elements)
        return made.repeated(part, x, [1])

    along = made.of("multiply", centred, mean_of(made.of("multiply", g, centred)))
    less = made.of("subtract", made.of("subtract", g, mean_of(g)), along)
    return made.of("multiply", less, scale)


def of_relu(made, g, y):
    return made.of("select", made.of("compare", y, 0.0, direction="LE"), 0.0, g)


def of_average(made, g, x):
    return made.of("divide", made.repeated(g, x, range(4)), x.shape[2] * x.shape[3])


IMAGES = [(4, 24, 9, 15), (1, 32, 14, 10)]


@pytest.mark.parametrize("is_averaged", [False, True])
@pytest.mark.parametrize("shape", IMAGES)
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_a_gradient_through_relu_and_normalization_takes_about_as_long_as_its_parts(
    chip, shape, is_averaged
):
    def time_s(*steps):
        made = Made()
        x = made.given(*shape)
        g = made.given(*shape[:2], 1, 1) if of_average in steps else made.given(*shape)
        for step in steps:
            g = step(made, g, x if step is of_average else made.given(*shape))
        return made.run(g, chip=chip).timeline.device_time_s

    steps = [of_average] * is_averaged + [of_relu, of_normalization]
    # An average's rows are images, over which vectors of channels are spread: 0.4 % more.
    assert time_s(*steps) <= 1.05 * sum(map(time_s, steps))


@pytest.mark.parametrize("shape", IMAGES)
def test_the_values_of_a_gradient_through_an_average_relu_and_normalization(shape):
    made = Made()
    x, y, g = made.given(*shape), made.given(*shape), made.given(*shape[:2], 1, 1)
    made.check(of_normalization(made, of_relu(made, of_average(made, g, x), y), x))
