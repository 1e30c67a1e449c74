"""Triangular systems by products, beside numpy's solver."""

import numpy as np
import pytest

from trnsim.graph import TensorType
from trnsim.graph.building.build import Build
from trnsim.graph.building.triangular import solve_triangular


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_system_is_solved(random, upper, unitriangular, left, batch):
    """Of each matrix only its triangle is read, and its diagonal where that is not of ones."""
    matrix = 0.2 * random((7, 7)) + 2 * np.eye(7, dtype=np.float32)
    y = random((*batch, 7, 2) if left else (*batch, 2, 7))
    b = Build()
    b.result_types = [TensorType(y.shape, "float32")]
    given = [b.graph.input(one.shape, "float32") for one in (matrix, y)]
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    b.graph.outputs = [solve_triangular(b, *given, **options)]
    (x,) = b.graph.reference([matrix, y])
    triangle = np.triu(matrix) if upper else np.tril(matrix)
    if unitriangular:
        np.fill_diagonal(triangle, 1)
    np.testing.assert_allclose(triangle @ x if left else x @ triangle, y, rtol=1e-4, atol=1e-4)
    products = sum(node.name == "dot_general" for node in b.graph.nodes)
    assert products == 5  # three of the solution, of N, N ** 2 and N ** 4, and two that make these
