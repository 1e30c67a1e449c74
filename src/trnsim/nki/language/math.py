"""Functions of tiles that take several instructions: rounding, remainders, angles, choices.

AWS does not publish how its own are made; these are chains of documented instructions.

Source: nki.language, Math operations; release notes of NKI 0.4, Known issues, NKI Language.
"""

from __future__ import annotations

import math
from typing import Any

from trnsim.dtypes import FLOAT32, INT32, UINT8
from trnsim.nki.arguments import tensor
from trnsim.nki.operators import OPERATORS, Composed
from trnsim.nki.tensor import NkiTensor
from trnsim.nki.tiles import as_tile, cast, issue, matched, new_tile

_add, _subtract, _multiply = (OPERATORS[name] for name in ("add", "subtract", "multiply"))
_less, _greater = OPERATORS["less"], OPERATORS["greater"]
_sign, _abs, _reciprocal = (OPERATORS[name] for name in ("sign", "abs", "reciprocal"))


def _result(x: NkiTensor, dtype: Any) -> Any:
    return x.dtype if dtype is None else dtype


def negative(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """-x."""
    return _multiply(x, -1.0, dtype)


def _rounded(x: NkiTensor) -> NkiTensor:
    """The nearest integer in float32, by way of int32: up to 2**31."""
    return cast(cast(x, INT32), FLOAT32)


def floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The largest integer that is not above x, for magnitudes up to 2**31."""
    tile = as_tile("nl.floor", x)
    nearest = _rounded(tile)
    wide = cast(tile, FLOAT32)
    return _subtract(nearest, _greater(nearest, wide), _result(tile, dtype))


def ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The smallest integer that is not below x, for magnitudes up to 2**31."""
    tile = as_tile("nl.ceil", x)
    nearest = _rounded(tile)
    wide = cast(tile, FLOAT32)
    return _add(nearest, _less(nearest, wide), _result(tile, dtype))


def trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The integer part of x, for magnitudes up to 2**31."""
    tile = as_tile("nl.trunc", x)
    wide = cast(tile, FLOAT32)
    return _multiply(floor(_abs(wide)), _sign(wide), _result(tile, dtype))


def cos(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """sin(pi / 2 - abs(x)), which the Scalar Engine knows for abs(x) up to 3 pi / 2."""
    tile = as_tile("nl.cos", x)
    folded = new_tile(tile.shape, FLOAT32)
    issue(
        "tensor_scalar",
        folded,
        _abs(cast(tile, FLOAT32)),
        "multiply",
        -1.0,
        False,
        "add",
        math.pi / 2,
    )
    return OPERATORS["sin"](folded, _result(tile, dtype))


def tan(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """sin(x) / cos(x)."""
    tile = as_tile("nl.tan", x)
    inverse = _reciprocal(cos(tile, FLOAT32))
    return _multiply(OPERATORS["sin"](tile, FLOAT32), inverse, _result(tile, dtype))


def logical_not(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Exclusive or with 1, of zeros and ones."""
    return OPERATORS["logical_xor"](x, 1.0, dtype)


def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The product of x and the reciprocal of y."""
    if isinstance(y, int | float):
        return _multiply(x, 1.0 / y, dtype)
    divisor = as_tile("nl.divide", y)
    return _multiply(x, _reciprocal(divisor, FLOAT32), dtype or _result(divisor, _kind(x)))


def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The remainder of x / y with the sign of y."""
    rest, divisor, kind = _remainder(x, y, dtype)
    is_opposite = _less(_multiply(rest, divisor), 0.0)
    return _add(rest, _multiply(is_opposite, divisor), kind)


def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The remainder of x / y with the sign of x."""
    rest, divisor, kind = _remainder(x, y, dtype)
    dividend = _as_wide(x, like=divisor)
    is_opposite = _less(_multiply(rest, dividend), 0.0)
    step = _multiply(_abs(divisor), _sign(dividend))
    return _add(rest, _multiply(is_opposite, step), kind)


def where(condition: NkiTensor, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Elements of x where `condition` is not zero, else of y; one of the two may be a number."""
    tensor("nl.where: condition", condition, "nki.language.where")
    kind = dtype or next(t.dtype for t in (x, y, condition) if isinstance(t, NkiTensor))
    mask = OPERATORS["not_equal"](condition, 0.0, UINT8)
    chosen = new_tile(mask.shape, kind)
    if isinstance(y, NkiTensor):
        issue("tensor_copy", chosen, matched("nl.where", mask, y)[1])
    else:
        issue("memset", chosen, y)
    source = x
    if isinstance(x, NkiTensor):
        tile = matched("nl.where", mask, x)[1]
        source = tile if tile.dtype == chosen.dtype else cast(tile, kind)
    issue("tensor_copy_predicated", chosen, source, mask)
    return chosen


def dropout(x: NkiTensor, rate: NkiTensor | float, dtype: Any = None) -> NkiTensor:
    """Each element of x, or zero with probability `rate`, a number or a [P, 1] tile."""
    tile = as_tile("nl.dropout", x)
    kept = new_tile(tile.shape, tile.dtype)
    issue("dropout", kept, tile, rate)
    return kept if dtype is None else cast(kept, dtype)


def _remainder(x: Any, y: Any, dtype: Any) -> tuple[NkiTensor, NkiTensor, Any]:
    """The difference of x and the nearest multiple of y, y, and the format of the result."""
    some = x if isinstance(x, NkiTensor) else y
    divisor = _as_wide(y, like=some)
    dividend = _as_wide(x, like=divisor)
    whole = _rounded(_multiply(dividend, _reciprocal(divisor)))
    return _subtract(dividend, _multiply(whole, divisor)), divisor, _result(some, dtype)


def _as_wide(value: Any, like: NkiTensor) -> NkiTensor:
    """A float32 tile of a tile or a number."""
    if isinstance(value, NkiTensor):
        return cast(as_tile("nl.mod", value), FLOAT32)
    tile = new_tile(like.shape, FLOAT32)
    issue("memset", tile, float(value))
    return tile


def _kind(x: Any) -> Any:
    return x.dtype if isinstance(x, NkiTensor) else None


_NO_REMAINDER = "compute x - y * nl.floor(nl.multiply(x, nl.reciprocal(y)))"
FUNCTIONS = {
    function.__name__: function
    for function in (
        *(
            Composed(plain)
            for plain in (negative, floor, ceil, trunc, cos, tan, logical_not, where, dropout)
        ),
        Composed(divide, lacks="nl.multiply(x, nl.reciprocal(y))"),
        Composed(mod, lacks=_NO_REMAINDER),
        Composed(fmod, lacks=_NO_REMAINDER),
    )
}
"""By name, what `nki.language` calls them."""
