"""Functions that the chip lacks, from those that it has: series, reflections, identities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build, Operand
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.elementwise import xlogy

_CENTRAL_COEFFICIENTS: Final = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04,
    -1.25372503e-03, -4.17768164e-03, 2.46640727e-01, 1.50140941,
)  # fmt: skip
_TAIL_COEFFICIENTS: Final = (
    -2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03,
    -7.6224613e-03, 9.43887047e-03, 1.00167406, 2.83297682,
)  # fmt: skip
"""Coefficients of erfinv(x) / x in w - 2.5 and in sqrt(w) - 3, where w = -log(1 - x * x).

Source: Giles, Approximating the erfinv function (2010), table 5."""
_TAIL_FROM_W: Final = 5.0
"""The w from which the second polynomial holds."""
_RECURRENCE_STEPS: Final = 7
"""The integer that is added to an argument before an asymptotic series is used."""
_STIRLING_SERIES: Final = (1 / 1260, -1 / 360, 1 / 12)
"""Coefficients of log(gamma(x)) in 1 / x**2, times 1 / x. Source: DLMF 5.11.1."""
_DIGAMMA_SERIES: Final = (-1 / 252, 1 / 120, -1 / 12)
"""Coefficients of digamma(x) in 1 / x**2, times 1 / x**2. Source: DLMF 5.11.2."""


def _polynomial(b: Build, x: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial by Horner's rule, the coefficient of the highest power first."""
    highest, following, *rest = coefficients
    total = b.ew("add", b.ew("multiply", x, highest), following)
    for coefficient in rest:
        total = b.ew("add", b.ew("multiply", total, x), coefficient)
    return total


def _reduced_angle(b: Build, x: Value) -> Value:
    """Pi times x, less the nearest multiple of pi: from -pi/2 to pi/2."""
    nearest = b.ew("round_nearest_even", x)
    return b.ew("multiply", b.ew("subtract", x, nearest), math.pi)


def _is_below(b: Build, x: Value, bound: float) -> Value:
    return b.ew("compare", x, bound, dtype="bool", direction="LT")


def erfinv(b: Build, x: Value) -> Value:
    """The inverse of erf, by two polynomials in ``w = -log(1 - x * x)``."""
    x = b.convert(x, "float32")
    complement = b.ew("multiply", b.ew("subtract", 1.0, x), b.ew("add", 1.0, x))
    w = b.ew("negate", b.ew("log", complement))
    central_ratio = _polynomial(b, b.ew("subtract", w, 2.5), _CENTRAL_COEFFICIENTS)
    tail_ratio = _polynomial(b, b.ew("subtract", b.ew("sqrt", w), 3.0), _TAIL_COEFFICIENTS)
    ratio = b.ew(
        "select", _is_below(b, w, _TAIL_FROM_W), central_ratio, tail_ratio, dtype="float32"
    )
    return b.as_result(b.ew("multiply", ratio, x))


def lgamma(b: Build, x: Value) -> Value:
    """The logarithm of gamma's magnitude: Stirling's series at x + 7, reflected below 1/2.

    Infinity at 0 and at negative whole numbers.
    """
    x = b.convert(x, "float32")
    is_low = _is_below(b, x, 0.5)
    argument = b.ew("select", is_low, b.ew("subtract", 1.0, x), x, dtype="float32")
    product = argument
    for step in range(1, _RECURRENCE_STEPS):
        product = b.ew("multiply", product, b.ew("add", argument, float(step)))
    shifted_argument = b.ew("add", argument, float(_RECURRENCE_STEPS))
    inverse = b.ew("reciprocal", shifted_argument)
    series = b.ew("multiply", inverse, _polynomial(b, b.ew("square", inverse), _STIRLING_SERIES))
    log_power = b.ew(
        "multiply", b.ew("subtract", shifted_argument, 0.5), b.ew("log", shifted_argument)
    )
    stirling = b.ew("add", b.ew("subtract", log_power, shifted_argument), 0.5 * math.log(math.tau))
    logarithm = b.ew("subtract", b.ew("add", stirling, series), b.ew("log", product))
    wave = b.ew("abs", b.ew("sine", _reduced_angle(b, x)))
    is_whole = b.ew("compare", wave, 0.0, dtype="bool", direction="EQ")
    nonzero_wave = b.ew("select", is_whole, 1.0, wave, dtype="float32")
    reflection = b.ew(
        "subtract", math.log(math.pi), b.ew("add", b.ew("log", nonzero_wave), logarithm)
    )
    low_result = b.ew("select", is_whole, math.inf, reflection, dtype="float32")
    return b.as_result(b.ew("select", is_low, low_result, logarithm, dtype="float32"))


def digamma(b: Build, x: Value) -> Value:
    """The derivative of lgamma: its series at x + 7, reflected below 1/2.

    NaN at negative whole numbers; minus infinity at 0, infinity at -0.
    """
    x = b.convert(x, "float32")
    is_low = _is_below(b, x, 0.5)
    argument = b.ew("select", is_low, b.ew("subtract", 1.0, x), x, dtype="float32")
    recurrence_terms = b.total(
        [b.ew("reciprocal", b.ew("add", argument, float(n))) for n in range(_RECURRENCE_STEPS)]
    )
    shifted_argument = b.ew("add", argument, float(_RECURRENCE_STEPS))
    inverse = b.ew("reciprocal", shifted_argument)
    square = b.ew("square", inverse)
    series = b.ew("multiply", square, _polynomial(b, square, _DIGAMMA_SERIES))
    half_inverse = b.ew("multiply", inverse, 0.5)
    derivative = b.ew(
        "subtract",
        b.ew("add", b.ew("log", shifted_argument), series),
        b.ew("add", half_inverse, recurrence_terms),
    )
    phase = _reduced_angle(b, x)
    is_whole = b.ew("compare", phase, 0.0, dtype="bool", direction="EQ")
    cotangent = b.ew(
        "divide", math.pi, b.ew("tan", b.ew("select", is_whole, 1.0, phase, dtype="float32"))
    )
    reflection = b.ew("subtract", derivative, cotangent)
    pole = b.ew("select", _is_below(b, x, 0.0), math.nan, b.ew("divide", -1.0, x), dtype="float32")
    reflection = b.ew("select", is_whole, pole, reflection, dtype="float32")
    return b.as_result(b.ew("select", is_low, reflection, derivative, dtype="float32"))


def entr(b: Build, x: Value) -> Value:
    """``-x * log(x)``: 0 at zero, minus infinity below."""
    x = b.convert(x, "float32")
    is_zero = b.ew("compare", x, 0.0, dtype="bool", direction="EQ")
    nonzero_x = b.ew("select", is_zero, 1.0, x, dtype="float32")
    entropy = b.ew("negate", b.ew("multiply", nonzero_x, b.ew("log", b.ew("abs", nonzero_x))))
    return b.as_result(b.ew("select", _is_below(b, x, 0.0), -math.inf, entropy, dtype="float32"))


def xlog1py(b: Build, x: Operand, y: Operand) -> Value:
    """``x * log(1 + y)``, 0 where x is 0."""
    one_plus_y = b.ew("add", y, 1.0, dtype="float32") if isinstance(y, Value) else 1.0 + y
    return xlogy(b, x, one_plus_y)


def angle(b: Build, x: Value) -> Value:
    """The angle of a real number: pi below zero, else 0; NaN of NaN."""
    phase = b.ew("select", _is_below(b, x, 0.0), math.pi, 0.0, dtype="float32")
    is_nan = b.ew("compare", x, x, dtype="bool", direction="NE")
    return b.as_result(b.ew("select", is_nan, x, phase, dtype="float32"))


def logit_backward(b: Build, grad: Value, x: Value, eps: float | None = None) -> Value:
    """``grad / (x * (1 - x))``; with eps 0 where logit clamps x, without it NaN outside [0, 1]."""
    denominator = b.ew("multiply", x, b.ew("subtract", 1.0, x), dtype="float32")
    result = b.ew("divide", grad, denominator, dtype="float32")
    low, outside_value = (0.0, math.nan) if eps is None else (float(eps), 0.0)
    for bound, direction in ((low, "LT"), (1.0 - low, "GT")):
        is_out = b.ew("compare", x, bound, dtype="bool", direction=direction)
        result = b.ew("select", is_out, outside_value, result, dtype="float32")
    return b.as_result(result)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "erfinv": erfinv,
    "lgamma": lgamma,
    "digamma": digamma,
    "special_entr": entr,
    "special_xlog1py": xlog1py,
    "angle": angle,
    "logit_backward": logit_backward,
}
