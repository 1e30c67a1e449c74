"""Losses, and their gradients."""

from __future__ import annotations

import math
from typing import Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.graph.ops.leaves import Iota
from trnsim.graph.types import BOOL
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

_NONE, _MEAN = 0, 1  # torch.nn._reduction.get_enum


def _class_weights(b: Build, x: Value, target: Value, weight: Value | None, ignored: int) -> Value:
    """[*N, C]: at each row's class its weight (1 by default; 0 if ignored), else 0."""
    rank = len(x.shape)
    classes = b.graph.broadcast_in_dim(target, x.shape, range(rank - 1))
    columns = b.graph.iota(x.shape, rank - 1)
    class_weights = b.ew("compare", columns, classes, dtype="float32", direction="EQ")
    if 0 <= ignored < x.shape[-1]:
        mask = b.ew("compare", classes, float(ignored), dtype="float32", direction="NE")
        class_weights = b.ew("multiply", class_weights, mask)
    if weight is None:
        return class_weights
    return b.ew("multiply", class_weights, b.broadcast(weight, x.shape))


def _row_weights(b: Build, classes: Value, weight: Value | None, ignored: int) -> Value:
    """[*N]: the weight of each row's class (1 by default), or 0 if the class is ignored."""
    is_counted = b.ew("compare", classes, float(ignored), dtype=BOOL, direction="NE")
    if weight is None:
        return b.convert(is_counted, "float32")
    weights = b.graph.gather(weight, _counted_classes(b, classes, is_counted))
    return b.ew("select", is_counted, b.convert(weights, "float32"), 0.0, dtype="float32")


def _counted_classes(b: Build, classes: Value, is_counted: Value) -> Value:
    """The classes, and 0 for each ignored row, whose class need not exist."""
    return b.ew("select", is_counted, classes, 0.0, dtype=classes.dtype)


def _classes_last(b: Build, x: Value, target: Value) -> tuple[Value, Value]:
    """[*N, C] and [*N] of [C], [N, C] or [N, C, *lengths]."""
    if len(x.shape) == 1:
        return b.graph.reshape(x, (1, *x.shape)), b.graph.reshape(target, (1,))
    return move_dim(b, x, 1, -1), target


_FEW: Final = 128
"""Maximum number of classes for which each row is compared with all classes.

With more, the element of its class is read from each row.
"""


def _losses(
    b: Build, rows: Value, classes: Value, weight: Value | None, ignored: int
) -> tuple[Value, Value]:
    """Minus the weighted logarithm at each row's class, and its weight: both [*N]."""
    if rows.shape[-1] <= _FEW:
        class_weights = _class_weights(b, rows, classes, weight, ignored)
        last_dims = (len(rows.shape) - 1,)
        is_class = b.ew("compare", class_weights, 0.0, dtype=BOOL, direction="NE")
        class_rows = b.ew(
            "select", is_class, rows, 0.0, dtype="float32"
        )  # 0 times an infinity is NaN
        terms = b.ew("multiply", class_rows, class_weights)
        losses = b.ew("negate", b.graph.reduce("add", terms, last_dims))
        return losses, b.graph.reduce("add", class_weights, last_dims)
    is_counted = b.ew("compare", classes, float(ignored), dtype=BOOL, direction="NE")
    class_indices = b.graph.reshape(_counted_classes(b, classes, is_counted), (*classes.shape, 1))
    class_rows = b.graph.reshape(b.graph.gather_in_rows(rows, class_indices), classes.shape)
    weights = _row_weights(b, classes, weight, ignored)
    terms = b.ew("multiply", b.ew("negate", b.convert(class_rows, "float32")), weights)
    return b.ew("select", is_counted, terms, 0.0, dtype="float32"), weights


def nll_loss(
    b: Build, x: Value, target: Value, weight: Value | None, reduction: int, ignored: int
) -> tuple[Value, ...]:
    """Minus the log probability of each row's class, and the weight of all rows not ignored."""
    losses, weights = _losses(b, *_classes_last(b, x, target), weight, ignored)
    if reduction == _NONE:
        return b.as_reshaped_result(losses), b.filled(0, b.result_types[1])
    dims = range(len(losses.shape))
    total_weight = b.reduce("add", weights, dims)
    total = b.reduce("add", losses, dims)
    loss = b.ew("divide", total, total_weight) if reduction == _MEAN else total
    return b.as_result(loss), b.as_result(total_weight, 1)


def nll_loss_backward(
    b: Build,
    grad: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    total: Value,
) -> Value:
    """Minus the gradient at each row's class."""
    rows, classes = _classes_last(b, x, target)
    if reduction == _MEAN:  # if every row is ignored, no element of x has a gradient
        is_counted = b.ew("compare", total, 0.0, direction="NE")
        grad = b.ew("select", is_counted, b.ew("divide", grad, total), 0.0, dtype="float32")
    if reduction == _NONE:
        grad = b.graph.reshape(grad, rows.shape[:-1])
    row_dims = range(len(rows.shape) - 1)
    if rows.shape[-1] <= _FEW:
        row_grads = b.graph.broadcast_in_dim(grad, rows.shape, row_dims if grad.shape else ())
        class_weights = _class_weights(b, rows, classes, weight, ignored)
        slopes = b.ew("negate", b.ew("multiply", class_weights, row_grads))
    else:
        row_weights = _row_weights(b, classes, weight, ignored)
        row_slopes = b.ew("negate", b.ew("multiply", row_weights, grad))
        row_grads = b.graph.broadcast_in_dim(row_slopes, rows.shape, row_dims)
        columns = b.graph.apply(Iota(rows.shape, "float32", len(row_dims)))
        numbers = b.graph.broadcast_in_dim(b.convert(classes, "float32"), rows.shape, row_dims)
        is_class = b.ew("compare", columns, numbers, dtype="float32", direction="EQ")
        slopes = b.ew("multiply", is_class, row_grads, dtype="float32")
    return b.as_result(
        move_dim(b, slopes, -1, 1) if len(x.shape) > 1 else b.graph.reshape(slopes, x.shape)
    )


def _binary_terms(b: Build, x: Value, target: Value) -> Value:
    """``-(t log(x) + (1 - t) log(1 - x))``, no logarithm below -100."""
    logs = [_bounded_log(b, part) for part in (x, b.ew("subtract", 1.0, x))]
    positive_term = b.ew("multiply", target, logs[0])
    negative_term = b.ew("multiply", b.ew("subtract", 1.0, target), logs[1])
    return b.ew("negate", b.ew("add", positive_term, negative_term))


def _bounded_log(b: Build, x: Value) -> Value:
    """``max(log(x), -100)``; for x below the Scalar Engine's log that of `_SCALE` times x."""
    is_small = b.ew("compare", x, _LEAST_LOG_ARGUMENT, dtype=BOOL, direction="LT")
    scaled = b.ew("select", is_small, b.ew("multiply", x, _SCALE), x, dtype="float32")
    logarithm = b.ew("log", b.ew("maximum", scaled, _LEAST_LOG_ARGUMENT))
    small_logarithm = b.ew("subtract", logarithm, math.log(_SCALE))
    bounded = b.ew("select", is_small, small_logarithm, logarithm, dtype="float32")
    return b.ew("maximum", bounded, _LEAST_LOGARITHM)


_LEAST_LOGARITHM: Final = -100.0  # torch.nn.BCELoss
_LEAST_LOG_ARGUMENT: Final = 1e-19  # the Scalar Engine's log begins at 2**-64
_SCALE: Final = 2.0**82
"""A factor so large that the logarithm of 0 falls below `_LEAST_LOGARITHM`."""


def binary_cross_entropy(
    b: Build, x: Value, target: Value, weight: Value | None = None, reduction: int = _MEAN
) -> Value:
    """Binary cross entropy of probabilities; the loss of each is multiplied by its weight."""
    terms = _binary_terms(b, b.convert(x, "float32"), target)
    return _reduce_loss(b, terms if weight is None else b.ew("multiply", terms, weight), reduction)


def binary_cross_entropy_backward(
    b: Build,
    grad: Value,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = _MEAN,
) -> Value:
    """``grad * (x - t) / (x * (1 - x))``."""
    variance = b.ew("multiply", x, b.ew("subtract", 1.0, x), dtype="float32")
    slope = b.ew("divide", b.ew("subtract", x, target), b.ew("maximum", variance, _LEAST_VARIANCE))
    slopes = b.ew("multiply", slope, grad)
    if weight is not None:
        slopes = b.ew("multiply", slopes, weight)
    scale = 1 / x.type.elements if reduction == _MEAN else 1.0
    return b.as_result(b.ew("multiply", slopes, scale))


_LEAST_VARIANCE: Final = 1e-12  # PyTorch's, against a division by zero


def _huber_terms(b: Build, x: Value, y: Value, bound: float, factor: float) -> Value:
    """``factor * d * d / 2`` up to a bound, ``bound * factor * (d - bound / 2)`` beyond."""
    distance = b.ew("abs", b.ew("subtract", x, y, dtype="float32"))
    square_term = b.ew("multiply", b.ew("square", distance), factor / 2)
    linear_term = b.ew("multiply", b.ew("subtract", distance, bound / 2), bound * factor)
    is_within_bound = b.ew("compare", distance, bound, dtype="bool", direction="LT")
    return b.ew("select", is_within_bound, square_term, linear_term, dtype="float32")


def _huber_gradient(
    b: Build, grad: Value, x: Value, y: Value, reduction: int, bound: float, factor: float
) -> Value:
    """The gradient of `_huber_terms`: the difference within the bound, times a factor."""
    difference = b.ew("subtract", x, y, dtype="float32")
    clamped = b.ew("minimum", b.ew("maximum", difference, -bound), bound)
    scale = factor / x.type.elements if reduction == _MEAN else factor
    return b.as_result(b.ew("multiply", b.ew("multiply", clamped, scale), grad))


def smooth_l1_loss(
    b: Build, x: Value, y: Value, reduction: int = _MEAN, beta: float = 1.0
) -> Value:
    """``d**2 / (2 * beta)`` for distances d below beta, else ``d - beta / 2``."""
    if not beta:
        return _reduce_loss(b, b.ew("abs", b.ew("subtract", x, y)), reduction)
    return _reduce_loss(b, _huber_terms(b, x, y, float(beta), 1 / beta), reduction)


def smooth_l1_loss_backward(
    b: Build, grad: Value, x: Value, y: Value, reduction: int, beta: float
) -> Value:
    """The difference divided by beta, within -1 and 1."""
    if not beta:
        raise Unlowered("beta 0")
    return _huber_gradient(b, grad, x, y, reduction, float(beta), 1 / beta)


def huber_loss(b: Build, x: Value, y: Value, reduction: int = _MEAN, delta: float = 1.0) -> Value:
    """``d**2 / 2`` for distances d below delta, else ``delta * (d - delta / 2)``."""
    return _reduce_loss(b, _huber_terms(b, x, y, float(delta), 1.0), reduction)


def huber_loss_backward(
    b: Build, grad: Value, x: Value, y: Value, reduction: int, delta: float
) -> Value:
    """The difference, within -delta and delta."""
    return _huber_gradient(b, grad, x, y, reduction, float(delta), 1.0)


def mse_loss(b: Build, x: Value, y: Value, reduction: int = _MEAN) -> Value:
    """The squared difference, its mean or its sum."""
    return _reduce_loss(b, b.ew("square", b.ew("subtract", x, y)), reduction)


def mse_loss_backward(b: Build, grad: Value, x: Value, y: Value, reduction: int) -> Value:
    """``2 * (x - y) * grad``, divided by the number of elements for a mean."""
    scale = 2 / x.type.elements if reduction == _MEAN else 2.0
    return b.as_result(b.ew("multiply", b.ew("multiply", b.ew("subtract", x, y), scale), grad))


def _reduce_loss(b: Build, losses: Value, reduction: int) -> Value:
    if reduction == _NONE:
        return b.as_result(losses)
    total = b.reduce("add", losses, range(len(losses.shape)))
    scale = 1 / losses.type.elements if reduction == _MEAN else None
    return b.as_result(total if scale is None else b.ew("multiply", total, scale))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "nll_loss_forward": nll_loss,
    "nll_loss_backward": nll_loss_backward,
    "nll_loss2d_forward": nll_loss,
    "nll_loss2d_backward": nll_loss_backward,
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_backward": binary_cross_entropy_backward,
    "smooth_l1_loss": smooth_l1_loss,
    "smooth_l1_loss_backward": smooth_l1_loss_backward,
    "huber_loss": huber_loss,
    "huber_loss_backward": huber_loss_backward,
    "mse_loss": mse_loss,
    "mse_loss_backward": mse_loss_backward,
}
