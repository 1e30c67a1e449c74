"""Softmax, layer, RMS, group and batch normalization, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import prod
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.torch.aten.decomposition import Decomposition, Unlowered


def _broadcast_reduction(b: Build, op: str, x: Value) -> Value:
    """A reduction over the last dimension, broadcast along it; a scalar is its own reduction."""
    if not x.shape:
        return x
    last = len(x.shape) - 1
    return b.graph.broadcast_in_dim(b.graph.reduce(op, x, (last,)), x.shape, range(last))


def softmax(b: Build, x: Value, dim: int, half_to_float: bool = False) -> Value:
    """``exp(x - max) / sum``."""
    del half_to_float
    rows = move_dim(b, x, dim, -1)
    powers = b.ew("exponential", b.ew("subtract", rows, _broadcast_reduction(b, "maximum", rows)))
    return b.as_result(
        move_dim(b, b.ew("divide", powers, _broadcast_reduction(b, "add", powers)), -1, dim)
    )


def safe_softmax(b: Build, x: Value, dim: int, dtype: Any = None) -> Value:
    """Softmax; a row without any finite element gives NaN here, and zeros in fast numerics."""
    del dtype
    return softmax(b, x, dim)


def log_softmax(b: Build, x: Value, dim: int, half_to_float: bool = False) -> Value:
    """``x - max - log(sum of exp(x - max))``."""
    del half_to_float
    rows = move_dim(b, x, dim, -1)
    shifted_rows = b.ew("subtract", rows, _broadcast_reduction(b, "maximum", rows))
    sums = _broadcast_reduction(b, "add", b.ew("exponential", shifted_rows))
    return b.as_result(move_dim(b, b.ew("subtract", shifted_rows, b.ew("log", sums)), -1, dim))


def softmax_backward(b: Build, grad: Value, y: Value, dim: int, dtype: Any = None) -> Value:
    """``y * (grad - sum(grad * y))``."""
    del dtype
    grads, ys = (move_dim(b, side, dim, -1) for side in (grad, y))
    sums = _broadcast_reduction(b, "add", b.ew("multiply", grads, ys))
    return b.as_result(move_dim(b, b.ew("multiply", ys, b.ew("subtract", grads, sums)), -1, dim))


def log_softmax_backward(b: Build, grad: Value, y: Value, dim: int, dtype: Any = None) -> Value:
    """``grad - exp(y) * sum(grad)``."""
    del dtype
    grads, ys = (move_dim(b, side, dim, -1) for side in (grad, y))
    product = b.ew("multiply", b.ew("exponential", ys), _broadcast_reduction(b, "add", grads))
    return b.as_result(move_dim(b, b.ew("subtract", grads, product), -1, dim))


def _rows(b: Build, x: Value, shape: Sequence[int]) -> Value:
    """`x` as [rows, columns], the normalized dimensions as columns."""
    columns = prod(shape)
    return b.graph.reshape(x, (x.type.elements // columns, columns))


def layer_norm(
    b: Build, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, ...]:
    """The normalized rows, their means and the reciprocals of their deviations."""
    rows = b.convert(_rows(b, x, shape), "float32")
    columns = rows.shape[1]
    mean = b.ew("multiply", b.graph.reduce("add", rows, (1,)), 1 / columns)
    deviations = b.ew("subtract", rows, b.graph.broadcast_in_dim(mean, rows.shape, (0,)))
    squares = b.graph.reduce("add", b.ew("square", deviations), (1,))
    variance = b.ew("add", b.ew("multiply", squares, 1 / columns), float(eps))
    rstd = b.ew("rsqrt", variance)
    y = b.ew("multiply", deviations, b.graph.broadcast_in_dim(rstd, rows.shape, (0,)))
    return _operator_results(b, _scale_and_add(b, y, weight, bias), mean, rstd)


def _operator_results(b: Build, *parts: Value) -> tuple[Value, ...]:
    """The first of `parts`, one for each result of the operator."""
    return tuple(
        b.as_reshaped_result(part, index) for index, part in enumerate(parts[: len(b.result_types)])
    )


def _scale_and_add(b: Build, y: Value, weight: Value | None, bias: Value | None) -> Value:
    for name, part in (("multiply", weight), ("add", bias)):
        if part is not None:
            y = b.ew(name, y, b.graph.reshape(part, (part.type.elements,)))
    return y


def layer_norm_backward(
    b: Build,
    grad: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Gradients of the input, the weight and the bias."""
    grads, rows = _rows(b, grad, shape), _rows(b, x, shape)
    count, columns = rows.shape
    means, rstds = (
        b.graph.broadcast_in_dim(b.graph.reshape(part, (count,)), rows.shape, (0,))
        for part in (mean, rstd)
    )
    normalized_rows = b.ew("multiply", b.ew("subtract", rows, means), rstds, dtype="float32")
    scaled_grads = _scale_and_add(b, b.convert(grads, "float32"), weight, None)
    grad_means = b.ew("multiply", _broadcast_reduction(b, "add", scaled_grads), 1 / columns)
    projections = b.ew(
        "multiply",
        _broadcast_reduction(b, "add", b.ew("multiply", scaled_grads, normalized_rows)),
        1 / columns,
    )
    grad_input = b.ew(
        "subtract",
        b.ew("subtract", scaled_grads, grad_means),
        b.ew("multiply", normalized_rows, projections),
    )
    grad_input = b.ew("multiply", grad_input, rstds)
    grad_weight = b.graph.reduce(
        "add", b.ew("multiply", grads, normalized_rows, dtype="float32"), (0,)
    )
    grad_bias = b.graph.reduce("add", grads, (0,))
    is_requested = [mask[0], mask[1] and weight is not None, mask[2] and bias is not None]
    return _requested_gradients(b, (grad_input, grad_weight, grad_bias), is_requested)


def rms_norm(
    b: Build, x: Value, shape: Sequence[int], weight: Value | None, eps: float | None
) -> tuple[Value, ...]:
    """``x / sqrt(mean(x * x) + eps) * weight``, and the reciprocal root."""
    rows = b.convert(_rows(b, x, shape), "float32")
    squares = b.graph.reduce("add", b.ew("square", rows), (1,))
    epsilon = _DEFAULT_EPSILON if eps is None else float(eps)
    rstd = b.ew("rsqrt", b.ew("add", b.ew("multiply", squares, 1 / rows.shape[1]), epsilon))
    y = b.ew("multiply", rows, b.graph.broadcast_in_dim(rstd, rows.shape, (0,)))
    return _operator_results(b, _scale_and_add(b, y, weight, None), rstd)


_DEFAULT_EPSILON: Final = 1.1920929e-07  # torch.nn.functional.rms_norm: torch.finfo(float32).eps


def group_norm(
    b: Build,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: int,
    channels: int,
    spatial_size: int,
    groups: int,
    eps: float,
) -> tuple[Value, ...]:
    """`x` normalized over each group of channels of a sample; channels have a weight and a bias.

    A channel has `spatial_size` elements. Sums are computed channel by channel, so that a channel's
    elements are not moved.
    """
    shape, inverse_count = (batch, groups, channels // groups), groups / (channels * spatial_size)

    def group_means(values: Value) -> tuple[Value, Value]:
        """Means over each group: repeated for its channels, [N, C], and once, [N, groups]."""
        channel_shares = b.ew("multiply", b.graph.reduce("add", values, (2,)), inverse_count)
        means = b.graph.reduce("add", b.graph.reshape(channel_shares, shape), (2,))
        repeated_means = b.graph.broadcast_in_dim(means, shape, (0, 1))
        return b.graph.reshape(repeated_means, (batch, channels)), means

    values = b.convert(b.graph.reshape(x, (batch, channels, spatial_size)), "float32")
    mean, group_mean = group_means(values)
    deviations = b.ew("subtract", values, b.graph.broadcast_in_dim(mean, values.shape, (0, 1)))
    variance, group_variance = group_means(b.ew("square", deviations))
    scale, shift = _scale_and_shift(b, weight, bias, mean, variance, eps)
    y = b.ew("multiply", values, b.graph.broadcast_in_dim(scale, values.shape, (0, 1)))
    y = b.ew("add", y, b.graph.broadcast_in_dim(shift, values.shape, (0, 1)))
    rstd = b.ew("rsqrt", b.ew("add", group_variance, float(eps)))
    return _operator_results(b, y, group_mean, rstd)


def batch_norm(
    b: Build,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """`x` normalized over all dimensions but the channels, which are dimension 1."""
    del momentum
    if training:
        return _normalize_batch(b, x, weight, bias, eps)[:3]
    if running_mean is None or running_var is None:
        raise Unlowered("batch normalization without running moments")
    scale, shift = _scale_and_shift(b, weight, bias, running_mean, running_var, eps)
    y = b.ew("multiply", x, _spread_channels(b, scale, x), dtype="float32")
    return (b.as_result(b.ew("add", y, _spread_channels(b, shift, x))),)


def _normalize_batch(
    b: Build, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """`x` normalized by its own moments; the mean, `1 / sqrt(variance + eps)` and the variance.

    Moments have the type of the operator's second result.
    """
    values = b.convert(x, b.result_types[1].dtype)
    other_dims = [dim for dim in range(len(x.shape)) if dim != 1]
    inverse_count = x.shape[1] / x.type.elements
    mean = b.ew("multiply", b.reduce("add", values, other_dims), inverse_count)
    deviations = b.ew("subtract", values, _spread_channels(b, mean, x))
    squares = b.reduce("add", b.ew("square", deviations), other_dims)
    variance = b.ew("multiply", squares, inverse_count)
    rstd = b.ew("rsqrt", b.ew("add", variance, float(eps)))
    y = b.ew("multiply", deviations, _spread_channels(b, rstd, x))
    for name, part in (("multiply", weight), ("add", bias)):
        if part is not None:
            y = b.ew(name, y, _spread_channels(b, part, x))
    return b.as_result(y), mean, rstd, variance


def functional_batch_norm(
    b: Build,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """Batch normalization that also returns the next running moments.

    The variance of a batch of n elements per channel enters the running variance as the unbiased
    variance, times n / (n - 1).
    """
    if not training:
        results = batch_norm_of_moments(
            b, x, weight, bias, running_mean, running_var, momentum=momentum, eps=eps
        )
        return (*results, None, None, running_mean, running_var)
    y, mean, rstd, variance = _normalize_batch(b, x, weight, bias, eps)
    count = x.type.elements // x.shape[1]
    unbiased_variance = b.ew("multiply", variance, count / (count - 1))
    running_moments = (
        b.ew(
            "add",
            b.ew("multiply", running_moment, 1 - momentum, dtype="float32"),
            b.ew("multiply", moment, float(momentum), dtype="float32"),
        )
        for running_moment, moment in ((running_mean, mean), (running_var, unbiased_variance))
    )
    return (
        y,
        mean,
        rstd,
        *(b.as_result(part, index) for index, part in enumerate(running_moments, 3)),
    )


def _scale_and_shift(
    b: Build, weight: Value | None, bias: Value | None, mean: Value, variance: Value, eps: float
) -> tuple[Value, Value]:
    """Factor and summand of each channel in a normalization by known moments; float32."""
    scale = b.ew("rsqrt", b.ew("add", b.convert(variance, "float32"), float(eps)))
    if weight is not None:
        scale = b.ew("multiply", scale, weight, dtype="float32")
    shift = b.ew("multiply", b.ew("multiply", mean, scale, dtype="float32"), -1.0)
    if bias is not None:
        shift = b.ew("add", shift, bias, dtype="float32")
    return scale, shift


def batch_norm_of_moments(
    b: Build, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value,
    momentum: float, eps: float,
) -> tuple[Value, ...]:  # fmt: skip
    """Batch normalization by running moments."""
    return batch_norm(
        b, x, weight, bias, mean, variance, training=False, momentum=momentum, eps=eps
    )


def batch_norm_backward(
    b: Build,
    grad: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    mean: Value | None,
    rstd: Value | None,
    train: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Gradients of the input, the weight and the bias, also through the moments of a batch.

    PyTorch traces a gradient of the input even if `mask` does not request it.
    """
    if not train:
        if running_mean is None or running_var is None:
            raise Unlowered("batch normalization without running moments")
        mean, rstd = running_mean, b.ew("rsqrt", b.ew("add", running_var, float(eps)))
    if mean is None or rstd is None:
        raise Unlowered("batch normalization without the moments of the batch")
    other_dims = [dim for dim in range(len(x.shape)) if dim != 1]
    deviations = b.ew("subtract", x, _spread_channels(b, mean, x), dtype="float32")
    normalized_x = b.ew("multiply", deviations, _spread_channels(b, rstd, x))
    grads = b.convert(grad, "float32")
    grad_weight = b.reduce("add", b.ew("multiply", grads, normalized_x), other_dims)
    grad_bias = b.reduce("add", grads, other_dims)
    scale = rstd if weight is None else b.ew("multiply", rstd, weight, dtype="float32")
    grad_deviations = grads
    if train:
        count = x.type.elements // x.shape[1]
        grad_means = _spread_channels(b, b.ew("multiply", grad_bias, 1 / count), x)
        projections = b.ew(
            "multiply",
            normalized_x,
            _spread_channels(b, b.ew("multiply", grad_weight, 1 / count), x),
        )
        grad_deviations = b.ew("subtract", b.ew("subtract", grads, grad_means), projections)
    grad_input = b.ew("multiply", grad_deviations, _spread_channels(b, scale, x))
    is_requested = [mask[0] or len(b.result_types) > sum(mask), *mask[1:]]
    return _requested_gradients(b, (grad_input, grad_weight, grad_bias), is_requested)


def _requested_gradients(
    b: Build, parts: Sequence[Value], mask: Sequence[bool]
) -> tuple[Value | None, ...]:
    """The gradients that the mask requests, in the dtypes that PyTorch returns."""
    index = count()
    return tuple(
        b.as_reshaped_result(part, next(index)) if is_needed else None
        for part, is_needed in zip(parts, mask, strict=True)
    )


def group_norm_backward(
    b: Build,
    grad: Value,
    x: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    batch: int,
    channels: int,
    spatial_size: int,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Gradients of the input, weight and bias; sums are those of channels, as in `group_norm`."""
    shape, count = (batch, groups, channels // groups), channels // groups * spatial_size

    def repeat_for_channels(value: Value) -> Value:
        """A number of each group, [N, groups], repeated for its channels, [N, C]."""
        repeated = b.graph.broadcast_in_dim(value, shape, (0, 1))
        return b.graph.reshape(repeated, (batch, channels))

    def group_means(sums: Value) -> Value:
        """Means over each group of its channels' weighted sums, repeated for them: [N, C]."""
        weighted_sums = sums if weights is None else b.ew("multiply", sums, weights)
        shares = b.ew("multiply", weighted_sums, 1 / count)
        return repeat_for_channels(b.graph.reduce("add", b.graph.reshape(shares, shape), (2,)))

    def spread(value: Value) -> Value:
        return b.graph.broadcast_in_dim(value, grads.shape, (0, 1))

    grads, values = (
        b.convert(b.graph.reshape(side, (batch, channels, spatial_size)), "float32")
        for side in (grad, x)
    )
    means, rstds = (
        repeat_for_channels(b.convert(b.graph.reshape(part, (batch, groups)), "float32"))
        for part in (mean, rstd)
    )
    weights = None
    if weight is not None:
        weights = b.graph.broadcast_in_dim(b.convert(weight, "float32"), means.shape, (1,))
    deviations = b.ew("subtract", values, spread(means))
    sums = b.graph.reduce("add", grads, (2,))
    products = b.ew(
        "multiply", b.graph.reduce("add", b.ew("multiply", grads, deviations), (2,)), rstds
    )
    grad_weight, grad_bias = (b.graph.reduce("add", side, (0,)) for side in (products, sums))
    scale = rstds if weights is None else b.ew("multiply", rstds, weights)
    slope = b.ew("multiply", b.ew("square", rstds), group_means(products))
    shift = b.ew("multiply", rstds, group_means(sums))
    grad_input = b.ew("multiply", grads, spread(scale))
    grad_input = b.ew("subtract", grad_input, b.ew("multiply", deviations, spread(slope)))
    grad_input = b.ew("subtract", grad_input, spread(shift))
    return _requested_gradients(b, (grad_input, grad_weight, grad_bias), mask)


def rms_norm_backward(
    b: Build,
    grad: Value,
    x: Value,
    shape: Sequence[int],
    rstd: Value,
    weight: Value | None,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Gradients of the input and the weight."""
    grads, rows = (b.convert(_rows(b, side, shape), "float32") for side in (grad, x))
    count, columns = rows.shape
    rstds = b.graph.broadcast_in_dim(b.graph.reshape(rstd, (count,)), rows.shape, (0,))
    normalized_rows = b.ew("multiply", rows, rstds, dtype="float32")
    scaled_grads = _scale_and_add(b, grads, weight, None)
    projections = b.ew(
        "multiply",
        _broadcast_reduction(b, "add", b.ew("multiply", scaled_grads, normalized_rows)),
        1 / columns,
    )
    grad_input = b.ew(
        "multiply",
        b.ew("subtract", scaled_grads, b.ew("multiply", normalized_rows, projections)),
        rstds,
    )
    grad_weight = b.graph.reduce("add", b.ew("multiply", grads, normalized_rows), (0,))
    return _requested_gradients(b, (grad_input, grad_weight), mask)


def _spread_channels(b: Build, part: Value, x: Value) -> Value:
    """A number per channel, broadcast along all other dimensions of x."""
    return b.graph.broadcast_in_dim(part, x.shape, (1,))


def native_batch_norm(b: Build, x: Value, *arguments: Any) -> tuple[Value, ...]:
    """Batch normalization with running moments or without."""
    moments = (None, None) if isinstance(arguments[2], bool) else ()
    return batch_norm(b, x, *arguments[:2], *moments, *arguments[2:])


def _rows_along(b: Build, x: Value, dim: int) -> tuple[Value, list[int]]:
    """`x` as a row for each index of `dim`, and the shape of a number for each row."""
    shape = [n if d == dim % len(x.shape) else 1 for d, n in enumerate(x.shape)]
    other_dims = [d for d in range(len(x.shape)) if d != dim % len(x.shape)]
    reordered_x = b.graph.transpose(b.convert(x, "float32"), [dim % len(x.shape), *other_dims])
    return _rows(b, reordered_x, reordered_x.shape[1:]), shape


def weight_norm(b: Build, v: Value, g: Value, dim: int = 0) -> tuple[Value, ...]:
    """``v * g / |v|``, and ``|v|``: the norm over all dimensions but one."""
    rows, shape = _rows_along(b, v, dim)
    norm = b.ew("sqrt", b.graph.reduce("add", b.ew("square", rows), (1,)))
    norm = b.graph.reshape(norm, shape)
    scale = b.ew("divide", b.convert(g, "float32"), norm)
    return b.as_result(b.ew("multiply", v, scale, dtype="float32"), 0), b.as_result(norm, 1)


def weight_norm_backward(
    b: Build, grad: Value, v: Value, g: Value, norm: Value, dim: int
) -> tuple[Value, ...]:
    """``g / |v| * (grad - v * dot / |v| ** 2)`` and ``dot / |v|``, of ``dot = sum(grad * v)``."""
    grads, weights = b.convert(grad, "float32"), b.convert(v, "float32")
    rows, shape = _rows_along(b, b.ew("multiply", grads, weights), dim)
    dot = b.graph.reshape(b.graph.reduce("add", rows, (1,)), shape)
    norm = b.convert(norm, "float32")
    projection = b.ew("multiply", weights, b.ew("divide", dot, b.ew("square", norm)))
    scale = b.ew("divide", b.convert(g, "float32"), norm)
    grad_v = b.ew("multiply", scale, b.ew("subtract", grads, projection))
    return b.as_result(grad_v, 0), b.as_result(b.ew("divide", dot, norm), 1)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "_weight_norm_interface": weight_norm,
    "_weight_norm_interface_backward": weight_norm_backward,
    "_softmax": softmax,
    "_safe_softmax": safe_softmax,
    "_log_softmax": log_softmax,
    "_softmax_backward_data": softmax_backward,
    "_log_softmax_backward_data": log_softmax_backward,
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_backward,
    "_fused_rms_norm": rms_norm,
    "native_group_norm": group_norm,
    "native_batch_norm": batch_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "_native_batch_norm_legit_functional": functional_batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm_of_moments,
    "native_batch_norm_backward": batch_norm_backward,
    "native_group_norm_backward": group_norm_backward,
    "_fused_rms_norm_backward": rms_norm_backward,
}
