import pytest

from trnsim.lower.emit.images.image import WindowBox, WindowGrid, window_boxes


def grid(**given):
    one, zero = (1, 1), (0, 0)
    found = {
        "images": 1,
        "channels": 1,
        "size": (5, 7),
        "shape": (5, 7),
        "kernel": one,
        "strides": one,
        "low": zero,
        "gaps": zero,
        "dilations": one,
    }
    return WindowGrid(**(found | given))


@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (1, 7), (6, 1)])
def test_parts_are_a_range_in_order(shape):
    rows, columns = shape
    whole = 3 * rows * columns
    for start in range(whole):
        for count in range(1, whole - start + 1):
            seen = [
                (image, row, column)
                for one in window_boxes(shape, start, count)
                for image in range(one.image, one.image + one.images)
                for row in range(one.row, one.row + one.rows)
                for column in range(one.column, one.column + one.columns)
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
    seen = grid(kernel=(3, 2), strides=(2, 1), dilations=(1, 4), shape=(2, 3))
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
    assert grid(low=(low, 0), gaps=(gap, 0)).inside(0, start, count) == wanted


def test_an_image_without_padding_is_bare():
    assert grid().is_bare
    assert grid(shape=(3, 4), strides=(2, 2)).is_bare
    assert not grid(low=(0, 1)).is_bare
    assert not grid(shape=(6, 7)).is_bare
    assert not grid(shape=(1, 1), gaps=(1, 0)).is_bare
