import numpy as np
import pytest

from trnsim.lower.emit.images.kernels import TapBoxes, kernels_of, taps_together


def test_boxes_cover_each_tap_once():
    taps = TapBoxes((7, 7), (2, 7))
    assert taps.boxes == [(0, 0), (2, 0), (4, 0), (6, 0)]
    assert [taps.taps_in_box(box) for box in taps.boxes] == [14, 14, 14, 7]
    assert len(taps.copies) == 14


def test_taps_stand_together_where_channels_are_few():
    three = (3, 3)
    assert taps_together(three, 65, 10_000, 0).box == (1, 1)
    assert len(taps_together(three, 64, 10_000, 0).boxes) == 6
    assert len(taps_together(three, 32, 10_000, 0).boxes) == 3
    assert len(taps_together((7, 7), 3, 10_000, 0).boxes) == 2


def test_copies_that_cost_more_than_products_are_not_made():
    assert taps_together((3, 3), 3, 100, 1e9).box == (1, 1)


def test_a_box_never_ends_within_a_row_of_taps():
    for rows in range(1, 6):
        for columns in range(1, 6):
            high, wide = taps_together((rows, columns), 7, 1000, 10).box
            assert high == 1 or columns % wide == 0


def test_the_matrix_of_dense_kernels_has_a_row_for_each_tap_and_channel():
    array = np.arange(4 * 3 * 2 * 2, dtype=np.float32).reshape(4, 3, 2, 2)
    kernels = kernels_of(array.shape, 1).pack(TapBoxes((2, 2), (1, 2)))
    assert (kernels.rows, kernels.columns, kernels.blocks) == (12, 4, 2)
    wanted = array.transpose(2, 3, 1, 0).reshape(12, 4)
    assert np.array_equal(kernels.matrix_of(array), wanted)


def test_channels_beyond_a_block_are_parts_that_add_up():
    array = np.random.default_rng(0).standard_normal((2, 130, 1, 1)).astype(np.float32)
    kernels = kernels_of(array.shape, 1)
    assert (kernels.channel_blocks, kernels.block, kernels.rows) == (2, 128, 256)
    matrix = kernels.matrix_of(array)
    assert np.array_equal(matrix[:130], array[:, :, 0, 0].T)
    assert not matrix[130:].any()


@pytest.mark.parametrize(
    ("shape", "groups", "channels", "outputs"),
    [((8, 1, 1, 1), 8, 8, 8), ((320, 5, 1, 1), 32, 60, 120), ((4, 70, 1, 1), 2, 70, 2)],
)
def test_groups_are_blocks_of_a_diagonal(shape, groups, channels, outputs):
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    kernels = kernels_of(shape, groups)
    assert (kernels.channels, kernels.outputs) == (channels, outputs)
    matrix = kernels.matrix_of(array)
    own, each = shape[1], shape[0] // groups
    for column in range(shape[0]):
        first = column // each * own % channels
        assert np.array_equal(matrix[first : first + own, column], array[column, :, 0, 0])
    assert np.count_nonzero(matrix) == array.size
