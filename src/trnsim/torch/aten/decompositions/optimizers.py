"""Optimizer steps: operators on lists of tensors, and whole fused steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.torch.aten.decomposition import Decomposition, Unlowered
from trnsim.torch.aten.decompositions import (
    comparisons,
    division,
    elementwise,
    movement,
    reductions,
)

Many = Sequence[Value]


def _for_each(decompose: Decomposition) -> Decomposition:
    """An operator applied to the tensors of a list one by one, numbers and lists beside them."""

    def build(b: Build, tensors: Many, *others: Any, **named: Any) -> tuple[Value, ...]:
        wanted, found = b.results, list[Value]()
        for place, tensor in enumerate(tensors):
            b.results = wanted[place : place + 1] or [tensor.type]
            mine = [_at(other, place) for other in others]
            found.append(
                decompose(b, tensor, *mine, **{k: _at(v, place) for k, v in named.items()})
            )
        return tuple(found)

    return build


def _at(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, list | tuple) else value


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
    lr: Rate,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Value | None = None,
    found_inf: Value | None = None,
) -> tuple[Value, ...]:
    """One step of Adam, or of AdamW where the decay is decoupled: one kernel for each parameter.

    The bias corrections are numbers of the host; their values change no time.
    """
    del steps
    _refuse_skipping(found_inf)
    found: list[Value] = []
    for place, (param, given, mean, square) in enumerate(
        zip(params, grads, means, squares, strict=True)
    ):
        grad = _gradient(b, given, grad_scale, maximize=maximize)
        if weight_decay and is_decoupled:
            param = b.ew("multiply", param, _kept(b, lr, weight_decay))  # noqa: PLW2901
        elif weight_decay:
            grad = _decayed(b, grad, param, weight_decay)
        new_mean = elementwise_lerp(b, mean, grad, 1 - beta1)
        new_square = elementwise_lerp(b, square, b.ew("square", grad), 1 - beta2)
        spread = b.ew("maximum", largest[place], new_square) if amsgrad else new_square
        corrected = b.ew("multiply", b.ew("sqrt", spread), _CORRECTION)
        step = b.ew("divide", new_mean, b.ew("add", corrected, float(eps)))
        found += [_moved(b, param, step, lr), new_mean, new_square, *([spread] if amsgrad else [])]
        found += [] if grad_scale is None else [_unscaled(b, given, grad_scale)]
    return tuple(found)


Rate = float | Value
"""A learning rate: a number of the host, or a tensor of one element."""
_CORRECTION: Final = 1.001
"""A bias correction, which differs from step to step."""


def _refuse_skipping(found_inf: Value | None) -> None:
    """Refuse a step that a tensor decides on.

    Raises:
        Unlowered: where there is one: no kernel here has a branch.
    """
    if found_inf is not None:
        raise Unlowered("a step that found_inf may skip")


def _gradient(b: Build, grad: Value, scale: Value | None, *, maximize: bool) -> Value:
    """The gradient without the scale of mixed precision, its sign changed to climb."""
    if scale is not None:
        grad = _unscaled(b, grad, scale)
    return b.ew("negate", grad) if maximize else grad


def _unscaled(b: Build, grad: Value, scale: Value) -> Value:
    return b.ew("divide", grad, scale, dtype=grad.dtype)


def _decayed(b: Build, grad: Value, param: Value, weight_decay: float) -> Value:
    """``grad + weight_decay * param``."""
    return b.ew("add", grad, b.ew("multiply", param, float(weight_decay)))


def _kept(b: Build, lr: Rate, weight_decay: float) -> Rate:
    """``1 - lr * weight_decay``."""
    if isinstance(lr, Value):
        return b.ew("subtract", 1.0, b.ew("multiply", lr, float(weight_decay)))
    return 1 - lr * weight_decay


def _moved(b: Build, param: Value, step: Value, lr: Rate) -> Value:
    """``param - lr * step``."""
    rate = lr if isinstance(lr, Value) else float(lr)
    return b.ew("subtract", param, b.ew("multiply", step, rate), dtype=param.dtype)


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
    lr: Rate,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Value | None = None,
    found_inf: Value | None = None,
) -> tuple[Value, ...]:
    """One step of stochastic gradient descent; the first one's momentum is the gradient."""
    _refuse_skipping(found_inf)
    found: list[Value] = []
    for place, (param, given) in enumerate(zip(params, grads, strict=True)):
        step = _gradient(b, given, grad_scale, maximize=maximize)
        if weight_decay:
            step = _decayed(b, step, param, weight_decay)
        if momenta and momentum:
            held = b.ew("convert", step, dtype=momenta[place].dtype)  # a copy, even of a gradient
            if not is_first_step:
                fresh = b.ew("multiply", step, 1 - float(dampening)) if dampening else step
                old = b.ew("multiply", momenta[place], float(momentum))
                held = b.ew("add", old, fresh, dtype=old.dtype)
            found.append(held)
            step = _decayed(b, step, held, momentum) if nesterov else held
        found.append(_moved(b, param, step, lr))
        found += [] if grad_scale is None else [_unscaled(b, given, grad_scale)]
    return tuple(found)


def adagrad(
    b: Build,
    params: Many,
    grads: Many,
    sums: Many,
    steps: Many,
    *,
    lr: Rate,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Value | None = None,
    found_inf: Value | None = None,
) -> tuple[Value, ...]:
    """One step of Adagrad; a rate that decays is divided by a number of the host."""
    del steps, lr_decay
    _refuse_skipping(found_inf)
    found: list[Value] = []
    for param, given, total in zip(params, grads, sums, strict=True):
        grad = _gradient(b, given, grad_scale, maximize=maximize)
        if weight_decay:
            grad = _decayed(b, grad, param, weight_decay)
        new = b.ew("add", total, b.ew("square", grad), dtype=total.dtype)
        step = b.ew("divide", grad, b.ew("add", b.ew("sqrt", new), float(eps)))
        found += [_moved(b, param, step, lr), new]
        found += [] if grad_scale is None else [_unscaled(b, given, grad_scale)]
    return tuple(found)


_EACH: Final = """abs add sub mul div neg exp log sqrt rsqrt reciprocal sigmoid tanh sign maximum
minimum clamp_min clamp_max pow lerp addcmul addcdiv floor ceil expm1 log1p erf sin cos tan norm
zero"""

_OF_ONE: Final = {
    name: build
    for family in (elementwise, comparisons, division, reductions, movement)
    for name, build in family.DECOMPOSITIONS.items()
}

DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    **{f"_foreach_{name}": _for_each(_OF_ONE[name]) for name in _EACH.split()},
    "_fused_adamw": partial(adam, is_decoupled=True),
    "_fused_adam": partial(adam, is_decoupled=False),
    "_fused_sgd": sgd,
    "_fused_adagrad": adagrad,
}
