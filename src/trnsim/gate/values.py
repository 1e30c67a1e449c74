"""The errors of a kernel's values against a reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import numpy as np
import numpy.typing as npt

TOLERANCE: Final = 0.01
"""Largest error of floating-point values, as a share of the largest value of the reference."""


def is_tolerance(value: object) -> bool:
    """True for a number from 0 to below 1, which `result_errors` takes as a tolerance."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


@dataclass(frozen=True)
class ResultError:
    """The largest error of a result.

    Attributes:
        result: the result's name: "" for the only result, else its number or key.
        error: max |value - reference| / max |reference|; infinite if they cannot be compared.
        tolerance: the largest legal error; 0 for whole numbers and truth values.
        why: the reason for an infinite error.
    """

    result: str
    error: float
    tolerance: float
    index: tuple[int, ...] = ()
    why: str = ""

    @property
    def is_legal(self) -> bool:
        """True if the error is within the tolerance."""
        return self.error <= self.tolerance


def result_errors(outputs: Any, expected: Any, tolerance: float | None = None) -> list[ResultError]:
    """The error of each result of a kernel."""
    results, references = dict(_leaves(outputs)), dict(_leaves(expected))
    errors: list[ResultError] = []
    for name in dict.fromkeys([*results, *references]):
        if name not in results or name not in references:
            side = "the reference" if name in results else "the kernel"
            errors.append(ResultError(name, inf, 0.0, why=f"{side} does not return it"))
            continue
        errors.append(_error(name, _array(results[name]), references[name], tolerance))
    return errors


def _leaves(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a result, each with its name."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key))
    elif isinstance(values, tuple | list) and any(hasattr(value, "shape") for value in values):
        for number, value in enumerate(values):
            yield from _leaves(value, f"{name}.{number}" if name else str(number))
    elif values is not None:
        yield name, values


def _array(value: Any) -> npt.NDArray[Any]:
    """An array of numpy; of a tensor of torch too, whose bfloat16 numpy does not have."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        return np.asarray(tensor.float() if tensor.is_floating_point() else tensor)
    return np.asarray(value)


def _error(
    name: str, result: npt.NDArray[Any], wanted_value: Any, tolerance: float | None
) -> ResultError:
    try:
        reference = _array(wanted_value)
    except (TypeError, ValueError) as reason:
        return ResultError(name, inf, 0.0, why=f"the reference is no array: {reason}")
    if result.shape != reference.shape:
        shapes = f"it is {list(result.shape)} and the reference {list(reference.shape)}"
        return ResultError(name, inf, 0.0, why=shapes)
    is_exact = result.dtype.kind in "biu" and reference.dtype.kind in "biu"
    legal = tolerance if tolerance is not None else 0.0 if is_exact else TOLERANCE
    if not result.size:
        return ResultError(name, 0.0, legal)
    is_complex = "c" in (result.dtype.kind, reference.dtype.kind)
    kind = np.complex128 if is_complex else np.float64
    try:
        values, expected = result.astype(kind), reference.astype(kind)
    except (TypeError, ValueError):
        why = f"it is {result.dtype} and the reference {reference.dtype}; legal: numbers"
        return ResultError(name, inf, 0.0, why=why)
    # Equal infinities and two NaNs are no error; integers are compared before they are rounded.
    is_equal = result == reference if is_exact else values == expected
    is_same = is_equal | (np.isnan(values) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        differences = np.where(is_same, 0.0, np.abs(values - expected))
    differences = np.where(np.isnan(differences), inf, differences)
    if is_exact:
        differences = np.where(is_same, 0.0, np.maximum(differences, 1.0))
    finite_values = np.abs(expected[np.isfinite(expected)])
    scale = float(finite_values.max()) if finite_values.size else 0.0
    index = tuple(int(i) for i in np.unravel_index(int(differences.argmax()), differences.shape))
    largest_difference = float(differences.max())
    error = largest_difference / scale if scale else largest_difference
    why = f"{result[index]!s} where the reference is {reference[index]!s}" if error == inf else ""
    return ResultError(name, error, legal, index, why)
