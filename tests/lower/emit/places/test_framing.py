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


IMAGE = (3, 40, 5, 7)
BY_CHANNELS = Frame(IMAGE, (1,), (0, 2, 3))
BY_IMAGES = Frame(IMAGE, (0, 1), (2, 3))


def stored(*shape):
    return in_hbm(Stored(*shape), shape)


def frame_of_reader(read, leaf=None, shape=IMAGE, dtype="float32"):
    """The frame of ``x + 1``, or of x in FP32, which `read` combines with other values."""
    g = Graph()
    x = g.input(shape, dtype)
    y = (
        g.elementwise("add", x, 1.0)
        if dtype == "float32"
        else g.elementwise("convert", x, dtype="float32")
    )
    g.outputs = [read(g, y)]
    emission = Emission(g, ProgramInputs(frozenset(), None), 1 << 16)
    return choose_frame(emission, y, [leaf or stored(*shape)], {x.number})


def less_vector(dims, lengths):
    """What subtracts a vector repeated along `dims` of the value."""

    def read(g, y):
        vector = g.input(lengths, "float32")
        return g.elementwise("subtract", y, g.broadcast_in_dim(vector, y.shape, dims))

    return read


less_channels = less_vector((1,), (40,))


def test_what_is_combined_with_a_vector_of_channels_lies_by_channels():
    assert frame_of_reader(less_channels) == BY_CHANNELS
    assert frame_of_reader(less_vector((0, 1, 2, 3), (1, 40, 1, 1))) == BY_CHANNELS


@pytest.mark.parametrize("shape", [(3, 2, 5, 7), (1, 40, 2, 2), (2, 2, 2, 2, 2)])
def test_two_channels_or_pixels_are_enough(shape):
    frame = frame_of_reader(less_vector((1,), shape[1:2]), shape=shape)
    assert frame == Frame(shape, (1,), (0, *range(2, len(shape))))


def test_a_reader_of_a_reader_counts_too():
    assert frame_of_reader(lambda g, y: less_channels(g, g.elementwise("tanh", y))) == BY_CHANNELS


@pytest.mark.parametrize(
    ("shape", "dims", "lengths"),
    [
        (IMAGE, (0, 1), (3, 40)),  # a number for each image's channel
        (IMAGE, (3,), (7,)),  # a row's
        (IMAGE, (2,), (5,)),
        ((3, 40, 1, 7), (1,), (40,)),  # rows alone are no images
        ((300, 40), (1,), (40,)),
        (IMAGE, (0, 1, 2, 3), (1, 1, 1, 1)),
    ],
)
def test_no_other_repeated_value_decides(shape, dims, lengths):
    frame = frame_of_reader(less_vector(dims, lengths), shape=shape)
    assert frame == frame_of_reader(lambda g, y: g.elementwise("tanh", y), shape=shape)
    assert frame.p_dims != (1,)


def test_a_value_that_each_reader_widens_keeps_its_rows():
    assert frame_of_reader(less_channels, dtype="bfloat16").p_dims != (1,)


def test_a_stored_matrix_of_pixels_keeps_its_rows():
    pixels = stored(3 * 5 * 7, 40).reshaped((3, 5, 7, 40)).transposed((0, 3, 1, 2))
    assert frame_of_reader(less_channels, pixels) == Frame(IMAGE, (0, 2, 3), (1,))


def frame_of_repeated(lengths, dims, permutation=None, shape=IMAGE):
    """The frame of a sum of images and of a leaf with `dims`, repeated over the others."""
    g = Graph()
    x, v = g.input(shape, "float32"), g.input(lengths, "float32")
    y = g.elementwise("add", x, g.broadcast_in_dim(v, shape, dims))
    g.outputs = [y]
    emission = Emission(g, ProgramInputs(frozenset(), None), 1 << 16)
    leaf = stored(*lengths)
    if permutation:
        leaf = stored(*(lengths[dim] for dim in permutation)).transposed(permutation)
    leaves = [stored(*shape), leaf.repeated(shape, dims)]
    return choose_frame(emission, y, leaves, {x.number, v.number})


def test_what_repeats_a_number_over_an_image_has_images_as_rows():
    assert frame_of_repeated((3, 40), (0, 1)) == BY_IMAGES
    assert frame_of_repeated((3, 40, 1, 1), (0, 1, 2, 3)) == BY_IMAGES


def test_numbers_of_images_in_another_order_are_no_rows():
    assert frame_of_repeated((3, 40), (0, 1), permutation=(1, 0)) == row_major_frame(IMAGE)


@pytest.mark.parametrize(
    ("lengths", "dims"), [((3, 40, 5), (0, 1, 2)), ((5, 7), (2, 3)), ((3, 7), (0, 3))]
)
def test_what_repeats_rows_or_whole_images_has_not(lengths, dims):
    assert frame_of_repeated(lengths, dims) == row_major_frame(IMAGE)


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
