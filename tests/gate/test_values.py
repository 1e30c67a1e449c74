from math import inf

import ml_dtypes
import numpy as np
import pytest

from trnsim.gate.values import TOLERANCE, result_errors


def test_an_error_is_a_share_of_the_largest_value_of_the_reference():
    (error,) = result_errors(np.array([1.0, 4.1, -8.0]), np.array([1.0, 4.0, -8.0]))
    assert error.error == pytest.approx(0.1 / 8)
    assert error.index == (1,)
    assert error.tolerance == TOLERANCE
    assert not error.is_legal
    (error,) = result_errors(np.array([4.1]), np.array([4.0]), 0.025)
    assert error.is_legal


def test_whole_numbers_are_equal_or_wrong():
    (error,) = result_errors(np.array([1, 1000]), np.array([1, 1001]))
    assert error.tolerance == 0
    assert not error.is_legal
    assert result_errors(np.array([True]), np.array([True]))[0].is_legal


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_that_float64_cannot_tell_apart_are_wrong(dtype):
    values = np.array([0, 2**62 + 1], dtype)
    (error,) = result_errors(values, np.array([0, 2**62], dtype))
    assert (error.index, error.is_legal) == ((1,), False)
    assert result_errors(values, values.copy())[0].is_legal


def test_a_reference_of_zeros_has_an_absolute_error():
    (error,) = result_errors(np.array([0.0, 1e-3]), np.zeros(2))
    assert error.error == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("value", "reference", "legal"),
    [
        (np.nan, np.nan, True),
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (1.0, np.inf, False),
    ],
)
def test_values_that_are_not_finite_are_equal_or_wrong(value, reference, legal):
    (error,) = result_errors(np.array([value, 1.0]), np.array([reference, 1.0]))
    assert error.is_legal is legal
    assert legal or (error.error == inf and "where the reference is" in error.why)


def test_shapes_differ():
    (error,) = result_errors(np.zeros((2, 3)), np.zeros((3, 2)))
    assert error.error == inf
    assert error.why == "it is [2, 3] and the reference [3, 2]"


def test_results_have_names_and_each_side_all_of_them():
    errors = result_errors((np.ones(2), np.zeros(1)), [np.ones(2)])
    assert [error.result for error in errors] == ["0", "1"]
    assert [error.why for error in errors] == ["", "the reference does not return it"]
    (extra,) = result_errors({}, {"sums": np.ones(1)})
    assert (extra.result, extra.why) == ("sums", "the kernel does not return it")


def test_an_empty_result_is_no_error():
    assert result_errors(np.zeros((0, 4)), np.zeros((0, 4)))[0].is_legal


def test_bfloat16_is_compared_as_numbers():
    values = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert result_errors(values, np.array([1.0, 2.0]))[0].is_legal


def test_tensors_of_torch_are_compared_too():
    torch = pytest.importorskip("torch")
    values = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    assert result_errors(values, torch.tensor([1.0, 2.0]))[0].is_legal
    assert not result_errors(torch.tensor([1]), torch.tensor([2]))[0].is_legal


def test_a_complex_reference_has_its_imaginary_part():
    (error,) = result_errors(np.array([3.0, 1.0]), np.array([3 + 4j, 1.0]))
    assert error.error == pytest.approx(4 / 5)
    assert error.index == (0,)


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ([[1.0, 2.0], [3.0]], "the reference is no array: "),
        (["a", "b"], "it is float64 and the reference <U1; legal: numbers"),
        ([{}, {}], "it is float64 and the reference object; legal: numbers"),
    ],
)
def test_references_that_are_no_numbers_are_wrong(reference, why):
    (error,) = result_errors(np.ones(2), reference)
    assert error.error == inf
    assert error.why.startswith(why)
