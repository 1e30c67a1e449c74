"""Convolutions of 1, 2 and 3 dimensions, and their gradients.

The gradient of the input, and a transposed convolution, are convolutions of a gradient that the
stride dilates, with the kernel reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.convolution import batch_groups_in_channels
from trnsim.graph.building.windows import Sizes, Windows
from trnsim.graph.ops.contraction import Convolution
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.windows import windows_of


def _convolved(
    b: Build, x: Value, weight: Value, windows: Windows, groups: int, result_lengths: Sizes
) -> Value:
    """The convolution of an input with a weight: for each window the sum of their products."""
    operation = Convolution(
        strides=windows.stride,
        low=windows.padding,
        high=windows.overhang(x.shape[2:], result_lengths),
        gaps=(0,) * windows.rank,
        dilations=windows.dilation,
        groups=groups,
    )
    return b.graph.apply(operation, x, weight, dtype="float32")


def _transposed_convolved(
    b: Build, grad: Value, weight: Value, windows: Windows, groups: int, lengths: Sizes
) -> Value:
    """The gradient of `_convolved` with respect to an input with sizes `lengths`."""
    reach = [(size - 1) * gap for size, gap in zip(windows.kernel, windows.dilation, strict=True)]
    low = [extent - pad for extent, pad in zip(reach, windows.padding, strict=True)]
    high = [
        n + extent - before - (count - 1) * step - 1
        for n, extent, before, count, step in zip(
            lengths, reach, low, grad.shape[2:], windows.stride, strict=True
        )
    ]
    operation = Convolution(
        strides=(1,) * windows.rank,
        low=tuple(low),
        high=tuple(high),
        gaps=tuple(step - 1 for step in windows.stride),
        dilations=windows.dilation,
        groups=groups,
        is_reversed=True,
    )
    swapped_weight = _swapped_channels(b, weight, groups)
    return b.graph.apply(operation, grad, swapped_weight, dtype="float32")


def _swapped_channels(b: Build, weight: Value, groups: int) -> Value:
    """``[groups * in, out, *kernel]`` of ``[groups * out, in, *kernel]``."""
    outputs, inputs, *kernel = weight.shape
    taps = range(3, len(kernel) + 3)
    grouped_weight = b.graph.reshape(weight, (groups, outputs // groups, inputs, *kernel))
    grouped_weight = b.graph.transpose(grouped_weight, (0, 2, 1, *taps))
    return b.graph.reshape(grouped_weight, (groups * inputs, outputs // groups, *kernel))


def _weight_gradient(
    b: Build, grad: Value, x: Value, weight: Value, windows: Windows, groups: int
) -> Value:
    """The gradient of the weight ``[O, C / groups, *kernel]``.

    It is a convolution in which images and channels change places: each tap of the weight is a
    window, and each position of the gradient is a tap. The groups of images, which are channels of
    the input, become groups of channels.
    """
    result_lengths = grad.shape[2:]
    channels_first = (1, 0, *range(2, len(x.shape)))
    operation = Convolution(
        strides=windows.dilation,
        low=windows.padding,
        high=windows.overhang(x.shape[2:], result_lengths),
        gaps=(0,) * windows.rank,
        dilations=windows.stride,
        groups=groups,
    )
    images = batch_groups_in_channels(b.graph, b.graph.transpose(x, channels_first), groups)
    sums = b.graph.apply(
        operation, images, b.graph.transpose(grad, channels_first), dtype="float32"
    )
    return b.convert(b.graph.transpose(sums, channels_first), weight.dtype)


def convolution(
    b: Build,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Value:
    """The convolution, or transposed convolution, plus the bias of each channel."""
    del output_padding  # the shape of the result implies it
    windows = windows_of(len(weight.shape) - 2, weight.shape[2:], stride, padding, dilation)
    images, lengths = _with_batch(b, x, windows), b.result_types[0].shape[-windows.rank :]
    if transposed:
        sums = _transposed_convolved(b, images, weight, windows, groups, lengths)
    else:
        sums = _convolved(b, images, weight, windows, groups, lengths)
    if bias is not None:
        sums = b.ew("add", sums, b.graph.broadcast_in_dim(bias, sums.shape, (1,)))
    return b.as_reshaped_result(sums)


def _with_batch(b: Build, x: Value, windows: Windows) -> Value:
    return b.graph.reshape(x, (1, *x.shape)) if len(x.shape) == windows.rank + 1 else x


def convolution_backward(
    b: Build,
    grad: Value,
    x: Value,
    weight: Value,
    bias_sizes: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Gradients of the input, the weight and the bias.

    PyTorch's CPU returns a gradient of the weight with that of the bias whatever the mask says.
    """
    del bias_sizes, output_padding
    windows = windows_of(len(weight.shape) - 2, weight.shape[2:], stride, padding, dilation)
    gradients: list[Value | None] = [None, None, None]
    if mask[0]:
        grad_input = (
            _convolved(b, grad, weight, windows, groups, x.shape[2:])
            if transposed
            else _transposed_convolved(b, grad, weight, windows, groups, x.shape[2:])
        )
        gradients[0] = b.convert(grad_input, x.dtype)
    if mask[1] or len(b.result_types) > sum(mask):
        sides = (x, grad) if transposed else (grad, x)
        gradients[1] = _weight_gradient(b, *sides, weight, windows, groups)
    if mask[2]:
        total = b.reduce("add", grad, [0, *range(2, len(grad.shape))])
        gradients[2] = b.convert(total, weight.dtype)
    return tuple(gradients)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "convolution": convolution,
    "convolution_overrideable": convolution,
    "convolution_backward": convolution_backward,
    "convolution_backward_overrideable": convolution_backward,
}
