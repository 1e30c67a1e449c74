"""Operators that compute each element from the elements at the same place, and their gradients."""

from __future__ import annotations

import math
from typing import Any, Final

from trnsim.graph import Value
from trnsim.torch.importer.build import Build, Importer, Operand

_UNARY: Final = {
    "abs": "abs",
    "neg": "negate",
    "exp": "exponential",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "tanh": "tanh",
    "sigmoid": "logistic",
    "floor": "floor",
    "ceil": "ceil",
    "sign": "sign",
    "sgn": "sign",
    "expm1": "exponential_minus_one",
    "log1p": "log_plus_one",
    "erf": "erf",
    "reciprocal": "reciprocal",
    "square": "square",
    "relu": "relu",
    "silu": "silu",
    "mish": "mish",
    "logical_not": "not",
}
_BINARY: Final = {
    "mul": "multiply",
    "div": "divide",
    "true_divide": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
    "fmax": "maximum",
    "fmin": "minimum",
    "pow": "power",
    "remainder": "remainder",
    "logical_and": "and",
    "logical_or": "or",
    "__and__": "and",
    "__or__": "or",
    "bitwise_and": "and",
    "bitwise_or": "or",
}
_COMPARISONS: Final = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


def _unary(name: str) -> Importer:
    def build(b: Build, x: Value) -> Value:
        return b.result(b.ew(name, x, dtype=_floating(b, x)))

    return build


def _floating(b: Build, x: Value) -> str:
    """The dtype of a function of `x`: that of the result, as integers become floating point."""
    return b.results[0].dtype if b.results else x.dtype


def _binary(name: str) -> Importer:
    def build(b: Build, x: Operand, y: Operand, **_: Any) -> Value:
        return b.result(b.ew(name, _number(x), _number(y), dtype=b.results[0].dtype))

    return build


def _number(operand: Operand) -> Operand:
    """A number of Python, booleans too, as a number of the graph."""
    return operand if isinstance(operand, Value) else float(operand)


def _comparison(direction: str) -> Importer:
    def build(b: Build, x: Operand, y: Operand) -> Value:
        return b.ew("compare", _number(x), _number(y), dtype="uint8", direction=direction)

    return build


def add(b: Build, x: Value, y: Operand, *, alpha: float = 1) -> Value:
    """``x + alpha * y``."""
    return b.result(b.ew("add", x, _times(b, y, alpha), dtype=b.results[0].dtype))


def sub(b: Build, x: Value, y: Operand, *, alpha: float = 1) -> Value:
    """``x - alpha * y``."""
    return b.result(b.ew("subtract", x, _times(b, y, alpha), dtype=b.results[0].dtype))


def rsub(b: Build, x: Value, y: Operand, alpha: float = 1) -> Value:
    """``y - alpha * x``."""
    return b.result(b.ew("subtract", _number(y), _times(b, x, alpha), dtype=b.results[0].dtype))


def _times(b: Build, y: Operand, factor: float) -> Operand:
    if factor == 1:
        return _number(y)
    return b.ew("multiply", y, float(factor)) if isinstance(y, Value) else float(y) * factor


def div(b: Build, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Value:
    """X / y, rounded down or towards zero where asked."""
    quotient = b.ew("divide", _number(x), _number(y), dtype="float32")
    if rounding_mode == "floor":
        quotient = b.ew("floor", quotient)
    elif rounding_mode == "trunc":
        quotient = b.convert(b.convert(quotient, "int32"), "float32")
    return b.result(quotient)


def floor_divide(b: Build, x: Operand, y: Operand) -> Value:
    """The quotient, rounded down."""
    return div(b, x, y, rounding_mode="floor")


def where(b: Build, condition: Value, x: Operand, y: Operand) -> Value:
    """X where the condition holds, else y."""
    return b.result(b.ew("select", condition, _number(x), _number(y), dtype=b.results[0].dtype))


def masked_fill(b: Build, x: Value, mask: Value, number: Operand) -> Value:
    """A number where the mask holds."""
    return b.result(b.ew("select", mask, _number(number), x, dtype=x.dtype))


def clamp(
    b: Build, x: Value, smallest: Operand | None = None, largest: Operand | None = None, **kw: Any
) -> Value:
    """X within bounds."""
    smallest, largest = kw.get("min", smallest), kw.get("max", largest)
    for name, bound in (("maximum", smallest), ("minimum", largest)):
        if bound is not None:
            x = b.ew(name, x, _number(bound))
    return b.result(x)


def clamp_max(b: Build, x: Value, largest: Operand) -> Value:
    """The smaller of x and a bound."""
    return clamp(b, x, None, largest)


def hardtanh(b: Build, x: Value, smallest: float = -1.0, largest: float = 1.0) -> Value:
    """Within -1 and 1."""
    return clamp(b, x, smallest, largest)


def to_copy(b: Build, x: Value, **_: Any) -> Value:
    """X in the dtype of the result."""
    return b.result(x)


def lerp(b: Build, x: Value, end: Value, weight: Operand) -> Value:
    """``x + weight * (end - x)``."""
    step = b.ew("multiply", b.ew("subtract", end, x), _number(weight))
    return b.result(b.ew("add", x, step))


def addcmul(b: Build, x: Value, y: Value, z: Value, value: float = 1) -> Value:
    """``x + value * y * z``."""
    return b.result(b.ew("add", x, b.ew("multiply", b.ew("multiply", y, z), float(value))))


def addcdiv(b: Build, x: Value, y: Value, z: Value, value: float = 1) -> Value:
    """``x + value * y / z``."""
    return b.result(b.ew("add", x, b.ew("multiply", b.ew("divide", y, z), float(value))))


def gelu(b: Build, x: Value, *, approximate: str = "none") -> Value:
    """The Scalar Engine's gelu, or its tanh approximation."""
    return b.result(b.ew("gelu_tanh" if approximate == "tanh" else "gelu", x))


def gelu_backward(b: Build, grad: Value, x: Value, *, approximate: str = "none") -> Value:
    """The gradient times the derivative, which the Scalar Engine has for the exact gelu."""
    if approximate == "none":
        return b.result(b.ew("multiply", grad, b.ew("gelu_dx", x)))
    cubic = b.ew("multiply", b.ew("square", x), _GELU_CUBE)
    inner = b.ew("multiply", b.ew("multiply", x, b.ew("add", cubic, 1.0)), _GELU_SCALE)
    t = b.ew("tanh", inner)
    slope = b.ew("multiply", b.ew("add", b.ew("multiply", cubic, 3.0), 1.0), _GELU_SCALE)
    one_minus = b.ew("subtract", 1.0, b.ew("square", t))
    right = b.ew("multiply", b.ew("multiply", b.ew("multiply", x, one_minus), slope), 0.5)
    left = b.ew("multiply", b.ew("add", t, 1.0), 0.5)
    return b.result(b.ew("multiply", grad, b.ew("add", left, right)))


_GELU_CUBE: Final = 0.044715  # torch.nn.functional.gelu, approximate="tanh"
_GELU_SCALE: Final = math.sqrt(2 / math.pi)


def silu_backward(b: Build, grad: Value, x: Value) -> Value:
    """The gradient times the derivative, which the Scalar Engine has."""
    return b.result(b.ew("multiply", grad, b.ew("silu_dx", x)))


def tanh_backward(b: Build, grad: Value, y: Value) -> Value:
    """``grad * (1 - y * y)``."""
    return b.result(b.ew("multiply", grad, b.ew("subtract", 1.0, b.ew("square", y))))


def sigmoid_backward(b: Build, grad: Value, y: Value) -> Value:
    """``grad * y * (1 - y)``."""
    slope = b.ew("multiply", y, b.ew("subtract", 1.0, y))
    return b.result(b.ew("multiply", grad, slope))


def threshold_backward(b: Build, grad: Value, x: Value, threshold: float) -> Value:
    """The gradient where x is above the threshold, else 0."""
    above = b.ew("compare", x, float(threshold), dtype="uint8", direction="GT")
    return b.result(b.ew("select", above, grad, 0.0, dtype=grad.dtype))


def leaky_relu(b: Build, x: Value, slope: float = 0.01) -> Value:
    """X where positive, else ``slope * x``."""
    above = b.ew("compare", x, 0.0, dtype="uint8", direction="GT")
    return b.result(b.ew("select", above, x, b.ew("multiply", x, float(slope)), dtype=x.dtype))


def softplus(b: Build, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """``log(1 + exp(beta * x)) / beta``, and x itself where that is large."""
    scaled = b.ew("multiply", x, float(beta))
    soft = b.ew("multiply", b.ew("softplus", scaled), 1.0 / beta)
    large = b.ew("compare", scaled, float(threshold), dtype="uint8", direction="GT")
    return b.result(b.ew("select", large, x, soft, dtype=x.dtype))


def isnan(b: Build, x: Value) -> Value:
    """Whether x differs from itself."""
    return b.ew("compare", x, x, dtype="uint8", direction="NE")


def isneginf(b: Build, x: Value) -> Value:
    """Whether x is below the smallest finite number."""
    return b.ew("compare", x, -_LARGEST, dtype="uint8", direction="LT")


def isposinf(b: Build, x: Value) -> Value:
    """Whether x is above the largest finite number."""
    return b.ew("compare", x, _LARGEST, dtype="uint8", direction="GT")


def isinf(b: Build, x: Value) -> Value:
    """Whether the magnitude of x is above the largest finite number."""
    return b.ew("compare", b.ew("abs", x), _LARGEST, dtype="uint8", direction="GT")


_LARGEST: Final = 3.4028234663852886e38


def _log_of_base(base: float) -> Importer:
    def build(b: Build, x: Value) -> Value:
        return b.result(b.ew("multiply", b.ew("log", x), 1 / math.log(base)))

    return build


def exp2(b: Build, x: Value) -> Value:
    """2 to the x."""
    return b.result(b.ew("exponential", b.ew("multiply", x, math.log(2))))


def _hyperbolic(sign: float) -> Importer:
    def build(b: Build, x: Value) -> Value:
        grown, shrunk = b.ew("exponential", x), b.ew("exponential", b.ew("negate", x))
        both = b.ew("add", grown, b.ew("multiply", shrunk, sign))
        return b.result(b.ew("multiply", both, 0.5))

    return build


def _angle(name: str) -> Importer:
    """A function of an angle, of which the Scalar Engine takes one turn."""

    def build(b: Build, x: Value) -> Value:
        turns = b.ew("floor", b.ew("add", b.ew("multiply", x, 1 / math.tau), 0.5))
        within = b.ew("subtract", x, b.ew("multiply", turns, math.tau))
        return b.result(b.ew(name, within))

    return build


def atan(b: Build, x: Value) -> Value:
    """The Scalar Engine's, which ends at pi / 2; beyond 1, pi / 2 less that of the reciprocal."""
    is_large = b.ew("compare", b.ew("abs", x), 1.0, dtype="uint8", direction="GT")
    inner = b.ew("select", is_large, b.ew("reciprocal", x), x, dtype=x.dtype)
    angle = b.ew("atan", inner)
    rest = b.ew("subtract", b.ew("multiply", b.ew("sign", x), math.pi / 2), angle)
    return b.result(b.ew("select", is_large, rest, angle, dtype=x.dtype))


def asin(b: Build, x: Value) -> Value:
    """``atan(x / sqrt(1 - x * x))``."""
    root = b.ew("sqrt", b.ew("subtract", 1.0, b.ew("square", x)))
    return atan(b, b.ew("divide", x, root))


def acos(b: Build, x: Value) -> Value:
    """``pi / 2 - asin(x)``."""
    return b.result(b.ew("subtract", math.pi / 2, asin(b, x)))


def atanh(b: Build, x: Value) -> Value:
    """``log((1 + x) / (1 - x)) / 2``."""
    ratio = b.ew("divide", b.ew("add", x, 1.0), b.ew("subtract", 1.0, x))
    return b.result(b.ew("multiply", b.ew("log", ratio), 0.5))


def _inverse_hyperbolic(shift: float) -> Importer:
    def build(b: Build, x: Value) -> Value:
        root = b.ew("sqrt", b.ew("add", b.ew("square", x), shift))
        return b.result(b.ew("log", b.ew("add", x, root)))

    return build


def trunc(b: Build, x: Value) -> Value:
    """The integer part."""
    return b.result(b.convert(b.convert(x, "int32"), x.dtype))


def native_dropout(b: Build, x: Value, p: float, train: bool | None = True) -> tuple[Value, ...]:
    """X / (1 - p) or 0, and which of the two, of the chip's own random numbers."""
    if train is False:
        return b.result(x), b.filled(1, b.results[1])
    kept = b.ew("compare", b.graph.rng(x.shape), float(p), dtype="uint8", direction="GE")
    scaled = b.ew("multiply", x, 1 / (1 - p) if p < 1 else 0.0)
    return b.result(b.ew("multiply", scaled, kept)), kept


def native_dropout_backward(b: Build, grad: Value, mask: Value, scale: float) -> Value:
    """The gradient of what was kept, scaled."""
    return b.result(b.ew("multiply", b.ew("multiply", grad, mask), float(scale)))


def uniform(b: Build, x: Value, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
    """Random numbers of [low, high)."""
    drawn = b.ew("multiply", b.graph.rng(x.shape or (1,)), float(high - low))
    return b.result(b.graph.reshape(b.ew("add", drawn, float(low)), x.shape))


def bernoulli(b: Build, x: Value, p: float | None = None, **_: Any) -> Value:
    """1 with probability p, or with the probability that x holds, else 0."""
    bound: Operand = x if p is None else float(p)
    drawn = b.graph.rng(x.shape)
    return b.result(b.ew("compare", drawn, bound, dtype="uint8", direction="LT"))


def normal(b: Build, x: Value, mean: float = 0.0, std: float = 1.0, **_: Any) -> Value:
    """Normal random numbers by Box and Muller's transform."""
    shape = x.shape or (1,)
    radius = b.ew("negate", b.ew("log", b.ew("subtract", 1.0, b.graph.rng(shape))))
    radius = b.ew("sqrt", b.ew("multiply", radius, 2.0))
    angle = b.ew("multiply", b.ew("subtract", b.graph.rng(shape), 0.5), 2 * math.pi)
    drawn = b.ew("multiply", b.ew("multiply", radius, b.ew("sine", angle)), float(std))
    return b.result(b.graph.reshape(b.ew("add", drawn, float(mean)), x.shape))


def fmod(b: Build, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of x."""
    quotient = b.ew("divide", _number(x), _number(y), dtype="float32")
    whole = b.convert(b.convert(quotient, "int32"), "float32")
    return b.result(b.ew("subtract", _number(x), b.ew("multiply", whole, _number(y))))


def round_(b: Build, x: Value) -> Value:
    """The nearest integer; halves go up in `exact` numerics, to the even one on the host."""
    return b.result(b.ew("floor", b.ew("add", x, 0.5)))


def elu(b: Build, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """``scale * x`` where positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    above = b.ew("compare", x, 0.0, dtype="uint8", direction="GT")
    grown = b.ew("exponential_minus_one", b.ew("multiply", x, float(input_scale)))
    below = b.ew("multiply", grown, float(alpha))
    return b.result(b.ew("multiply", b.ew("select", above, x, below, dtype=x.dtype), float(scale)))


def logical_xor(b: Build, x: Value, y: Value) -> Value:
    """Whether one of the two is zero and the other is not."""
    held = [b.ew("compare", part, 0.0, dtype="float32", direction="NE") for part in (x, y)]
    return b.ew("compare", *held, dtype="uint8", direction="NE")


def drawn(b: Build, *_: Any, **__: Any) -> Value:
    """Random numbers of [0, 1) in a new tensor."""
    return b.result(b.graph.reshape(b.graph.rng(b.results[0].shape or (1,)), b.results[0].shape))


def bitwise_not(b: Build, x: Value) -> Value:
    """The negation of a truth value, or -1 - x of an integer."""
    if x.dtype == "uint8":
        return b.ew("not", x, dtype="uint8")
    return b.ew("subtract", -1.0, x)


IMPORTERS: Final[dict[str, Importer]] = {
    **{name: _unary(operation) for name, operation in _UNARY.items()},
    **{name: _binary(operation) for name, operation in _BINARY.items()},
    **{name: _comparison(direction) for name, direction in _COMPARISONS.items()},
    "add": add,
    "sub": sub,
    "rsub": rsub,
    "div": div,
    "floor_divide": floor_divide,
    "where": where,
    "masked_fill": masked_fill,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp_max,
    "hardtanh": hardtanh,
    "_to_copy": to_copy,
    "lerp": lerp,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "silu_backward": silu_backward,
    "tanh_backward": tanh_backward,
    "sigmoid_backward": sigmoid_backward,
    "threshold_backward": threshold_backward,
    "leaky_relu": leaky_relu,
    "softplus": softplus,
    "isnan": isnan,
    "isneginf": isneginf,
    "isposinf": isposinf,
    "isinf": isinf,
    "log2": _log_of_base(2),
    "log10": _log_of_base(10),
    "exp2": exp2,
    "sinh": _hyperbolic(-1.0),
    "cosh": _hyperbolic(1.0),
    "sin": _angle("sine"),
    "cos": _angle("cosine"),
    "tan": _angle("tan"),
    "atan": atan,
    "asin": asin,
    "acos": acos,
    "atanh": atanh,
    "asinh": _inverse_hyperbolic(1.0),
    "acosh": _inverse_hyperbolic(-1.0),
    "trunc": trunc,
    "native_dropout": native_dropout,
    "native_dropout_backward": native_dropout_backward,
    "uniform": uniform,
    "bernoulli": bernoulli,
    "normal": normal,
    "bitwise_not": bitwise_not,
    "fmod": fmod,
    "round": round_,
    "elu": elu,
    "logical_xor": logical_xor,
    "rand": drawn,
}
