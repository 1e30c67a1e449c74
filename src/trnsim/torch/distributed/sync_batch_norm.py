"""The operators of `torch.nn.SyncBatchNorm`, which PyTorch has only for CUDA.

Each is composed of operators of the device, which have times of their own. Statistics are per
channel, dimension 1, and are computed in float32.

Source: torch/nn/modules/_functions.py, SyncBatchNorm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch import Tensor


def register(library: Library) -> None:
    """Register the kernels of this file."""
    for name, kernel in _KERNELS.items():
        library.impl(name, kernel, "PrivateUse1")


def _dims_but_channel(x: Tensor) -> list[int]:
    """All dimensions except the channel dimension."""
    return [dim for dim in range(x.dim()) if dim != 1]


def _spread_channels(values: Tensor, template: Tensor) -> Tensor:
    """One value per channel, in a shape that broadcasts to `template`."""
    return values.reshape(1, -1, *[1] * (template.dim() - 2))


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and ``1 / sqrt(variance + eps)`` of each channel."""
    x_float32 = x.float()
    mean = x_float32.mean(_dims_but_channel(x))
    variance = (x_float32 - _spread_channels(mean, x)).square().mean(_dims_but_channel(x))
    return mean, (variance + eps).rsqrt()


def gather_stats(
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Statistics over all processes, from each process's statistics [N, C] and counts [N].

    Running statistics are updated with `momentum`, and with the unbiased variance.
    """
    del x
    weight = counts.float().unsqueeze(1)
    total = weight.sum()
    batch_mean = (mean * weight).sum(0) / total
    deviations = (mean - batch_mean).square() + invstd.square().reciprocal() - eps
    variance = (deviations * weight).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(batch_mean, alpha=momentum)
    if running_var is not None:
        unbiased = variance * (total / (total - 1))
        running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)
    return batch_mean, (variance + eps).rsqrt()


def normalize(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """``(x - mean) * invstd * weight + bias``."""
    del eps
    normalized = (x.float() - _spread_channels(mean, x)) * _spread_channels(invstd, x)
    if weight is not None:
        normalized = normalized * _spread_channels(weight, x)
    if bias is not None:
        normalized = normalized + _spread_channels(bias, x)
    return normalized.to(x.dtype)


def backward_sums(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, ...]:
    """The sums over this process of the gradient, and of the gradient times ``x - mean``.

    The gradients of weight and bias follow from these.
    """
    grad_float32 = grad.float()
    sums = grad_float32.sum(_dims_but_channel(x))
    products = (grad_float32 * (x.float() - _spread_channels(mean, x))).sum(_dims_but_channel(x))
    dtype = mean.dtype if weight is None else weight.dtype
    return (
        sums if input_g else None,
        products if input_g else None,
        (products * invstd).to(dtype) if weight_g else None,
        sums.to(dtype) if bias_g else None,
    )


def backward(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of x, from the sums over all processes."""
    total = count.sum()
    correction = (x.float() - _spread_channels(mean, x)) * _spread_channels(
        invstd.square() * (sum_dy_xmu / total), x
    )
    scale = invstd if weight is None else invstd * weight
    grad_deviation = grad.float() - _spread_channels(sum_dy / total, x) - correction
    return (grad_deviation * _spread_channels(scale, x)).to(x.dtype)


_KERNELS: Final[dict[str, Kernel]] = {
    "batch_norm_stats": stats,
    "batch_norm_gather_stats_with_counts": gather_stats,
    "batch_norm_elemt": normalize,
    "batch_norm_backward_reduce": backward_sums,
    "batch_norm_backward_elemt": backward,
}
