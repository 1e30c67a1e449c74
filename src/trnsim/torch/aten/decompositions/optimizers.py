"""Optimizer steps: operators on lists of tensors, and whole fused steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

Tensors = Sequence[Value]


def _for_each(decompose: Decomposition) -> Decomposition:
    """An operator on each tensor of its lists; other arguments are shared."""

    def build(b: Build, *operands: Any, **kwargs: Any) -> tuple[Value, ...]:
        result_types, outputs = b.result_types, list[Value]()
        lists = [operand for operand in operands if _is_list(operand)]
        for index in range(len(lists[0])):
            args = [_element_at(operand, index) for operand in operands]
            b.result_types = result_types[index : index + 1] or [args[0].type]
            keywords = {name: _element_at(operand, index) for name, operand in kwargs.items()}
            outputs.append(decompose(b, *args, **keywords))
        return tuple(outputs)

    return build


def _is_list(operand: Any) -> bool:
    return isinstance(operand, list | tuple)


def _element_at(operand: Any, index: int) -> Any:
    return operand[index] if _is_list(operand) else operand


def _fused_step(step: Callable[..., Sequence[Value]]) -> Decomposition:
    """A step of an optimizer on lists: one kernel for each parameter.

    `step` takes a parameter, its gradient, and its state from each list (None for an empty list).
    """

    def build(
        b: Build,
        params: Tensors,
        grads: Tensors,
        *states: Tensors,
        maximize: bool,
        grad_scale: Value | None = None,
        found_inf: Value | None = None,
        **options: Any,
    ) -> tuple[Value, ...]:
        if found_inf is not None:  # no kernel here has a branch
            raise Unlowered("a step that found_inf may skip")
        outputs = list[Value]()
        for index, (param, scaled_grad) in enumerate(zip(params, grads, strict=True)):
            unscaled_grad = (
                scaled_grad if grad_scale is None else _unscale(b, scaled_grad, grad_scale)
            )
            grad = b.ew("negate", unscaled_grad) if maximize else unscaled_grad
            param_states = [state[index] if state else None for state in states]
            outputs += step(b, param, grad, *param_states, **options)
            # PyTorch's fused steps also write the unscaled gradient back.
            outputs += [] if grad_scale is None else [_unscale(b, scaled_grad, grad_scale)]
        return tuple(outputs)

    return build


def _unscale(b: Build, grad: Value, scale: Value) -> Value:
    """The gradient divided by the loss scale of mixed precision."""
    return b.ew("divide", grad, scale, dtype=grad.dtype)


Rate = float | Value
"""A learning rate: a number of the host, or a tensor of one element."""
_BIAS_CORRECTION: Final = 1.001
"""A stand-in for the bias corrections, whose values differ from step to step."""


def adam(
    b: Build,
    param: Value,
    grad: Value,
    mean: Value,
    square: Value,
    largest: Value | None,
    count: Value,
    *,
    is_decoupled: bool,
    lr: Rate,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
) -> Sequence[Value]:
    """One step of Adam, or of AdamW where the decay is decoupled.

    The host computes the bias corrections. A constant stands in for them in the graph, because its
    time does not depend on their values.
    """
    del count
    if weight_decay and is_decoupled:
        param = b.ew("multiply", param, _decay_factor(b, lr, weight_decay))
    elif weight_decay:
        grad = _add_decay(b, grad, param, weight_decay)
    new_mean = elementwise_lerp(b, mean, grad, 1 - beta1)
    new_square = elementwise_lerp(b, square, b.ew("square", grad), 1 - beta2)
    second_moment = b.ew("maximum", largest, new_square) if amsgrad and largest else new_square
    denominator = b.ew("multiply", b.ew("sqrt", second_moment), _BIAS_CORRECTION)
    step = b.ew("divide", new_mean, b.ew("add", denominator, float(eps)))
    outputs = [_update(b, param, step, lr), new_mean, new_square]
    return [*outputs, second_moment] if amsgrad else outputs


def _add_decay(b: Build, grad: Value, param: Value, weight_decay: float) -> Value:
    """``grad + weight_decay * param``."""
    return b.ew("add", grad, b.ew("multiply", param, float(weight_decay)))


def _decay_factor(b: Build, lr: Rate, weight_decay: float) -> Rate:
    """``1 - lr * weight_decay``."""
    if isinstance(lr, Value):
        return b.ew("subtract", 1.0, b.ew("multiply", lr, float(weight_decay)))
    return 1 - lr * weight_decay


def _update(b: Build, param: Value, step: Value, lr: Rate) -> Value:
    """``param - lr * step``."""
    rate = lr if isinstance(lr, Value) else float(lr)
    return b.ew("subtract", param, b.ew("multiply", step, rate), dtype=param.dtype)


def elementwise_lerp(b: Build, start: Value, end: Value, weight: float) -> Value:
    """``start + weight * (end - start)`` in the dtype of `start`."""
    step = b.ew("multiply", b.ew("subtract", end, start), float(weight))
    return b.ew("add", start, step, dtype=start.dtype)


def sgd(
    b: Build,
    param: Value,
    grad: Value,
    momentum_buffer: Value | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: Rate,
    dampening: float,
    nesterov: bool,
    is_first_step: bool,
) -> Sequence[Value]:
    """One step of stochastic gradient descent; the momentum of the first step is the gradient."""
    step = _add_decay(b, grad, param, weight_decay) if weight_decay else grad
    if momentum_buffer is None or not momentum:
        return [_update(b, param, step, lr)]
    new_momentum = b.ew("convert", step, dtype=momentum_buffer.dtype)  # a copy, even of a gradient
    if not is_first_step:
        gradient_part = b.ew("multiply", step, 1 - float(dampening)) if dampening else step
        decayed_momentum = b.ew("multiply", momentum_buffer, float(momentum))
        new_momentum = b.ew("add", decayed_momentum, gradient_part, dtype=decayed_momentum.dtype)
    return [
        new_momentum,
        _update(
            b, param, _add_decay(b, step, new_momentum, momentum) if nesterov else new_momentum, lr
        ),
    ]


def adagrad(
    b: Build,
    param: Value,
    grad: Value,
    total: Value,
    count: Value,
    *,
    lr: Rate,
    lr_decay: float,
    weight_decay: float,
    eps: float,
) -> Sequence[Value]:
    """One step of Adagrad.

    The host computes the decay of the learning rate. The graph leaves it out, because its time does
    not depend on the rate's value.
    """
    del count, lr_decay
    if weight_decay:
        grad = _add_decay(b, grad, param, weight_decay)
    new_total = b.ew("add", total, b.ew("square", grad), dtype=total.dtype)
    step = b.ew("divide", grad, b.ew("add", b.ew("sqrt", new_total), float(eps)))
    return [_update(b, param, step, lr), new_total]


_FOREACH: Final = """abs add copy sub mul div neg exp log sqrt rsqrt reciprocal sigmoid tanh sign
maximum minimum clamp_min clamp_max pow lerp addcmul addcdiv floor ceil expm1 log1p erf sin cos tan
norm zero"""

_SINGLE_OPERATORS: Final = {
    name: build
    for family in (elementwise, comparisons, division, reductions, movement)
    for name, build in family.DECOMPOSITIONS.items()
}

DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    **{f"_foreach_{name}": _for_each(_SINGLE_OPERATORS[name]) for name in _FOREACH.split()},
    "_fused_adamw": _fused_step(partial(adam, is_decoupled=True)),
    "_fused_adam": _fused_step(partial(adam, is_decoupled=False)),
    "_fused_sgd": _fused_step(sgd),
    "_fused_adagrad": _fused_step(adagrad),
}
