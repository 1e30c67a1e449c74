import ml_dtypes
import numpy as np
import pytest

from trnsim.graph import TensorType
from trnsim.graph.types import (
    ELEMENT_TYPES,
    FLOATS,
    INTEGERS,
    ITEM_BYTES,
    dense,
    round_to_dtype,
    widen,
)


def test_a_type_knows_its_elements_its_bytes_and_its_words():
    one = TensorType((2, 3), "bfloat16")
    assert (one.elements, one.nbytes, str(one)) == (6, 12, "tensor<2x3xbfloat16>")
    number = TensorType((), "int8")
    assert (number.elements, number.nbytes, str(number)) == (1, 1, "tensor<int8>")
    assert TensorType((3, 0), "float32").nbytes == 0


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_each_element_type_is_one_of_numpy_of_its_size(dtype):
    one = TensorType((5,), dtype)
    assert one.numpy_dtype().name == dtype
    assert one.numpy_dtype().itemsize == ITEM_BYTES[dtype]
    assert one.is_floating == (dtype in FLOATS)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_values_are_read_in_the_widest_numbers_of_their_kind(dtype):
    wide = widen(np.ones(3, TensorType((), dtype).numpy_dtype()))
    assert (
        wide.dtype.name
        == {"f": "float64", "i": "int64", "b": "bool"}[
            "f" if dtype in FLOATS else "i" if dtype in INTEGERS else "b"
        ]
    )
    assert wide.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_kept_modulo_their_size(dtype):
    limits = np.iinfo(dtype)
    count = 2**limits.bits
    numbers = [limits.max + 1, limits.min - 1, count, count + 7, -1 - count]
    found = round_to_dtype(np.array(numbers), dtype)
    assert found.dtype.name == dtype
    expected = [(n - limits.min) % count + limits.min for n in numbers]
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", FLOATS)
def test_floating_point_is_kept_to_nearest_and_even(dtype):
    eps = float(ml_dtypes.finfo(TensorType((), dtype).numpy_dtype()).eps)
    numbers = np.array([1 + eps / 2, 1 + 3 * eps / 2, 1 + eps * 0.51, -0.0, np.nan])
    found = widen(round_to_dtype(numbers, dtype))
    assert found[:3].tolist() == [1, 1 + 2 * eps, 1 + eps]
    assert np.signbit(found[3])
    assert np.isnan(found[4])


def test_a_truth_value_is_whether_a_number_is_not_0():
    assert round_to_dtype(np.array([0, 2, -1, np.nan]), "bool").tolist() == [
        False,
        True,
        True,
        True,
    ]


def test_strides_are_those_of_numpy():
    for shape in ((), (5,), (2, 3, 4), (1, 7, 1)):
        steps = np.zeros(shape, np.int8).strides
        assert dense(shape) == steps
