"""Activation functions and their gradients."""

from __future__ import annotations

import math
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build, converted_number
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.comparisons import clamp


def hardtanh(b: Build, x: Value, smallest: float = -1.0, largest: float = 1.0) -> Value:
    """``min(max(x, smallest), largest)``."""
    return clamp(b, x, smallest, largest)


def gelu(b: Build, x: Value, *, approximate: str = "none") -> Value:
    """The Scalar Engine's gelu, or its tanh approximation."""
    return b.as_result(b.ew("gelu_tanh" if approximate == "tanh" else "gelu", x))


def gelu_backward(b: Build, grad: Value, x: Value, *, approximate: str = "none") -> Value:
    """The gradient times the derivative, which the Scalar Engine has for the exact gelu."""
    if approximate == "none":
        return b.as_result(b.ew("multiply", grad, b.ew("gelu_dx", x)))
    cubic = b.ew("multiply", b.ew("square", x), _GELU_CUBE)
    tanh_argument = b.ew("multiply", b.ew("multiply", x, b.ew("add", cubic, 1.0)), _GELU_SCALE)
    t = b.ew("tanh", tanh_argument)
    slope = b.ew("multiply", b.ew("add", b.ew("multiply", cubic, 3.0), 1.0), _GELU_SCALE)
    one_minus = b.ew("subtract", 1.0, b.ew("square", t))
    slope_term = b.ew("multiply", b.ew("multiply", b.ew("multiply", x, one_minus), slope), 0.5)
    tanh_term = b.ew("multiply", b.ew("add", t, 1.0), 0.5)
    return b.as_result(b.ew("multiply", grad, b.ew("add", tanh_term, slope_term)))


_GELU_CUBE: Final = 0.044715  # torch.nn.functional.gelu, approximate="tanh"
_GELU_SCALE: Final = math.sqrt(2 / math.pi)


def silu_backward(b: Build, grad: Value, x: Value) -> Value:
    """The gradient times the derivative, which the Scalar Engine has."""
    return b.as_result(b.ew("multiply", grad, b.ew("silu_dx", x)))


def tanh_backward(b: Build, grad: Value, y: Value) -> Value:
    """``grad * (1 - y * y)``."""
    return b.as_result(through_tanh(b, grad, y))


def through_tanh(b: Build, grad: Value, y: Value) -> Value:
    """The gradient through a tanh with result y."""
    return b.ew("multiply", grad, b.ew("subtract", 1.0, b.ew("square", y)))


def sigmoid_backward(b: Build, grad: Value, y: Value) -> Value:
    """``grad * y * (1 - y)``."""
    slope = b.ew("multiply", y, b.ew("subtract", 1.0, y))
    return b.as_result(b.ew("multiply", grad, slope))


def _where(
    b: Build,
    x: Value,
    direction: str,
    bound: float,
    true_value: Any,
    false_value: Any,
    dtype: str = "float32",
) -> Value:
    """`true_value` where ``x <direction> bound``, else `false_value`."""
    mask = b.ew("compare", x, float(bound), dtype="bool", direction=direction)
    return b.ew("select", mask, true_value, false_value, dtype=dtype)


def threshold_backward(b: Build, grad: Value, x: Value, threshold: float) -> Value:
    """0 where x is at most the threshold, else the gradient, also where x is NaN."""
    return b.as_result(_where(b, x, "LE", threshold, 0.0, grad, grad.dtype))


def leaky_relu(b: Build, x: Value, slope: float = 0.01) -> Value:
    """The input where positive, else ``slope * x``."""
    return b.as_result(_where(b, x, "GT", 0.0, x, b.ew("multiply", x, float(slope)), x.dtype))


def softplus(b: Build, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """``log(1 + exp(beta * x)) / beta``; x itself where ``beta * x`` exceeds the threshold."""
    scaled_x = b.ew("multiply", x, float(beta))
    softplus_value = b.ew("divide", b.ew("softplus", scaled_x), float(beta))
    return b.as_result(_where(b, scaled_x, "GT", threshold, x, softplus_value, x.dtype))


def elu(b: Build, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """``scale * x`` where positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    power = b.ew("exponential_minus_one", b.ew("multiply", x, float(input_scale)))
    negative_part = b.ew("multiply", power, float(alpha))
    return b.as_result(
        b.ew("multiply", _where(b, x, "GT", 0.0, x, negative_part, x.dtype), float(scale))
    )


def leaky_relu_backward(
    b: Build, grad: Value, x: Value, slope: float, is_result: bool = False
) -> Value:
    """The gradient; times the slope where x (or the result) is not positive."""
    del is_result  # the result has the sign of x
    return b.as_result(_where(b, x, "GT", 0.0, grad, b.ew("multiply", grad, float(slope))))


def elu_backward(
    b: Build, grad: Value, alpha: float, scale: float, input_scale: float, is_result: bool, x: Value
) -> Value:
    """The gradient times the slope of the exponential where x <= 0, else ``grad * scale``."""
    if is_result:
        slope = b.ew("multiply", b.ew("add", x, float(alpha * scale)), float(input_scale))
    else:
        power = b.ew("exponential", b.ew("multiply", x, float(input_scale)))
        slope = b.ew("multiply", power, float(alpha * scale * input_scale))
    return b.as_result(b.ew("multiply", grad, _where(b, x, "LE", 0.0, slope, float(scale))))


def hardtanh_backward(b: Build, grad: Value, x: Value, smallest: float, largest: float) -> Value:
    """The gradient strictly between the bounds and where x is NaN, else 0."""
    lower_bounded = _where(b, x, "LE", smallest, 0.0, grad)
    return b.as_result(_where(b, x, "GE", largest, 0.0, lower_bounded))


def hardsigmoid(b: Build, x: Value) -> Value:
    """``min(max(x + 3, 0), 6) / 6``."""
    return b.as_result(b.ew("multiply", _relu6_shifted(b, x), 1 / 6))


def _relu6_shifted(b: Build, x: Value) -> Value:
    """``min(max(x + 3, 0), 6)``."""
    return b.ew("minimum", b.ew("maximum", b.ew("add", x, 3.0), 0.0), 6.0)


def hardsigmoid_backward(b: Build, grad: Value, x: Value) -> Value:
    """``grad / 6`` strictly between -3 and 3; 0 elsewhere and where x is NaN."""
    lower_bounded = _where(b, x, "GT", -3.0, b.ew("multiply", grad, 1 / 6), 0.0)
    return b.as_result(_where(b, x, "LT", 3.0, lower_bounded, 0.0))


def hardswish(b: Build, x: Value) -> Value:
    """``x * min(max(x + 3, 0), 6) / 6``."""
    return b.as_result(b.ew("multiply", b.ew("multiply", x, _relu6_shifted(b, x)), 1 / 6))


def hardswish_backward(b: Build, grad: Value, x: Value) -> Value:
    """0 where x <= -3, ``grad * (x / 3 + 1 / 2)`` where x < 3, else (also for NaN) the gradient."""
    slope = b.ew("multiply", grad, b.ew("add", b.ew("multiply", x, 1 / 3), 0.5))
    return b.as_result(_where(b, x, "LE", -3.0, 0.0, _where(b, x, "LT", 3.0, slope, grad)))


def threshold(b: Build, x: Value, bound: float, number: float) -> Value:
    """A number where ``x <= bound``, else x; NaN stays NaN."""
    converted_bound, replacement = (
        converted_number(bound, x.dtype),
        converted_number(number, x.dtype),
    )
    is_least = b.ew("compare", x, converted_bound, direction="LE")
    return b.as_result(b.ew("select", is_least, replacement, x, dtype=x.dtype))


def hardshrink(b: Build, x: Value, bound: float = 0.5) -> Value:
    """0 where the magnitude of x is at most a bound, else x; NaN stays NaN."""
    return b.as_result(_where(b, b.ew("abs", x), "LE", bound, 0.0, x))


def shrink_backward(b: Build, grad: Value, x: Value, bound: float) -> Value:
    """0 where the magnitude of x is at most a bound, else (also for NaN) the gradient."""
    return b.as_result(_where(b, b.ew("abs", x), "LE", bound, 0.0, grad))


def softshrink(b: Build, x: Value, bound: float = 0.5) -> Value:
    """``sign(x) * max(abs(x) - bound, 0)``."""
    positive_part = b.ew("maximum", b.ew("subtract", x, float(bound)), 0.0)
    negative_part = b.ew("minimum", b.ew("add", x, float(bound)), 0.0)
    return b.as_result(b.ew("add", positive_part, negative_part))


def softplus_backward(b: Build, grad: Value, x: Value, beta: float, bound: float) -> Value:
    """The gradient times the sigmoid of ``beta * x``; the gradient where ``beta * x`` is large."""
    scaled_x = b.ew("multiply", x, float(beta))
    sigmoid_term = b.ew("multiply", grad, b.ew("logistic", scaled_x))
    return b.as_result(_where(b, scaled_x, "GT", bound, grad, sigmoid_term))


def log_sigmoid(b: Build, x: Value) -> tuple[Value, ...]:
    """``min(x, 0) - log(1 + exp(-abs(x)))``; and the exponential, if PyTorch returns a buffer.

    Only the CPU's form of the operator fills the buffer, for the backward pass.
    """
    power = b.ew("exponential", b.ew("negate", b.ew("abs", x)))
    logarithm = b.ew("log_plus_one", power)
    value = b.as_result(b.ew("subtract", b.ew("minimum", x, 0.0), logarithm))
    has_buffer = len(b.result_types) > 1 and b.result_types[1].elements
    return (value, b.as_result(power, 1)) if has_buffer else (value,)


def log_sigmoid_backward(b: Build, grad: Value, x: Value, buffer: Value) -> Value:
    """The gradient times the sigmoid of -x."""
    del buffer
    return b.as_result(b.ew("multiply", grad, b.ew("logistic", b.ew("negate", x))))


def mish_backward(b: Build, grad: Value, x: Value) -> Value:
    """``t + x * sigmoid(x) * (1 - t * t)`` with t the tanh of the softplus, times the gradient."""
    t = b.ew("tanh", b.ew("softplus", x))
    sigmoid_term = b.ew("multiply", b.ew("logistic", x), b.ew("subtract", 1.0, b.ew("square", t)))
    return b.as_result(b.ew("multiply", grad, b.ew("add", t, b.ew("multiply", x, sigmoid_term))))


def _halves(b: Build, x: Value, dim: int) -> tuple[Value, Value]:
    half = x.shape[dim] // 2
    return b.sliced(x, dim, 0, half), b.sliced(x, dim, half, half)


def glu(b: Build, x: Value, dim: int = -1) -> Value:
    """The first half times the sigmoid of the second."""
    values, gates = _halves(b, x, dim)
    return b.as_result(b.ew("multiply", values, b.ew("logistic", gates)))


def glu_backward(b: Build, grad: Value, x: Value, dim: int) -> Value:
    """The gradients of both halves, joined."""
    values, gates = _halves(b, x, dim)
    sigmoid = b.ew("logistic", gates)
    grad_values = b.ew("multiply", grad, sigmoid)
    slope = b.ew("multiply", sigmoid, b.ew("subtract", 1.0, sigmoid))
    grad_gates = b.ew("multiply", grad, b.ew("multiply", values, slope))
    return b.graph.concatenate((grad_values, grad_gates), dim % len(x.shape))


def prelu(b: Build, x: Value, weight: Value) -> Value:
    """The input where positive, else a weight times it."""
    return b.as_result(_where(b, x, "GT", 0.0, x, b.ew("multiply", x, weight)))


def prelu_backward(b: Build, grad: Value, x: Value, weight: Value) -> tuple[Value, ...]:
    """The gradient of x, and the gradient of the weight for each element of x."""
    grad_input = _where(b, x, "GT", 0.0, grad, b.ew("multiply", grad, weight))
    grad_weight = _where(b, x, "GT", 0.0, 0.0, b.ew("multiply", grad, x))
    return b.as_result(grad_input), b.as_result(grad_weight, 1)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "hardtanh": hardtanh,
    "hardtanh_backward": hardtanh_backward,
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "silu_backward": silu_backward,
    "tanh_backward": tanh_backward,
    "sigmoid_backward": sigmoid_backward,
    "threshold": threshold,
    "threshold_backward": threshold_backward,
    "leaky_relu": leaky_relu,
    "leaky_relu_backward": leaky_relu_backward,
    "softplus": softplus,
    "softplus_backward": softplus_backward,
    "elu": elu,
    "elu_backward": elu_backward,
    "hardsigmoid": hardsigmoid,
    "hardsigmoid_backward": hardsigmoid_backward,
    "hardswish": hardswish,
    "hardswish_backward": hardswish_backward,
    "hardshrink": hardshrink,
    "hardshrink_backward": shrink_backward,
    "softshrink": softshrink,
    "softshrink_backward": shrink_backward,
    "log_sigmoid_forward": log_sigmoid,
    "log_sigmoid_backward": log_sigmoid_backward,
    "mish_backward": mish_backward,
    "glu": glu,
    "glu_backward": glu_backward,
    "_prelu_kernel": prelu,
    "_prelu_kernel_backward": prelu_backward,
}
