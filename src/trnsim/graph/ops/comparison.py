"""Comparisons of elements, and choices between them."""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.graph.operation import Example
from trnsim.graph.ops.elementwise import Binary, Elementwise, Unary
from trnsim.graph.types import BOOL, ELEMENT_TYPES, FLOATS, Array, TensorType

DIRECTIONS: Final = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "LT": np.less,
    "LE": np.less_equal,
}


class Compare(Binary):
    """``lhs <direction> rhs``: EQ, NE, GT, GE, LT or LE. NaN differs from everything."""

    tolerance = 0.0
    direction: str = "EQ"

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that the direction is one of six."""
        super().check(tensors)
        if self.direction not in DIRECTIONS:
            self.refuse(f"by {self.direction}; legal: {', '.join(DIRECTIONS)}")

    def result_dtype(self, *dtypes: str) -> str:
        """The type of truth values."""
        del dtypes
        return BOOL

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """True where the comparison holds."""
        return DIRECTIONS[self.direction](lhs, rhs)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Every direction of every type."""
        return tuple(
            Example(cls(direction), (TensorType((3, 40), dtype),) * 2, ("edges", "edges"))
            for direction in DIRECTIONS
            for dtype in ELEMENT_TYPES
        )


class Select(Elementwise):
    """``on_true if pred else on_false``, for each element."""

    operands = ("pred", "on_true", "on_false")
    tolerance = 0.0

    def result_dtype(self, *dtypes: str) -> str:
        """The element type of the two choices."""
        return dtypes[-1]

    def reference(self, pred: Array, on_true: Array, on_false: Array) -> Array:
        """The chosen elements."""
        return np.where(pred.astype(np.bool_), on_true, on_false)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Every type, chosen by truth values."""
        return tuple(
            Example(
                cls(),
                (TensorType((3, 40), BOOL), TensorType((3, 40), dtype), TensorType((3, 40), dtype)),
                ("edges", "edges", "edges"),
            )
            for dtype in ELEMENT_TYPES
        )


class IsFinite(Unary):
    """True where the operand is neither infinite nor NaN."""

    legal = (FLOATS,)
    tolerance = 0.0

    def result_dtype(self, *dtypes: str) -> str:
        """The type of truth values."""
        del dtypes
        return BOOL

    def reference(self, operand: Array) -> Array:
        """True for finite numbers."""
        return np.isfinite(operand)
