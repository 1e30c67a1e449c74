"""Average pooling, interpolation and padding by copies: products with a matrix per dimension.

The operators are separable: along each dimension the result is ``x @ W``, where W is computed on
the chip from the indices of its rows and columns. The gradient is the product with the transpose
of W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.graph.building.windows import Sizes, Windows
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.windows import windows_of

Matrix = Callable[[Build, int, int, int], Value]
"""A function of a build, the resampled dimension, and its lengths in the input and the output.

It returns W [input length, output length].
"""

_QUOTIENT_GUARD: Final = 0.5  # keeps a quotient of integers on the right side of an integer


def _resample(b: Build, x: Value, rank: int, matrix: Matrix) -> Value:
    """`x` with its last `rank` dimensions resampled to the lengths of the result."""
    for dim, output_length in enumerate(b.result_types[0].shape[-rank:]):
        value_dim = len(x.shape) - rank + dim
        weights = matrix(b, dim, x.shape[value_dim], output_length)
        x = _product(b, x, value_dim, weights, is_transposed=False)
    return b.as_result(x)


def _resample_back(b: Build, grad: Value, lengths: Sizes, matrix: Matrix) -> Value:
    """The gradient of `_resample` for an input whose last dimensions have `lengths`."""
    rank = len(lengths)
    for dim, input_length in enumerate(lengths):
        value_dim = len(grad.shape) - rank + dim
        weights = matrix(b, dim, input_length, grad.shape[value_dim])
        grad = _product(b, grad, value_dim, weights, is_transposed=True)
    return b.as_result(grad)


def _product(b: Build, x: Value, dim: int, weights: Value, *, is_transposed: bool) -> Value:
    """`x` along one dimension times a matrix."""
    moved_x = move_dim(b, x, dim, -1)
    rows = b.graph.reshape(moved_x, (moved_x.type.elements // moved_x.shape[-1], moved_x.shape[-1]))
    rows = b.convert(rows, "float32")
    product = b.graph.dot_general(rows, weights, (1, 1 if is_transposed else 0), "float32")
    return move_dim(b, b.graph.reshape(product, (*moved_x.shape[:-1], product.shape[1])), -1, dim)


def _row_and_column(b: Build, input_length: int, output_length: int) -> tuple[Value, Value]:
    """The row and the column of each element of a matrix, float32."""
    row, column = (b.graph.iota((input_length, output_length), dim) for dim in (0, 1))
    return b.convert(row, "float32"), b.convert(column, "float32")


def _affine(b: Build, x: Value, scale: float, shift: float = 0.0) -> Value:
    return b.ew("add", b.ew("multiply", x, scale), shift)


def _clamp(b: Build, x: Value, minimum: float, maximum: float) -> Value:
    return b.ew("minimum", b.ew("maximum", x, float(minimum)), float(maximum))


def _one_hot(b: Build, rows: Value, source_rows: Value) -> Value:
    """1 where the row is the source that its column copies, else 0."""
    return b.ew("compare", rows, source_rows, dtype="float32", direction="EQ")


def _window_weights(b: Build, rows: Value, start: Value, end: Value, count: Value | None) -> Value:
    """1 / count from start to end (exclusive), else 0."""
    is_from_start = b.ew("compare", rows, start, dtype="float32", direction="GE")
    is_before_end = b.ew("compare", rows, end, dtype="float32", direction="LT")
    is_inside = b.ew("multiply", is_from_start, is_before_end)
    return is_inside if count is None else b.ew("divide", is_inside, count)


def _adaptive_windows(b: Build, dim: int, input_length: int, output_length: int) -> Value:
    """Windows of adaptive pooling, which divide a dimension as evenly as integers allow."""
    del dim
    rows, columns = _row_and_column(b, input_length, output_length)
    start = b.ew(
        "floor", _affine(b, columns, input_length / output_length, _QUOTIENT_GUARD / output_length)
    )
    end_shift = (input_length + output_length - 1 + _QUOTIENT_GUARD) / output_length
    end = b.ew("floor", _affine(b, columns, input_length / output_length, end_shift))
    return _window_weights(b, rows, start, end, b.ew("subtract", end, start))


def _strided_windows(windows: Windows, *, is_padding_counted: bool, is_summed: bool) -> Matrix:
    """Windows of equal length at a stride, starting in the padding."""

    def matrix(b: Build, dim: int, input_length: int, output_length: int) -> Value:
        rows, columns = _row_and_column(b, input_length, output_length)
        size, pad = windows.kernel[dim], windows.padding[dim]
        start = _affine(b, columns, float(windows.stride[dim]), -float(pad))
        end = b.ew("minimum", b.ew("add", start, float(size)), float(input_length + pad))
        count = b.ew("subtract", end, start)
        start, end = b.ew("maximum", start, 0.0), b.ew("minimum", end, float(input_length))
        if not is_padding_counted:
            count = b.ew("subtract", end, start)
        return _window_weights(b, rows, start, end, None if is_summed else count)

    return matrix


def _average_pool(rank: int, *, is_backward: bool = False) -> Decomposition:
    def build(
        b: Build,
        x: Value,
        *arguments: Any,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        source, arguments = (arguments[0], arguments[1:]) if is_backward else (x, arguments)
        windows = windows_of(rank, *arguments[:3])
        is_padding_counted = arguments[4] if len(arguments) > 4 else count_include_pad  # noqa: PLR2004  the fifth
        divisor = arguments[5] if len(arguments) > 5 else divisor_override  # noqa: PLR2004  the sixth
        del ceil_mode  # the shape of the result implies it
        matrix = _strided_windows(
            windows, is_padding_counted=is_padding_counted, is_summed=bool(divisor)
        )
        if divisor:
            x = b.ew("multiply", b.convert(x, "float32"), 1.0 / divisor)
        if is_backward:
            if _equal_windows(source.shape[-rank:], x.shape[-rank:]) == windows:
                factor = 1.0 if divisor else 1.0 / prod(windows.kernel)
                return _copy_to_windows(b, x, windows, factor)
            return _resample_back(b, x, source.shape[-rank:], matrix)
        if _is_uniform(
            windows, x.shape, b.result_types[0].shape, is_padding_counted=is_padding_counted
        ):
            return _sum_windows(b, x, windows, 1.0 if divisor else 1.0 / prod(windows.kernel))
        return _resample(b, x, rank, matrix)

    return build


def _is_uniform(windows: Windows, shape: Sizes, result: Sizes, *, is_padding_counted: bool) -> bool:
    """True if all windows are divided by the same number of elements."""
    rank = windows.rank
    overhangs = windows.overhang(shape[-rank:], result[-rank:])
    if not is_padding_counted:
        return not any(windows.padding) and max(overhangs) <= 0
    return all(
        output_length <= pad for output_length, pad in zip(overhangs, windows.padding, strict=True)
    )


def _sum_windows(b: Build, x: Value, windows: Windows, factor: float) -> Value:
    """The sum of each window times a number."""
    window_counts = b.result_types[0].shape[-windows.rank :]
    values = b.convert(x, "float32")
    sums = b.graph.apply(windows.reduction("add", values.shape, window_counts), values)
    return b.as_result(b.ew("multiply", sums, factor))


def _copy_to_windows(b: Build, grad: Value, windows: Windows, factor: float) -> Value:
    """Each element times a number, at every place of its window; windows lie side by side."""
    copies = b.ew("multiply", b.convert(grad, "float32"), factor)
    outer_rank = len(grad.shape) - windows.rank
    for dim, count in enumerate(windows.kernel, outer_rank):
        shape = copies.shape
        rows = b.graph.reshape(copies, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
        if count > 1:
            rows = b.graph.concatenate([rows] * count, dim + 1)
        copies = b.graph.reshape(rows, (*shape[:dim], shape[dim] * count, *shape[dim + 1 :]))
    return b.as_result(copies)


def _adaptive_pool(rank: int) -> Decomposition:
    def build(b: Build, x: Value, size: Any) -> Value:
        del size
        lengths = x.shape[-rank:]
        if prod(b.result_types[0].shape[-rank:]) == 1:
            dims = range(len(x.shape) - rank, len(x.shape))
            sums = b.reduce("add", b.convert(x, "float32"), dims, keeps_dims=True)
            return b.as_result(b.ew("multiply", sums, 1.0 / prod(lengths)))
        windows = _equal_windows(lengths, b.result_types[0].shape[-rank:])
        if windows is not None:
            return _sum_windows(b, x, windows, 1.0 / prod(windows.kernel))
        return _resample(b, x, rank, _adaptive_windows)

    return build


def _equal_windows(lengths: Sizes, counts: Sizes) -> Windows | None:
    """The windows that divide dimensions into equal parts; None if the lengths do not divide."""
    if any(length % count for length, count in zip(lengths, counts, strict=True)):
        return None
    kernel = tuple(length // count for length, count in zip(lengths, counts, strict=True))
    return Windows(kernel, kernel, (0,) * len(kernel), (1,) * len(kernel))


def _adaptive_gradient(rank: int) -> Decomposition:
    """The gradient of adaptive pooling, copied where windows are equal."""
    by_matrix = _resampling_gradient(rank, lambda: _adaptive_windows)

    def build(b: Build, grad: Value, x: Value) -> Value:
        windows = _equal_windows(x.shape[-rank:], grad.shape[-rank:])
        if windows is None:
            result: Value = by_matrix(b, grad, x)
            return result
        return _copy_to_windows(b, grad, windows, 1.0 / prod(windows.kernel))

    return build


def _resampling_gradient(rank: int, matrix_of: Callable[..., Matrix]) -> Decomposition:
    """The gradient for an input x, by the matrix that the remaining arguments define."""

    def build(b: Build, grad: Value, x: Value, *arguments: Any) -> Value:
        return _resample_back(b, grad, x.shape[-rank:], matrix_of(*arguments))

    return build


def _source_positions(
    b: Build,
    columns: Value,
    input_length: int,
    output_length: int,
    scale: float | None,
    *,
    is_aligned: bool,
) -> Value:
    """The position that each column reads; corners coincide if `is_aligned`, else pixel edges."""
    if is_aligned:
        return _affine(
            b, columns, (input_length - 1) / (output_length - 1) if output_length > 1 else 0.0
        )
    step = 1 / scale if scale else input_length / output_length
    return _affine(b, columns, step, (step - 1) / 2)


def _linear_matrix(scales: Sequence[float | None], *, is_aligned: bool) -> Matrix:
    """The two nearest elements, weighted by their distance."""

    def matrix(b: Build, dim: int, input_length: int, output_length: int) -> Value:
        rows, columns = _row_and_column(b, input_length, output_length)
        position = _source_positions(
            b, columns, input_length, output_length, scales[dim], is_aligned=is_aligned
        )
        position = _clamp(b, position, 0, input_length - 1)
        distance = b.ew("abs", b.ew("subtract", rows, position))
        return b.ew("maximum", b.ew("subtract", 1.0, distance), 0.0)

    return matrix


_CUBIC_SLOPE: Final = -0.75  # the slope at 1 of PyTorch's cubic convolution


def _cubic_matrix(scales: Sequence[float | None], *, is_aligned: bool) -> Matrix:
    """Four elements by cubic convolution; elements beyond an end repeat it."""

    def matrix(b: Build, dim: int, input_length: int, output_length: int) -> Value:
        rows, columns = _row_and_column(b, input_length, output_length)
        position = _source_positions(
            b, columns, input_length, output_length, scales[dim], is_aligned=is_aligned
        )
        floor = b.ew("floor", position)
        fraction = b.ew("subtract", position, floor)
        terms: list[Value] = []
        for tap in (-1, 0, 1, 2):
            source_rows = _clamp(b, b.ew("add", floor, float(tap)), 0, input_length - 1)
            distance = b.ew("abs", b.ew("subtract", fraction, float(tap)))
            weight = _cubic_near(b, distance) if tap in (0, 1) else _cubic_far(b, distance)
            terms.append(b.ew("multiply", _one_hot(b, rows, source_rows), weight))
        return b.total(terms)

    return matrix


def _cubic_near(b: Build, t: Value) -> Value:
    """``(a + 2) t**3 - (a + 3) t**2 + 1``, up to 1."""
    terms = b.ew(
        "multiply", _affine(b, t, _CUBIC_SLOPE + 2, -(_CUBIC_SLOPE + 3)), b.ew("square", t)
    )
    return b.ew("add", terms, 1.0)


def _cubic_far(b: Build, t: Value) -> Value:
    """``a (t**3 - 5 t**2 + 8 t - 4)``, from 1 to 2."""
    factor = b.ew("add", b.ew("multiply", b.ew("subtract", t, 5.0), t), 8.0)
    return b.ew("multiply", b.ew("subtract", b.ew("multiply", factor, t), 4.0), _CUBIC_SLOPE)


def _nearest_matrix(scales: Sequence[float | None], *, is_centred: bool) -> Matrix:
    """The element at or before the position that a column reads."""

    def matrix(b: Build, dim: int, input_length: int, output_length: int) -> Value:
        rows, columns = _row_and_column(b, input_length, output_length)
        scale = scales[dim]
        step = 1 / scale if scale else input_length / output_length
        shift = step / 2 if is_centred else 0.0
        position = b.ew(
            "floor", _affine(b, columns, step, shift + _QUOTIENT_GUARD / (4 * output_length))
        )
        return _one_hot(b, rows, _clamp(b, position, 0, input_length - 1))

    return matrix


Sampler = Callable[..., Matrix]
"""From the scale of each dimension, and options, to the matrix of an interpolation."""


def _scales(arguments: Sequence[Any], rank: int) -> list[float | None]:
    """The scale of each dimension, None without one; `arguments` are a list or single scales."""
    flat_scales = [
        part
        for argument in arguments
        for part in (argument if isinstance(argument, list) else [argument])
    ]
    return [*flat_scales[:rank], *[None] * (rank - len(flat_scales))]


def _upsample(rank: int, sampler: Sampler, option: str = "") -> Decomposition:
    """Upsampling; `option` is the sampler's name of the operator's third argument, "" for none."""

    def build(b: Build, x: Value, size: Any, *arguments: Any) -> Value:
        del size
        options = {option: arguments[0]} if option else {}
        scales = _scales(arguments[1:] if option else arguments, rank)
        return _resample(b, x, rank, sampler(scales, **options))

    return build


def _upsample_nearest(rank: int, sampler: Sampler) -> Decomposition:
    """A broadcast if each element is copied an integral number of times, else a matrix."""
    by_matrix = _upsample(rank, sampler)

    def build(b: Build, x: Value, size: Any, *arguments: Any) -> Value:
        lengths = b.result_types[0].shape[-rank:]
        outer_lengths, inner_lengths = x.shape[:-rank], x.shape[-rank:]
        copy_counts = [
            output_length // input_length
            for input_length, output_length in zip(inner_lengths, lengths, strict=True)
        ]
        scales = zip(_scales(arguments, rank), copy_counts, strict=True)
        is_integral = all(
            n * k == output_length
            for n, k, output_length in zip(inner_lengths, copy_counts, lengths, strict=True)
        )
        if not is_integral or any(scale not in (None, count) for scale, count in scales):
            result: Value = by_matrix(b, x, size, *arguments)
            return result
        shape = [
            *outer_lengths,
            *(n for pair in zip(inner_lengths, copy_counts, strict=True) for n in pair),
        ]
        dims = [*range(len(outer_lengths)), *range(len(outer_lengths), len(shape), 2)]
        return b.as_result(
            b.graph.reshape(b.graph.broadcast_in_dim(x, shape, dims), (*outer_lengths, *lengths))
        )

    return build


def _upsample_nearest_backward(rank: int, sampler: Sampler) -> Decomposition:
    """Sums of windows if each element was copied an integral number of times, else a matrix."""
    by_matrix = _upsample_backward(rank, sampler)

    def build(b: Build, grad: Value, size: Any, input_sizes: Sizes, *arguments: Any) -> Value:
        windows = _equal_windows(grad.shape[-rank:], input_sizes[-rank:])
        scales = _scales(arguments, rank)
        if windows is None or any(
            scale not in (None, count) for scale, count in zip(scales, windows.kernel, strict=True)
        ):
            result: Value = by_matrix(b, grad, size, input_sizes, *arguments)
            return result
        return _sum_windows(b, grad, windows, 1.0)

    return build


def _upsample_backward(rank: int, sampler: Sampler, option: str = "") -> Decomposition:
    def build(b: Build, grad: Value, size: Any, input_sizes: Sizes, *arguments: Any) -> Value:
        del size
        options = {option: arguments[0]} if option else {}
        scales = _scales(arguments[1:] if option else arguments, rank)
        return _resample_back(b, grad, input_sizes[-rank:], sampler(scales, **options))

    return build


def _end_copy_matrix(padding: Sizes, *, is_mirrored: bool) -> Matrix:
    """Padding that repeats the ends, or mirrors the inside at them."""

    def matrix(b: Build, dim: int, input_length: int, output_length: int) -> Value:
        rows, columns = _row_and_column(b, input_length, output_length)
        low = padding[len(padding) - 2 - 2 * dim]  # the last dimension comes first
        position = b.ew("add", columns, -float(low))
        if is_mirrored:
            distance_from_end = b.ew("subtract", float(input_length - 1), b.ew("abs", position))
            position = b.ew("subtract", float(input_length - 1), b.ew("abs", distance_from_end))
        return _one_hot(b, rows, _clamp(b, position, 0, input_length - 1))

    return matrix


def _copying_pad(rank: int, matrix_of: Callable[..., Matrix]) -> Decomposition:
    def build(b: Build, x: Value, padding: Sizes) -> Value:
        return _resample(b, x, rank, matrix_of(padding))

    return build


_LINEAR_UPSAMPLING: Final = {
    1: "upsample_linear1d",
    2: "upsample_bilinear2d",
    3: "upsample_trilinear3d",
}


def _operators_of_rank(rank: int) -> dict[str, Decomposition]:
    """The operators on 1, 2 or 3 dimensions."""
    operators: dict[str, Decomposition] = {
        f"avg_pool{rank}d": _average_pool(rank),
        f"avg_pool{rank}d_backward": _average_pool(rank, is_backward=True),
        _LINEAR_UPSAMPLING[rank]: _upsample(rank, _linear_matrix, "is_aligned"),
        f"{_LINEAR_UPSAMPLING[rank]}_backward": _upsample_backward(
            rank, _linear_matrix, "is_aligned"
        ),
    }
    for name in (f"adaptive_avg_pool{rank}d", f"_adaptive_avg_pool{rank}d"):
        operators[name] = _adaptive_pool(rank)
        operators[f"{name}_backward"] = _adaptive_gradient(rank)
    for name, sampler in (
        (f"upsample_nearest{rank}d", partial(_nearest_matrix, is_centred=False)),
        (f"_upsample_nearest_exact{rank}d", partial(_nearest_matrix, is_centred=True)),
    ):
        operators[name] = _upsample_nearest(rank, sampler)
        operators[f"{name}_backward"] = _upsample_nearest_backward(rank, sampler)
    for name, is_mirrored in (("reflection", True), ("replication", False)):
        matrix_of = partial(_end_copy_matrix, is_mirrored=is_mirrored)
        operators[f"{name}_pad{rank}d"] = _copying_pad(rank, matrix_of)
        operators[f"{name}_pad{rank}d_backward"] = _resampling_gradient(rank, matrix_of)
    return operators


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    **_operators_of_rank(1),
    **_operators_of_rank(2),
    **_operators_of_rank(3),
    "upsample_bicubic2d": _upsample(2, _cubic_matrix, "is_aligned"),
    "upsample_bicubic2d_backward": _upsample_backward(2, _cubic_matrix, "is_aligned"),
}
