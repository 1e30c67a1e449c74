"""Functions of tiles that take several instructions: rounding, remainders, angles, selection.

AWS does not publish its implementations; these are chains of documented instructions.

Source: nki.language, Math operations; release notes of NKI 0.4, Known issues, NKI Language.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trnsim.dtypes import FLOAT32, INT32, UINT8
from trnsim.errors import IllegalInstruction
from trnsim.nki.arguments import check_tensor
from trnsim.nki.language_operators import OPERATORS, ComposedFunction, Operator, UnaryOperator
from trnsim.nki.precision import stored_dtype
from trnsim.nki.tensor import NkiTensor
from trnsim.nki.tiles import (
    as_tile,
    cast,
    check_number,
    issue,
    match_shapes,
    new_tile,
    plain_number,
)

_NO_FRACTIONS_FROM = 2.0**23  # float32 has 24 bits of mantissa
_INTEGER_SHIFT = 1.5 * _NO_FRACTIONS_FROM  # adding and subtracting it rounds to an integer
_SIGN_BIT = -(2**31)

# 2 pi (a turn) as a sum; the first parts have so few bits that k * part is exact in float32 for
# k up to 2**17.
_SHORT_PARTS = (6.25, 1.0625 * 2.0**-5, -1.15625 * 2.0**-16)
_TURN_PARTS = (*_SHORT_PARTS, math.tau - sum(_SHORT_PARTS))
_TURNS_PER_RADIAN = 1 / math.tau
_OVERFLOW_EXPONENT = 110  # 2**18 turns * 2**110 overflows float32
_QUARTER_TURN = 1.5707963705062866  # pi / 2 in float32
_QUARTER_TURN_REST = math.pi / 2 - _QUARTER_TURN

_add, _subtract, _multiply = (OPERATORS[name] for name in ("add", "subtract", "multiply"))
_less, _greater = OPERATORS["less"], OPERATORS["greater"]
_sign, _abs, _reciprocal = (OPERATORS[name] for name in ("sign", "abs", "reciprocal"))


def _result_dtype(x: NkiTensor, dtype: Any) -> Any:
    """`dtype`, or the dtype of x where it is None."""
    return x.dtype if dtype is None else dtype


def negative(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """-x."""
    return _multiply(x, -1.0, dtype)


def floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The largest integer that is at most x."""

    def round_down(nearest: NkiTensor, x: NkiTensor) -> NkiTensor:
        return _subtract(nearest, _greater(nearest, x))

    return _round_by("nl.floor", x, dtype, round_down)


def ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The smallest integer that is at least x."""

    def round_up(nearest: NkiTensor, x: NkiTensor) -> NkiTensor:
        return _add(nearest, _less(nearest, x))

    return _round_by("nl.ceil", x, dtype, round_up)


def trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The integer part of x."""

    def round_to_zero(nearest: NkiTensor, x: NkiTensor) -> NkiTensor:
        size, limit = _abs(nearest), _abs(x)
        return _subtract(size, _greater(size, limit))

    return _round_by("nl.trunc", x, dtype, round_to_zero)


def rint(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The nearest integer, ties to even (not in `nki.language`)."""
    return _round_by("rint", x, dtype, lambda nearest, _: nearest)


def _round_by(
    name: str, x: NkiTensor, dtype: Any, adjust: Callable[[NkiTensor, NkiTensor], NkiTensor]
) -> NkiTensor:
    """An integer near x, with the sign of x.

    The engines round when they cast to int32. Every float32 of magnitude 2**23 or more is an
    integer: such elements, infinities and NaN stay unchanged.

    Args:
        name: the function, for errors.
        x: the tile.
        dtype: the format of the result, or None for that of x.
        adjust: function of the nearest integer and x; gives the result up to its sign.
    """
    tile = as_tile(name, x)
    result_dtype = _result_dtype(tile, dtype)
    if not tile.dtype.is_float:
        return cast(tile, result_dtype)
    float32_tile = tile if tile.dtype == FLOAT32 else cast(tile, FLOAT32)
    integer = adjust(_nearest(float32_tile), float32_tile)
    _keep_large(integer, float32_tile)
    _copy_sign(integer, float32_tile)
    return integer if stored_dtype(result_dtype) == FLOAT32 else cast(integer, result_dtype)


def _nearest(tile: NkiTensor) -> NkiTensor:
    """The nearest integer in float32, by a cast to int32 and back."""
    return cast(cast(tile, INT32), FLOAT32)


def _keep_large(integer: NkiTensor, x: NkiTensor) -> None:
    """Restore elements without a fraction: magnitudes from 2**23 on, and NaN."""
    may_have_fraction = new_tile(x.shape, UINT8)
    issue("tensor_scalar", may_have_fraction, x, "abs", None, False, "less", _NO_FRACTIONS_FROM)
    issue("tensor_copy_predicated", integer, x, may_have_fraction, True)


def _copy_sign(integer: NkiTensor, x: NkiTensor) -> None:
    """Give `integer` the sign of `x`, zeros included."""
    bits, sign = integer.view(INT32), new_tile(x.shape, INT32)
    issue("tensor_scalar", sign, x.view(INT32), "bitwise_and", _SIGN_BIT)
    issue("tensor_tensor", bits, bits, sign, "bitwise_or")


def sin(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The sine of x for abs(x) below 2**18 turns (1.6e6), NaN beyond.

    Whole turns are subtracted, and the Scalar Engine's sine is applied. Absolute error: 3e-7 up to
    2**17 turns, 2e-6 up to 2**18. AWS says that nl.sin takes additional instructions to reduce its
    argument and stays accurate over the full input domain, but not which instructions; those here
    are assumed.

    Source: nki.api.shared.rst, Supported Activation Functions, note on sin.
    """
    tile = as_tile("nl.sin", x)
    return _engine_sine(_within_turn(tile), _result_dtype(tile, dtype))


def cos(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """sin(pi / 2 - abs(x)); assumed to reduce its argument as nl.sin does."""
    tile = as_tile("nl.cos", x)
    return _cosine_within_turn(_within_turn(tile), _result_dtype(tile, dtype))


def tan(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """sin(x) / cos(x); assumed to reduce its argument as nl.sin does."""
    tile = as_tile("nl.tan", x)
    angle = _within_turn(tile)
    inverse = _reciprocal(_cosine_within_turn(angle, FLOAT32))
    return _multiply(_engine_sine(angle, FLOAT32), inverse, _result_dtype(tile, dtype))


def _within_turn(tile: NkiTensor) -> NkiTensor:
    """The angle of `tile` less its nearest whole number of turns, in float32.

    2 pi is a sum of parts (Cody-Waite reduction). The number of turns times each part but the last
    is exact in float32, and so is the angle after each subtraction. Near half turns the number of
    turns may be off by one; the angle is then a little beyond pi, where the engine's cubic
    polynomial is still close to the sine.
    """
    turns, angle = new_tile(tile.shape, FLOAT32), new_tile(tile.shape, FLOAT32)
    # Beyond 2**18 turns the first product is infinite, so that the difference is NaN.
    scale_operands = (
        "multiply",
        _TURNS_PER_RADIAN * 2.0**_OVERFLOW_EXPONENT,
        False,
        "multiply",
        2.0**-_OVERFLOW_EXPONENT,
    )
    issue("tensor_scalar", turns, tile, *scale_operands)
    to_integer = ("add", _INTEGER_SHIFT, False, "subtract", _INTEGER_SHIFT)
    issue("tensor_scalar", turns, turns, *to_integer)
    remainder = tile
    for part in _TURN_PARTS:
        issue("scalar_tensor_tensor", angle, turns, "multiply", -part, "add", remainder)
        remainder = angle
    return angle


def _engine_sine(angle: NkiTensor, dtype: Any) -> NkiTensor:
    """The Scalar Engine's sine of an angle within a turn."""
    result = new_tile(angle.shape, dtype)
    issue("activation", result, "sin", angle)
    return result


def _cosine_within_turn(angle: NkiTensor, dtype: Any) -> NkiTensor:
    """sin(pi / 2 - abs(angle)), pi / 2 as the sum of two float32."""
    complement = new_tile(angle.shape, FLOAT32)
    issue("tensor_scalar", complement, angle, "abs", None, False, "subtract", _QUARTER_TURN, True)
    issue("tensor_scalar", complement, complement, "add", _QUARTER_TURN_REST)
    return _engine_sine(complement, dtype)


def logical_not(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """``x xor 1`` on zeros and ones."""
    return OPERATORS["logical_xor"](x, 1.0, dtype)


def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x * (1 / y)``: the product of x and the reciprocal of y."""
    y = plain_number(y)
    if isinstance(y, int | float):
        y = check_number("nl.divide: y", y, "nki.language.divide")
        return _multiply(x, 1.0 / y if y else math.copysign(math.inf, y), dtype)
    divisor = as_tile("nl.divide", y)
    return _multiply(
        x, _reciprocal(divisor, FLOAT32), dtype or _result_dtype(divisor, _dtype_of_tile(x))
    )


def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The remainder of x / y with the sign of y, in float32: x less a multiple of y.

    It is exact if that multiple is a float32, as all whole numbers below 2**24 are. For larger
    multiples the remainder is off by the rounding of the multiple, and may lie outside 0 to y:
    mod(1e10, 3) is -1021. It is NaN for a y of 0 or infinity, also where numpy's is x or y. The
    sign is that of y unless remainder * y underflows to zero.
    """
    remainder, divisor, result_dtype = _remainder(x, y, dtype)
    is_opposite = _less(_multiply(remainder, divisor), 0.0)
    return _add(remainder, _multiply(is_opposite, divisor), result_dtype)


def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The remainder of x / y with the sign of x; exact, and NaN, for the operands of `mod`."""
    remainder, divisor, result_dtype = _remainder(x, y, dtype)
    dividend = _as_float32(x, divisor.shape)
    is_opposite = _less(_multiply(remainder, dividend), 0.0)
    step = _multiply(_abs(divisor), _sign(dividend))
    return _add(remainder, _multiply(is_opposite, step), result_dtype)


def where(condition: NkiTensor, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Elements of x where `condition` is not zero, else of y; either may be a number."""
    check_tensor("nl.where: condition", condition, "nki.language.where")
    tile = next(t for t in (x, y, condition) if isinstance(t, NkiTensor))
    result_dtype = _result_dtype(tile, dtype)
    _check_fractions(condition, x, y, dtype, result_dtype)
    mask = OPERATORS["not_equal"](condition, 0.0, UINT8)
    result = new_tile(mask.shape, result_dtype)
    if isinstance(y, NkiTensor):
        issue("tensor_copy", result, match_shapes("nl.where", mask, y)[1])
    else:
        issue("memset", result, y)
    source = x
    if isinstance(x, NkiTensor):
        tile = match_shapes("nl.where", mask, x)[1]
        source = tile if tile.dtype == result.dtype else cast(tile, result_dtype)
    issue("tensor_copy_predicated", result, source, mask)
    return result


def _check_fractions(condition: NkiTensor, x: Any, y: Any, dtype: Any, kind: Any) -> None:
    """Refuse floats for a result that is of integers because no dtype is given."""
    is_float = any(isinstance(plain_number(value), float) for value in (x, y))
    if dtype is None and is_float and not kind.is_float:
        tiles = {"x": x, "y": y, "condition": condition}
        name = next(name for name, tile in tiles.items() if isinstance(tile, NkiTensor))
        raise IllegalInstruction(
            f"nl.where with a float and a result of {kind}, the dtype of `{name}`; legal: "
            "integers, or a dtype of floats",
            fix="pass the dtype of the result: dtype=nl.float32",
            source="nki.language.where",
        )


def dropout(x: NkiTensor, rate: NkiTensor | float, dtype: Any = None) -> NkiTensor:
    """Each element of x, or zero with probability `rate`, a number or a [P, 1] tile."""
    tile = as_tile("nl.dropout", x)
    output = new_tile(tile.shape, tile.dtype)
    issue("dropout", output, tile, rate)
    return output if dtype is None else cast(output, dtype)


def _remainder(x: Any, y: Any, dtype: Any) -> tuple[NkiTensor, NkiTensor, Any]:
    """The dividend less the nearest multiple of the divisor; the divisor; the result's format.

    The multiple is rounded to float32, and so is the quotient, by the reciprocal.
    """
    tile = as_tile("nl.mod", x if isinstance(x, NkiTensor) else y)
    divisor = _as_float32(y, tile.shape)
    dividend = _as_float32(x, divisor.shape)
    quotient = _multiply(dividend, _reciprocal(divisor))
    integer = _nearest(quotient)
    _keep_large(integer, quotient)
    return _subtract(dividend, _multiply(integer, divisor)), divisor, _result_dtype(tile, dtype)


def _as_float32(value: Any, shape: tuple[int, ...]) -> NkiTensor:
    """`value` as a float32 tile: a tile is cast, a number fills a tile of `shape`."""
    if isinstance(value, NkiTensor):
        return cast(as_tile("nl.mod", value), FLOAT32)
    tile = new_tile(shape, FLOAT32)
    number = check_number("nl.mod: an operand", value, "nki.language.mod")
    issue("memset", tile, float(number))
    return tile


def _dtype_of_tile(x: Any) -> Any:
    return x.dtype if isinstance(x, NkiTensor) else None


class _Sine(UnaryOperator):
    """nl.sin. As an instruction's `op` it does not reduce the argument; called on tiles it does."""

    def _apply(self, x: Any, dtype: Any = None) -> NkiTensor:
        """The sine of each element."""
        return sin(x, dtype)


_REMAINDER_FORMULA = (
    "nl.subtract(x, nl.multiply(y, nl.{}(nl.multiply(x, nl.reciprocal(y))))), which is close for "
    "small quotients"
)
FUNCTIONS: dict[str, Operator] = {
    function.__name__: function
    for function in (
        *(
            ComposedFunction(composition)
            for composition in (negative, floor, ceil, trunc, cos, tan, logical_not, where, dropout)
        ),
        ComposedFunction(divide, replacement="nl.multiply(x, nl.reciprocal(y))"),
        ComposedFunction(mod, replacement=_REMAINDER_FORMULA.format("floor")),
        ComposedFunction(fmod, replacement=_REMAINDER_FORMULA.format("trunc")),
        _Sine("sin"),
    )
}
"""The functions by their names in `nki.language`."""
