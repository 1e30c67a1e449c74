import numpy as np
import pytest

from trnsim.graph.building.build import Build
from trnsim.graph.building.groups import (
    block_rows,
    multiply_column_groups,
    multiply_row_groups,
)

ENDS = np.array([3, 3, 140, 147], np.int32)


def built(*shapes):
    b = Build()
    given = [b.graph.input(shape, "float32") for shape in shapes]
    return b, *given, b.graph.input((len(ENDS),), "int32")


def groups():
    return [slice(a, b) for a, b in zip((0, *ENDS[:-1]), ENDS, strict=True)]


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        ((4096, 128, 72.0), 64),  # sqrt(2,304) = 48
        ((16384, 8, 4096.0), 128),
        ((64, 64, 1.0), 16),
        ((5, 2, 100.0), 5),
        ((0, 4, 10.0), 1),
        ((100, 0, 10.0), 16),
    ],
)
def test_rows_of_a_block(sizes, rows):
    assert block_rows(*sizes) == rows


@pytest.mark.parametrize("rows_of_matrix", [1.0, 24.0, 700.0])
def test_blocks_of_that_many_rows_read_about_the_least(rows_of_matrix):
    def read_rows(size):
        return (4096 / size + 32) * (size + rows_of_matrix)

    size = block_rows(4096, 32, rows_of_matrix)
    assert read_rows(size) <= 1.1 * min(map(read_rows, (16, 32, 64, 128)))


@pytest.mark.parametrize("is_flipped", [False, True])
def test_rows_of_a_group_are_multiplied_by_its_matrix(is_flipped):
    b, x, matrices, ends = built((150, 5), (4, 6, 5) if is_flipped else (4, 5, 6))
    whole = b.graph.transpose(matrices, (0, 2, 1)) if is_flipped else matrices
    b.graph.outputs.append(multiply_row_groups(b, x, whole, ends))
    rng = np.random.default_rng(0)
    rows, many = (rng.normal(size=one.shape).astype(np.float32) for one in (x, matrices))
    (found,) = b.graph.reference([rows, many, ENDS])
    own = many.transpose(0, 2, 1) if is_flipped else many
    wanted = np.concatenate([rows[one] @ own[n] for n, one in enumerate(groups())])
    np.testing.assert_allclose(found[: ENDS[-1]], wanted, atol=1e-5)
    assert not found[ENDS[-1] :].any()


def test_columns_of_a_group_are_multiplied_by_its_rows():
    b, x, y, ends = built((5, 150), (150, 6))
    b.graph.outputs.append(multiply_column_groups(b, x, y, ends))
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=one.shape).astype(np.float32) for one in (x, y))
    (found,) = b.graph.reference([left, right, ENDS])
    wanted = np.stack([left[:, one] @ right[one] for one in groups()])
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_groups_without_rows():
    b, x, matrices, ends = built((0, 5), (4, 5, 6))
    y = b.graph.input((0, 6), "float32")
    columns = multiply_column_groups(b, b.graph.transpose(x, (1, 0)), y, ends)
    b.graph.outputs += [multiply_row_groups(b, x, matrices, ends), columns]
    arrays = [np.ones(value.shape, value.dtype) for value in b.graph.inputs]
    arrays[2] = np.zeros_like(ENDS)
    rows, sums = b.graph.reference(arrays)
    assert rows.shape == (0, 6)
    np.testing.assert_array_equal(sums, np.zeros((4, 5, 6)))
