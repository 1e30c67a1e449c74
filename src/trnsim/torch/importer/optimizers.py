"""Optimizer steps: operators on lists of tensors, and whole fused steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from trnsim.graph import Value
from trnsim.torch.importer import elementwise, reductions
from trnsim.torch.importer.build import Build, Importer

Many = Sequence[Value]


def _for_each(importer: Importer) -> Importer:
    """An operator applied to the tensors of a list one by one, numbers and lists beside them."""

    def build(b: Build, tensors: Many, *others: Any, **named: Any) -> tuple[Value, ...]:
        wanted, found = b.results, list[Value]()
        for place, tensor in enumerate(tensors):
            b.results = wanted[place : place + 1] or [tensor.type]
            mine = [_at(other, place) for other in others]
            found.append(importer(b, tensor, *mine, **{k: _at(v, place) for k, v in named.items()}))
        return tuple(found)

    return build


def _at(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, list | tuple) else value


def zero(b: Build, x: Value) -> Value:
    """Zeros in the place of x."""
    return b.filled(0, x.type)


def adam(
    b: Build,
    params: Many,
    grads: Many,
    means: Many,
    squares: Many,
    largest: Many,
    steps: Many,
    *,
    is_decoupled: bool,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    **_: Any,
) -> tuple[Value, ...]:
    """One step of Adam, or of AdamW where the decay is decoupled: one kernel for each parameter.

    The bias corrections are numbers of the host; their values change no time.
    """
    del largest, steps
    rate = _RATE if isinstance(lr, Value) else float(lr)
    found: list[Value] = []
    for param, grad, mean, square in zip(params, grads, means, squares, strict=True):
        if weight_decay and is_decoupled:
            param = b.ew("multiply", param, 1 - rate * weight_decay)  # noqa: PLW2901
        elif weight_decay:
            grad = b.ew("add", grad, b.ew("multiply", param, float(weight_decay)))  # noqa: PLW2901
        new_mean = elementwise_lerp(b, mean, grad, 1 - beta1)
        new_square = elementwise_lerp(b, square, b.ew("square", grad), 1 - beta2)
        root = b.ew("add", b.ew("sqrt", new_square), float(eps))
        step = b.ew("multiply", b.ew("divide", new_mean, root), rate)
        found += [b.ew("subtract", param, step, dtype=param.dtype), new_mean, new_square]
    return tuple(found)


_RATE: Final = 1e-3


def elementwise_lerp(b: Build, start: Value, end: Value, weight: float) -> Value:
    """``start + weight * (end - start)`` in the dtype of `start`."""
    step = b.ew("multiply", b.ew("subtract", end, start), float(weight))
    return b.ew("add", start, step, dtype=start.dtype)


def sgd(
    b: Build,
    params: Many,
    grads: Many,
    momenta: Many,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    **_: Any,
) -> tuple[Value, ...]:
    """One step of stochastic gradient descent, with or without momentum."""
    rate = _RATE if isinstance(lr, Value) else float(lr)
    found: list[Value] = []
    for place, (param, grad) in enumerate(zip(params, grads, strict=True)):
        step = grad
        if weight_decay:
            step = b.ew("add", step, b.ew("multiply", param, float(weight_decay)))
        if momenta and momentum:
            step = b.ew("add", b.ew("multiply", momenta[place], float(momentum)), step)
            found.append(step)
        found.append(b.ew("subtract", param, b.ew("multiply", step, rate), dtype=param.dtype))
    return tuple(found)


_EACH: Final = """abs add sub mul div neg exp log sqrt rsqrt reciprocal sigmoid tanh sign maximum
minimum clamp_min clamp_max pow lerp addcmul addcdiv floor ceil expm1 log1p erf sin cos tan"""

IMPORTERS: Final[dict[str, Importer]] = {
    **{f"_foreach_{name}": _for_each(elementwise.IMPORTERS[name]) for name in _EACH.split()},
    "_foreach_norm": _for_each(reductions.norm),
    "_foreach_zero": _for_each(zero),
    "_fused_adamw": partial(adam, is_decoupled=True),
    "_fused_adam": partial(adam, is_decoupled=False),
    "_fused_sgd": sgd,
}
