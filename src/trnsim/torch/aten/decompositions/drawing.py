"""Random numbers of the chip's own generator: uniform, normal, dropout, choices.

The values of `fast` and `exact` numerics are drawn on the host; these kernels give the time.
"""

from __future__ import annotations

import math
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build, Operand
from trnsim.torch.aten.decomposition import Decomposition


def native_dropout(b: Build, x: Value, p: float, train: bool | None = True) -> tuple[Value, ...]:
    """``x / (1 - p)``, or 0 with probability p, and the mask of kept elements."""
    if train is False:
        return b.as_result(x), b.filled(1, b.result_types[1])
    mask = b.ew("compare", b.graph.rng(x.shape), float(p), dtype="bool", direction="GE")
    scaled = b.ew("multiply", x, 1 / (1 - p) if p < 1 else 0.0)
    return b.as_result(b.ew("multiply", scaled, mask)), mask


def native_dropout_backward(b: Build, grad: Value, mask: Value, scale: float) -> Value:
    """The gradient of the kept elements, scaled."""
    return b.as_result(b.ew("multiply", b.ew("multiply", grad, mask), float(scale)))


def uniform(b: Build, x: Value, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
    """Uniform random numbers in [low, high)."""
    draws = b.ew("multiply", b.graph.rng(x.shape or (1,)), float(high - low))
    return b.as_result(b.graph.reshape(b.ew("add", draws, float(low)), x.shape))


def bernoulli(b: Build, x: Value, p: Operand | None = None, **_: Any) -> Value:
    """1 with probability p, or with the probability that x holds, else 0."""
    probability: Operand = x if p is None else p
    draws = b.graph.rng(x.shape or (1,))
    row_probability = (
        b.graph.reshape(b.broadcast(probability, x.shape), draws.shape)
        if isinstance(probability, Value)
        else float(probability)
    )
    outcome = b.ew("compare", draws, row_probability, dtype="bool", direction="LT")
    return b.as_result(b.graph.reshape(outcome, x.shape))


def normal(b: Build, mean: Any = 0.0, std: Any = 1.0, *arguments: Any, **_: Any) -> Value:
    """Normal random numbers with a mean and a standard deviation, by Box and Muller's transform."""
    if arguments:
        mean, std = std, arguments[0]  # the first argument of normal_ is the tensor that it fills
    result_shape = b.result_types[0].shape
    shape = result_shape or (1,)
    radius = b.ew("negate", b.ew("log", b.ew("subtract", 1.0, b.graph.rng(shape))))
    radius = b.ew("sqrt", b.ew("multiply", radius, 2.0))
    angle = b.ew("multiply", b.ew("subtract", b.graph.rng(shape), 0.5), 2 * math.pi)
    unit_normal = b.graph.reshape(b.ew("multiply", radius, b.ew("sine", angle)), result_shape)
    deviation = b.ew("multiply", unit_normal, std if isinstance(std, Value) else float(std))
    return b.as_result(b.ew("add", deviation, mean if isinstance(mean, Value) else float(mean)))


def rand(b: Build, *_: Any, **__: Any) -> Value:
    """Uniform random numbers in [0, 1) in a new tensor."""
    return b.as_result(
        b.graph.reshape(b.graph.rng(b.result_types[0].shape or (1,)), b.result_types[0].shape)
    )


def randn(b: Build, *_: Any, **__: Any) -> Value:
    """Normal random numbers in a new tensor."""
    return normal(b)


def randint(b: Build, *bounds: Any, **_: Any) -> Value:
    """Random integers in [low, high), or in [0, high)."""
    numbers = [n for n in bounds if isinstance(n, int)]
    low, high = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    return _random_integers(b, low, high)


def random(b: Build, x: Value, *bounds: int | None, **_: Any) -> Value:
    """Random integers in the shape of x: in [low, high), [0, high), or else [0, 2**24)."""
    del x
    ends = [n for n in bounds if n is not None]
    low, high = (ends[0], ends[1]) if len(ends) > 1 else (0, *ends, 1 << 24)[:2]
    return _random_integers(b, low, high)


def _random_integers(b: Build, low: int, high: int) -> Value:
    shape = b.result_types[0].shape
    draws = b.ew("floor", b.ew("multiply", b.graph.rng(shape or (1,)), float(high - low)))
    return b.as_result(b.graph.reshape(b.ew("add", draws, float(low)), shape))


def exponential(b: Build, x: Value, rate: float = 1.0, **_: Any) -> Value:
    """``-log(1 - u) / rate`` of uniform random numbers u."""
    draws = b.ew("log", b.ew("subtract", 1.0, b.graph.rng(x.shape or (1,))))
    return b.as_result(b.graph.reshape(b.ew("multiply", draws, -1.0 / rate), x.shape))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "native_dropout": native_dropout,
    "native_dropout_backward": native_dropout_backward,
    "uniform": uniform,
    "bernoulli": bernoulli,
    "normal": normal,
    "normal_functional": normal,
    "rand": rand,
    "randn": randn,
    "randint": randint,
    "rand_like": rand,
    "randn_like": randn,
    "randint_like": randint,
    "random": random,
    "exponential": exponential,
}
