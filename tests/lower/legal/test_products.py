"""Products of float32 with a narrower format, beside their references."""

import ml_dtypes
import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution
from trnsim.lower import evaluate

NARROW = (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2)


@pytest.mark.parametrize("dtype", ["", "bfloat16", "float32"])
@pytest.mark.parametrize("narrow", NARROW)
def test_float32_times_a_narrower_format_is_a_product_in_float32(narrow, dtype):
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-3, 4, (5, 130)).astype(np.float32),
        random.integers(-2, 3, (130, 7)).astype(narrow),
    ]
    graph = Graph()
    wide, other = (graph.input(array.shape, array.dtype.name) for array in arrays)
    graph.outputs = [
        graph.dot_general(wide, other, (1, 0), dtype),
        graph.dot_general(other, wide, (0, 1), dtype),
    ]
    for found, wanted in zip(evaluate(graph, arrays), graph.reference(arrays), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("narrow", NARROW)
def test_an_image_and_its_kernels_may_differ_in_format(agree, narrow, groups):
    random = np.random.default_rng(0)
    image = random.integers(-3, 4, (2, 3, 6, 5))
    kernels = random.integers(-2, 3, (6, 3 // groups, 2, 2))
    operation = Convolution((1, 1), (0, 0), (0, 1), (0, 0), (1, 1), groups)
    agree(operation, image.astype(np.float32), kernels.astype(narrow))
    agree(operation, image.astype(narrow), kernels.astype(np.float32))
