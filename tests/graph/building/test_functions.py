"""Functions made of the graph's own, beside numpy's."""

import numpy as np
import pytest

from trnsim.graph import TensorType
from trnsim.graph.building.build import Build
from trnsim.graph.building.functions import FUNCTIONS, atan2, has_sign_bit

ALL = np.array([-3e4, -2.5, -1, -0.3, -0.0, 0.0, 1e-3, 0.7, 1, 8, 3e4], np.float32)
OF = {
    "acos": ALL[np.abs(ALL) <= 1],
    "asin": ALL[np.abs(ALL) <= 1],
    "atanh": ALL[np.abs(ALL) < 1],
    "acosh": np.array([1, 1.5, 40, 2**20, 2**21, 3e30], np.float32),
    "sinh": ALL[np.abs(ALL) < 80],
    "cosh": ALL[np.abs(ALL) < 80],
}
ENDS = np.array([-np.inf, -2, -1, -0.0, 0.0, 1, 2, np.inf], np.float32)


def applied(function, *arrays, dtype="float32"):
    b = Build()
    b.result_types = [TensorType(arrays[0].shape, dtype)]
    b.graph.outputs = [function(b, *(b.graph.input(x.shape, x.dtype.name) for x in arrays))]
    with np.errstate(all="ignore"):
        return b.graph.reference(arrays)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_numpys(name):
    x = OF.get(name, ALL)
    theirs = getattr(np, name.replace("a", "arc", 1) if name.startswith("a") else name)
    expected = theirs(x.astype(np.float64))
    np.testing.assert_allclose(applied(FUNCTIONS[name], x), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["acos", "asin", "acosh"])
def test_beyond_its_domain_a_function_is_no_number(name):
    x = np.array([-1.5 if name != "acosh" else 0.5], np.float32)
    assert np.isnan(applied(FUNCTIONS[name], x))


def test_the_angle_of_any_point():
    y, x = (side.ravel() for side in np.meshgrid(ENDS, ENDS))
    np.testing.assert_allclose(applied(atan2, y, x), np.arctan2(y, x), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_minus_is_a_bit_of_types_that_have_a_sign(dtype):
    x = np.array([0, 1, 100] if dtype == "uint8" else [-2, -0.0, 0, 1]).astype(dtype)
    assert applied(has_sign_bit, x, dtype="bool").tolist() == np.signbit(x).tolist()
