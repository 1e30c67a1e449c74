import numpy as np
import pytest
from ml_dtypes import bfloat16

from trnsim.graph.ops.reductions import Reduce

DIMS = [(), (0, 2), (1, 3), (0, 3), (0, 1, 3), (0, 2, 3)]


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint8])
def test_dimensions_that_are_not_neighbours(agree, op, dims, dtype):
    x = np.random.default_rng(0).integers(0, 4, (2, 3, 1, 4)).astype(dtype)
    agree(Reduce(op, dims), x)


def test_sums_of_short_types_are_rounded_once(agree):
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3, 7)).astype(bfloat16)
    agree(Reduce("add", (0, 2)), x)


def test_a_mean_of_integers_may_be_a_fraction(agree):
    x = np.full((2, 3, 2), 2**24 // 4, np.int32)
    agree(Reduce("add", (0, 2)), x, dtype="float32")
