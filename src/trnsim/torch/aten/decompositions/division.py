"""Quotients in each rounding mode, and remainders."""

from __future__ import annotations

import math
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build, Operand, converted_number
from trnsim.graph.types import INTEGERS
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.elementwise import LARGEST, as_number, as_numeric, binary


def div(b: Build, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Value:
    """``x / y``, rounded as the mode says: "floor" down, "trunc" towards zero.

    In floating point the remainder is subtracted first, since a product with a reciprocal may fall
    short of an integral quotient. As on the host, "trunc" rounds the float32 quotient, "floor" is
    exact.
    """
    x, y = as_numeric(b, as_number(x), as_number(y))
    if rounding_mode and b.result_types[0].dtype in INTEGERS:
        return _divided_integers(b, x, y, rounding_mode)
    quotient = b.ew("divide", x, y, dtype="float32")
    if rounding_mode is None or y == 0:
        return b.as_result(quotient)
    remainder = {"floor": "floor_remainder", "trunc": "remainder"}[rounding_mode]
    remainder_value = b.ew(remainder, x, y, dtype="float32")
    multiple = b.ew("subtract", x, remainder_value, dtype="float32")
    integer = b.ew("round_nearest_even", b.ew("divide", multiple, y, dtype="float32"))
    if rounding_mode == "trunc":
        integer = b.ew(
            "trunc", b.ew("add", integer, b.ew("divide", remainder_value, y, dtype="float32"))
        )
    integer = _where_infinite(b, quotient, quotient, integer)
    integer = _with_infinities(b, x, y, integer, rounding_mode)
    if isinstance(y, Value):  # also an infinite dividend
        is_zero = b.ew("compare", y, 0.0, direction="EQ")
        integer = b.ew("select", is_zero, quotient, integer, dtype="float32")
    return b.as_result(integer)


def _with_infinities(b: Build, x: Operand, y: Operand, integer: Value, rounding_mode: str) -> Value:
    """A rounded quotient, corrected where an operand is infinite and the remainder NaN.

    With an infinite divisor it is 0, or -1 if signs differ and it is rounded down. With an infinite
    dividend it is infinite, or NaN if rounded down.
    """
    product = b.ew("multiply", x, y, dtype="float32")
    negative_quotient = -1.0 if rounding_mode == "floor" else 0.0
    is_less = b.ew("compare", product, 0.0, direction="LT")
    ratio = b.ew("divide", x, y, dtype="float32")
    zero = b.ew("multiply", ratio, 0.0)  # NaN stays NaN
    integer = _where_infinite(
        b, y, b.ew("select", is_less, negative_quotient, zero, dtype="float32"), integer
    )
    if rounding_mode == "floor":
        ratio = b.ew("subtract", ratio, ratio)
    return _where_infinite(b, x, ratio, integer)


def _where_infinite(
    b: Build, operand: Operand, infinite_result: Value, finite_result: Value
) -> Value:
    """`infinite_result` where an operand is infinite, else `finite_result`."""
    if not isinstance(operand, Value):
        return infinite_result if math.isinf(operand) else finite_result
    is_infinite = b.ew("compare", b.ew("abs", operand), LARGEST, direction="GT")
    return b.ew("select", is_infinite, infinite_result, finite_result, dtype="float32")


def _divided_integers(b: Build, x: Operand, y: Operand, rounding_mode: str) -> Value:
    """The exact quotient of integers, minus 1 to round down where the remainder's sign differs."""
    dtype = b.result_types[0].dtype
    sides = [
        b.convert(side, dtype) if isinstance(side, Value) else converted_number(side, dtype)
        for side in (x, y)
    ]
    quotient = b.ew("divide", *sides, dtype=dtype)
    if rounding_mode == "trunc":
        return b.as_result(quotient)
    remainder = b.ew("remainder", *sides, dtype=dtype)
    signs = b.ew("xor", remainder, sides[1], dtype=dtype)
    is_other = b.ew("compare", signs, 0.0, direction="LT")
    is_less = b.ew("and", is_other, b.ew("compare", remainder, 0.0, direction="NE"))
    return b.as_result(b.ew("subtract", quotient, b.convert(is_less, dtype), dtype=dtype))


def floor_divide(b: Build, x: Operand, y: Operand) -> Value:
    """The quotient, rounded down."""
    return div(b, x, y, rounding_mode="floor")


def _remainder(name: str) -> Decomposition:
    """A remainder; a number is first converted to the dtype of the result."""

    def build(b: Build, x: Operand, y: Operand) -> Any:
        dtype = b.result_types[0].dtype
        return binary(name)(b, converted_number(x, dtype), converted_number(y, dtype))

    return build


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "div": div,
    "true_divide": binary("divide"),
    "floor_divide": floor_divide,
    "remainder": _remainder("floor_remainder"),
    "fmod": _remainder("remainder"),
}
