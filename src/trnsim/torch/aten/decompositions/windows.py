"""Sliding windows over the last dimensions: maximum pooling, im2col and col2im."""

from __future__ import annotations

import math
from math import prod
from typing import Any, Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.windows import Sizes, Windows
from trnsim.graph.ops.reductions import neutral
from trnsim.torch.aten.decomposition import Decomposition, Unlowered
from trnsim.torch.aten.decompositions.window_gradients import sum_of_maxima

_LOWEST: Final = {"float32": -3.4028235e38, "bfloat16": -3.3895314e38, "float16": -65504.0}
"""The lowest finite number of a format, in place of minus infinity in the padding."""


def spread(sizes: int | Sizes, rank: int) -> tuple[int, ...]:
    """A size for each dimension, from a single number or a sequence."""
    lengths = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return lengths * rank if len(lengths) == 1 else lengths


def windows_of(
    rank: int, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1
) -> Windows:
    """Windows from a number for all dimensions or for each; the stride defaults to the kernel."""
    sizes = spread(kernel, rank)
    strides = spread(stride or sizes, rank)
    return Windows(sizes, strides, spread(padding, rank), spread(dilation, rank))


def _window_starts(b: Build, windows: Windows, shape: Sizes, lengths: Sizes) -> Value:
    """The flat index in the input at which each window begins; int32."""
    terms: list[Value] = []
    outer = len(shape) - windows.rank
    for dim in range(windows.rank):
        stride = prod(lengths[dim + 1 :])
        count = b.graph.iota(shape, outer + dim)
        scale = float(windows.stride[dim] * stride)
        first = -float(windows.padding[dim] * stride)
        terms.append(b.ew("add", b.ew("multiply", count, scale, dtype="int32"), first))
    return b.total(terms, "int32")


def _first_inside(b: Build, windows: Windows, dim: int, shape: Sizes) -> Value:
    """The distance along `dim` from each window's start to its first tap not in the padding.

    float32, of a tensor with windows along `dim`.
    """
    pad, step = windows.padding[dim], windows.dilation[dim]
    if not pad:
        return b.filled(0.0, TensorType(tuple(shape), "float32"))
    window = b.convert(b.graph.iota(shape, len(shape) - windows.rank + dim), "float32")
    padding_left = b.ew("add", b.ew("multiply", window, -float(windows.stride[dim])), float(pad))
    distance = b.ew("maximum", padding_left, 0.0)
    if step > 1:
        taps = b.ew("multiply", b.ew("add", distance, step - 0.5), 1 / step)
        distance = b.ew("multiply", b.ew("floor", taps), float(step))
    return distance


def _best_of_taps(
    b: Build, windows: Windows, padded: Value, lengths: Sizes, window_counts: Sizes
) -> tuple[Value, Value]:
    """`_best_taps`, computed tap by tap, which is faster for few taps."""
    taps = windows.taps(b, padded, window_counts)
    best, offsets = taps[0], _tap_offsets(windows, lengths)
    scales = [float(prod(lengths[dim + 1 :])) for dim in range(windows.rank)]
    first_distances = [_first_inside(b, windows, dim, best.shape) for dim in range(windows.rank)]
    terms = [
        b.ew("multiply", tap, scale) for tap, scale in zip(first_distances, scales, strict=True)
    ]
    best_offset = b.total(terms)
    for tap, offset in zip(taps[1:], offsets[1:], strict=True):
        is_better = b.ew("compare", tap, best, dtype="bool", direction="GT")
        best_offset = b.ew("select", is_better, offset, best_offset, dtype="float32")
        best = b.ew("maximum", best, tap)
    return best, best_offset


def _best_taps(
    b: Build, windows: Windows, padded: Value, lengths: Sizes, window_counts: Sizes
) -> tuple[Value, Value]:
    """The maximum under each window, and the flat offset of its first tap with it; float32.

    The maximum is taken along the last dimension first, so that the taps of a window are as many
    as the sum of its lengths, not the product. The first row with the maximum has the first tap.
    """
    if sum(windows.kernel) >= prod(windows.kernel):
        return _best_of_taps(b, windows, padded, lengths, window_counts)
    last, *others = reversed(range(windows.rank))
    sizes = lengths, window_counts
    best, offset = _best_along(b, windows, last, sizes, padded)
    for dim in others:
        best, offset = _best_along(b, windows, dim, sizes, best, offset)
    return best, offset


def _best_along(
    b: Build, windows: Windows, dim: int, sizes: tuple[Sizes, Sizes], x: Value,
    offset: Value | None = None,
) -> tuple[Value, Value]:  # fmt: skip
    """The maximum along one dimension of windows, and the flat offset of its first tap.

    `sizes` are the lengths of the input and the numbers of windows; `offset` has the flat offsets
    of the elements of `x` along the dimensions after this one.
    """
    lengths, window_counts = sizes
    stride, step = float(prod(lengths[dim + 1 :])), windows.dilation[dim]
    starts = [tap * step for tap in range(windows.kernel[dim])]
    count = window_counts[dim]
    values = windows.taps_along(b, x, dim, starts, count)
    offsets = [] if offset is None else windows.taps_along(b, offset, dim, starts, count)
    best = values[0]
    first_offset = b.ew("multiply", _first_inside(b, windows, dim, best.shape), stride)
    best_offset = b.ew("add", first_offset, offsets[0]) if offsets else first_offset
    for number, value in enumerate(values[1:], 1):
        is_better = b.ew("compare", value, best, dtype="bool", direction="GT")
        value_offset: Any = starts[number] * stride
        if offsets:
            value_offset = b.ew("add", offsets[number], value_offset)
        best_offset = b.ew("select", is_better, value_offset, best_offset, dtype="float32")
        best = b.ew("maximum", best, value)
    return best, best_offset


def _tap_offsets(windows: Windows, lengths: Sizes) -> list[float]:
    """The flat offset of each tap from the start of its window."""
    return [
        float(sum(index * prod(lengths[dim + 1 :]) for dim, index in enumerate(offset)))
        for offset in windows.offsets()
    ]


def _max_pool(rank: int) -> Decomposition:
    def build(b: Build, x: Value, *arguments: Any) -> tuple[Value, ...]:
        windows = windows_of(rank, *arguments[:4])
        window_counts, lengths = b.result_types[0].shape[-rank:], x.shape[-rank:]
        if len(b.result_types) == 1:
            return (
                b.as_result(b.graph.apply(windows.reduction("maximum", x.shape, window_counts), x)),
            )
        lowest = _LOWEST.get(x.dtype, float(neutral("maximum", x.type.numpy_dtype())))
        overhang = windows.overhang(lengths, window_counts)
        is_bounded = x.dtype in _LOWEST and max(*windows.padding, *overhang) > 0
        # Minus infinity becomes as low as the padding: neither replaces the first tap inside. A
        # window of nothing but the lowest finite number gives minus infinity too.
        bounded = b.ew("maximum", x, lowest) if is_bounded else x
        padded = windows.pad_to_windows(b, bounded, window_counts, lowest)
        best, best_offset = _best_taps(b, windows, padded, lengths, window_counts)
        origins = _window_starts(b, windows, best.shape, lengths)
        if is_bounded:
            is_lowest = b.ew("compare", best, lowest, dtype="bool", direction="LE")
            best = b.ew("select", is_lowest, -math.inf, best, dtype=best.dtype)
        indices = b.ew("add", origins, b.convert(best_offset, "int32"), dtype="int32")
        return b.as_result(best), b.as_result(indices, 1)

    return build


def _max_pool_backward(rank: int) -> Decomposition:
    def build(
        b: Build, grad: Value, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any,
        ceil_mode: bool, indices: Value,
    ) -> Value:  # fmt: skip
        del ceil_mode
        windows, lengths = windows_of(rank, kernel, stride, padding, dilation), x.shape[-rank:]
        starts = _window_starts(b, windows, grad.shape, lengths)
        best_offset = b.ew("subtract", indices, starts, dtype="int32")
        best_offset = b.convert(best_offset, "float32")
        return b.as_result(sum_of_maxima(b, windows, grad, best_offset, lengths))

    return build


def _adaptive_max_pool(rank: int) -> Decomposition:
    """Windows of equal size; lengths that do not divide would need several sizes."""

    def build(b: Build, x: Value, size: Any) -> tuple[Value, ...]:
        del size
        window_counts = b.result_types[0].shape[-rank:]
        pairs = list(zip(x.shape[-rank:], window_counts, strict=True))
        if any(n % count for n, count in pairs):
            raise Unlowered("maxima over windows of several sizes")
        pooled: tuple[Value, ...] = pools[rank](b, x, [n // count for n, count in pairs])
        return pooled

    return build


def im2col(
    b: Build, x: Value, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Value:
    """The elements under each window of [N, C, H, W] as columns: [N, C * kernel, windows]."""
    windows = windows_of(len(kernel), kernel, stride, padding, dilation)
    rank = windows.rank
    window_counts = windows.counts(x.shape[-rank:])
    taps = windows.taps(b, windows.pad_to_windows(b, x, window_counts), window_counts)
    batch = x.shape[:-rank]
    rows = [b.graph.reshape(tap, (*batch, 1, prod(window_counts))) for tap in taps]
    return b.graph.reshape(b.graph.concatenate(rows, len(batch)), b.result_types[0].shape)


def col2im(
    b: Build, x: Value, lengths: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes,
    stride: Sizes,
) -> Value:  # fmt: skip
    """Columns added to the positions of their patches: the gradient of `im2col`."""
    windows = windows_of(len(kernel), kernel, stride, padding, dilation)
    window_counts, count = windows.counts(lengths), prod(windows.kernel)
    batch = (*x.shape[:-2], x.shape[-2] // count)
    patches = b.graph.reshape(x, (*batch, count, *window_counts))
    parts = [
        b.graph.reshape(b.sliced(patches, len(batch), number, 1), (*batch, *window_counts))
        for number in range(count)
    ]
    return b.as_result(windows.sum_tap_gradients(b, parts, lengths))


pools: Final = {rank: _max_pool(rank) for rank in (1, 2, 3)}

DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "max_pool1d": pools[1],
    "max_pool1d_with_indices": pools[1],
    "max_pool2d": pools[2],
    "max_pool2d_with_indices": pools[2],
    "max_pool3d_with_indices": pools[3],
    "max_pool2d_with_indices_backward": _max_pool_backward(2),
    "max_pool3d_with_indices_backward": _max_pool_backward(3),
    "adaptive_max_pool2d": _adaptive_max_pool(2),
    "adaptive_max_pool3d": _adaptive_max_pool(3),
    "im2col": im2col,
    "col2im": col2im,
}
