import pytest
from made_graphs import Made

from trnsim.graph.ops.contraction import Convolution
from trnsim.lower.emit.images.image import WindowBox, WindowGrid, window_boxes


def grid(**fields):
    one, zero = (1, 1), (0, 0)
    defaults = {
        "images": 1,
        "channels": 1,
        "image_size": (5, 7),
        "window_counts": (5, 7),
        "kernel": one,
        "strides": one,
        "low_padding": zero,
        "gaps": zero,
        "dilations": one,
    }
    return WindowGrid(**(defaults | fields))


@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (1, 7), (6, 1)])
def test_parts_are_a_range_in_order(shape):
    rows, columns = shape
    whole = 3 * rows * columns
    for start in range(whole):
        for count in range(1, whole - start + 1):
            seen = [
                (image, row, column)
                for box in window_boxes(shape, start, count)
                for image in range(box.image, box.image + box.images)
                for row in range(box.row, box.row + box.rows)
                for column in range(box.column, box.column + box.columns)
            ]
            wanted = [
                (at // (rows * columns), at // columns % rows, at % columns)
                for at in range(start, start + count)
            ]
            assert seen == wanted


def test_whole_rows_and_images_are_one_part():
    assert list(window_boxes((4, 5), 0, 40)) == [WindowBox(0, 0, 0, 2, 4, 5)]
    assert list(window_boxes((4, 5), 5, 10)) == [WindowBox(0, 1, 0, 1, 2, 5)]


def test_windows_reach_over_taps_that_are_apart():
    seen = grid(kernel=(3, 2), strides=(2, 1), dilations=(1, 4), window_counts=(2, 3))
    assert seen.reach(0, 2) == 5
    assert seen.width == 7


@pytest.mark.parametrize(
    ("low", "gap", "start", "count", "wanted"),
    [
        (0, 0, 0, 5, (0, 5, 0)),
        (1, 0, 0, 7, (0, 5, 1)),
        (1, 0, 3, 2, (2, 2, 0)),
        (-2, 0, 0, 9, (2, 3, 0)),
        (1, 1, 0, 11, (0, 5, 1)),
        (0, 1, 1, 2, (1, 1, 1)),
        (9, 0, 0, 3, (0, 0, 9)),
    ],
)
def test_the_elements_inside_a_range_of_the_padded_image(low, gap, start, count, wanted):
    assert grid(low_padding=(low, 0), gaps=(gap, 0)).elements_in(0, start, count) == wanted


def test_windows_within_the_image_are_unpadded():
    assert grid().is_unpadded
    assert grid(window_counts=(3, 4), strides=(2, 2)).is_unpadded
    assert not grid(low_padding=(0, 1)).is_unpadded
    assert not grid(window_counts=(6, 7)).is_unpadded
    assert not grid(window_counts=(1, 1), gaps=(1, 0)).is_unpadded


@pytest.mark.parametrize("dims", [(0, 1, 2), (0, 1, 3), (1,), (0, 2, 3), (2, 3)])
def test_windows_read_images_that_repeat_elements(dims):
    made, shape = Made(), (2, 3, 6, 5)
    x = made.given(*(shape[dim] for dim in dims))
    images = made.graph.broadcast_in_dim(x, shape, dims)
    weight = made.given(5, 3, 3, 3)
    ones = (1, 1)
    convolution = Convolution((2, 1), ones, ones, (0, 0), ones, 1)
    made.check(made.graph.apply(convolution, images, weight))
