"""Where microscaling groups and their scales lie."""

import numpy as np
import pytest

from trnsim.dtypes import UINT8
from trnsim.isa.tensor.mx_layout import from_scale_groups, scale_rows, scale_tiles, to_scale_groups


def test_a_group_is_8_partitions_by_4_elements():
    flat = np.arange(64 * 12).reshape(64, 12)
    groups = to_scale_groups(flat)
    assert groups.shape == (8, 3, 32)
    for p in range(64):
        for f in range(12):
            assert flat[p, f] == groups[p // 8, f // 4, p % 8 * 4 + f % 4]
    np.testing.assert_array_equal(from_scale_groups(groups), flat)


@pytest.mark.parametrize(("partitions", "rows"), [(32, 4), (64, 36), (128, 100)])
def test_each_quadrant_has_its_four_rows_of_scales(bench, partitions, rows):
    scale = bench().tile(np.arange(128 * 2).reshape(128, 2) % 251, UINT8)
    assert scale_rows(partitions) == rows
    parts = scale_tiles(scale, partitions)
    assert len(parts) == partitions // 32
    for quadrant, part in enumerate(parts):
        first = 32 * quadrant
        np.testing.assert_array_equal(part.array, scale.array[first : first + 4])
