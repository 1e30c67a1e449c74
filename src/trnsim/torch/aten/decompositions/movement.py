"""Operators that move, select, repeat or create elements: copies, joins, slices, fills."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.graph.ops.layout import Concatenate, Reinterpret
from trnsim.torch.aten.decomposition import Decomposition, Unlowered


def copy(b: Build, x: Value, *_: Any, **__: Any) -> Value:
    """A dense copy, in the dtype of the result."""
    result_type = b.result_types[0] if b.result_types else x.type
    value = b.broadcast(x, result_type.shape)
    is_input = value.number < len(b.graph.inputs)
    if value.dtype != result_type.dtype or is_input:
        return b.ew("convert", value, dtype=result_type.dtype)
    return value


def copy_onto(b: Build, target: Value, x: Value, *_: Any) -> Value:
    """``x`` in the shape and dtype of the tensor that it overwrites."""
    del target
    return copy(b, x)


def scalar(b: Build, number: float, **_: Any) -> Value:
    """A number as a tensor without dimensions."""
    return b.filled(float(number), b.result_types[0])


def cat(b: Build, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors concatenated along `dim`."""
    result_type = b.result_types[0]
    parts = [b.convert(part, result_type.dtype) for part in tensors if part.type.elements]
    return b.graph.apply(Concatenate(dim % len(result_type.shape)), *parts)


def stack(b: Build, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors concatenated along a new dimension."""
    index = dim % len(b.result_types[0].shape)
    parts = [b.graph.reshape(x, (*x.shape[:index], 1, *x.shape[index:])) for x in tensors]
    return cat(b, parts, index)


def fill(b: Build, x: Any = None, number: Any = 0, **_: Any) -> Value:
    """A tensor filled with a number, or with the element of a tensor."""
    del x
    if isinstance(number, Value):
        return copy(b, number)
    return b.filled(float(number), b.result_types[0])


def arange(b: Build, *bounds: float, **_: Any) -> Value:
    """``start, start + step, ...``.

    `bounds` are the end; or the start and the end; or the start, the end and the step.
    """
    numbers = [float(n) for n in bounds if not isinstance(n, Value)]
    start = numbers[0] if len(numbers) > 1 else 0.0
    step = (*numbers, 1.0)[2] if len(numbers) > 1 else 1.0
    index = b.graph.iota(b.result_types[0].shape, 0)
    multiples = b.ew("multiply", index, step, dtype=b.result_types[0].dtype)
    return b.as_result(b.ew("add", multiples, start, dtype=b.result_types[0].dtype))


def eye(b: Build, *_: Any, **__: Any) -> Value:
    """1 on the diagonal, 0 elsewhere."""
    row, column = (b.graph.iota(b.result_types[0].shape, dim) for dim in (0, 1))
    return b.as_result(b.ew("compare", row, column, dtype="float32", direction="EQ"))


def unfold(b: Build, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows of `size` elements along a dimension, a new last dimension; one every `step`."""
    if not x.shape:
        return b.as_reshaped_result(x)
    dim %= len(x.shape)
    count = (x.shape[dim] - size) // step + 1
    if size <= count:  # the elements at each place of all windows
        parts = [b.sliced(x, dim, index, count, step) for index in range(size)]
        axis = len(x.shape)
    else:  # the windows, each with its elements in the last dimension
        parts = [
            move_dim(b, b.sliced(x, dim, index * step, size), dim, -1) for index in range(count)
        ]
        axis = dim
    shapes = [(*part.shape[:axis], 1, *part.shape[axis:]) for part in parts]
    expanded_parts = [
        b.graph.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)
    ]
    return b.as_result(b.graph.concatenate(expanded_parts, axis))


def unfold_backward(
    b: Build, grad: Value, shape: Sequence[int], dim: int, size: int, step: int
) -> Value:
    """The sum of windows [*, count, *, size] at their positions, added element by element."""
    if not shape:
        return b.as_reshaped_result(grad)
    terms: list[Value] = []
    for index in range(size):
        window_elements = b.graph.reshape(b.sliced(grad, -1, index, 1), grad.shape[:-1])
        terms.append(slice_backward(b, window_elements, shape, dim, index, None, step))
    return b.as_result(b.total(terms))


def _triangle(direction: str) -> Decomposition:
    """Elements on one side of a diagonal, zeros elsewhere."""

    def build(b: Build, x: Value, diagonal: int = 0) -> Value:
        rank = len(x.shape)
        row, column = (b.graph.iota(x.shape, dim) for dim in (rank - 2, rank - 1))
        offset = b.ew("subtract", column, row)
        mask = b.ew("compare", offset, float(diagonal), dtype="bool", direction=direction)
        return b.as_result(b.ew("select", mask, x, 0.0, dtype=x.dtype))

    return build


def pad(b: Build, x: Value, padding: Sequence[int], number: float = 0) -> Value:
    """``x`` padded with a number.

    `padding` has the lengths before and after the last dimension, then before and after the last
    but one, and so on. A negative length crops.
    """
    unpadded_rank = len(x.shape) - len(padding) // 2
    low_padding, high_padding = (
        [0] * unpadded_rank + list(padding[side::2])[::-1] for side in (0, 1)
    )
    return b.graph.pad(x, low_padding, high_padding, number=float(number))


def repeat(b: Build, x: Value, times: Sequence[int]) -> Value:
    """``x`` repeated several times along each dimension."""
    rank = len(times)
    shape = (1,) * (rank - len(x.shape)) + x.shape
    pair_shape = [n for pair in zip(times, shape, strict=True) for n in pair]
    source = b.graph.reshape(x, [n for length in shape for n in (1, length)])
    broadcast_x = b.graph.broadcast_in_dim(source, pair_shape, range(2 * rank))
    return b.graph.reshape(b.ew("convert", broadcast_x), b.result_types[0].shape)


def view(b: Build, x: Value, *_: Any, **__: Any) -> Value:
    """The same elements in another shape, or the same bytes as another type."""
    result_type = b.result_types[0]
    if result_type.dtype != x.dtype:
        if result_type.nbytes != x.type.nbytes or not x.shape:
            raise Unlowered("a single number, or integers of 64 bits, as another type")
        x = b.graph.apply(Reinterpret(result_type.dtype), x)
    return b.graph.reshape(x, result_type.shape)


def permute(b: Build, x: Value, dims: Sequence[int]) -> Value:
    """Dimensions in another order."""
    return b.graph.transpose(x, [dim % len(x.shape) for dim in dims])


def transpose(b: Build, x: Value, first: int = 0, second: int = 1) -> Value:
    """Two dimensions swapped."""
    order = list(range(len(x.shape)))
    if len(order) > 1:
        order[first], order[second] = order[second], order[first]
    return b.graph.transpose(x, order)


def expand(b: Build, x: Value, *_: Any, **__: Any) -> Value:
    """``x`` repeated along dimensions of length 1."""
    return b.broadcast(x, b.result_types[0].shape)


def slice_(
    b: Build, x: Value, dim: int = 0, start: int | None = 0, end: int | None = None, step: int = 1
) -> Value:
    """Elements of `dim` from start to end."""
    del end
    dim %= len(x.shape)
    start_index = (start or 0) + (x.shape[dim] if (start or 0) < 0 else 0)
    start_index = min(max(start_index, 0), x.shape[dim])
    return b.sliced(x, dim, start_index, b.result_types[0].shape[dim], step)


def select(b: Build, x: Value, dim: int, index: int) -> Value:
    """The slice at an index of `dim`, without this dimension."""
    dim %= len(x.shape)
    return b.graph.reshape(b.sliced(x, dim, index % x.shape[dim], 1), b.result_types[0].shape)


def split(b: Build, x: Value, sizes: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    """Pieces along `dim`."""
    del sizes
    dim, index = dim % len(x.shape), 0
    pieces: list[Value] = []
    for result_type in b.result_types:
        pieces.append(b.sliced(x, dim, index, result_type.shape[dim]))
        index += result_type.shape[dim]
    return tuple(pieces)


def slice_backward(
    b: Build, x: Value, sizes: Sequence[int], dim: int, start: int | None, end: Any, step: int
) -> Value:
    """`x` at the positions of a slice, zeros elsewhere."""
    del end
    dim, length = dim % len(sizes), sizes[dim]
    start_index = min(max((start or 0) + (length if (start or 0) < 0 else 0), 0), length)
    stop = start_index + (x.shape[dim] - 1) * step + 1
    low_padding, high_padding, inner_padding = ([0] * len(sizes) for _ in range(3))
    low_padding[dim], high_padding[dim], inner_padding[dim] = start_index, length - stop, step - 1
    return b.graph.pad(x, low_padding, high_padding, inner_padding)


def slice_scatter(
    b: Build,
    x: Value,
    part: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """``x`` with a slice replaced."""
    if not part.type.elements:
        return b.ew("convert", x)
    ones = b.filled(1, TensorType(part.shape, "bool"))
    mask, padded_part = (
        slice_backward(b, source, x.shape, dim, start, end, step)
        for source in (ones, b.convert(part, x.dtype))
    )
    return b.as_result(b.ew("select", mask, padded_part, x, dtype=x.dtype))


def select_scatter(b: Build, x: Value, part: Value, dim: int, index: int) -> Value:
    """``x`` with the slice at an index of `dim` replaced."""
    dim %= len(x.shape)
    with_dim = b.graph.reshape(part, (*part.shape[:dim], 1, *part.shape[dim:]))
    start = index % x.shape[dim]
    return slice_scatter(b, x, with_dim, dim, start, start + 1)


def diagonal_scatter(
    b: Build, x: Value, part: Value, offset: int = 0, first: int = 0, second: int = 1
) -> Value:
    """``x`` with the diagonal of two dimensions replaced by the last dimension of `part`."""
    rank = len(x.shape)
    row_dim, column_dim = first % rank, second % rank
    if not part.type.elements:
        return b.ew("convert", x)
    # An element of the diagonal has the number of its row, or of its column below the main one.
    number_dim = row_dim if offset >= 0 else column_dim
    outer_dims = [dim for dim in range(rank) if dim not in (row_dim, column_dim)]
    low_padding, inner_padding = [0] * len(part.shape), [0] * len(part.shape)
    high_padding = [*low_padding[:-1], x.shape[number_dim] - part.shape[-1]]
    padded_part = b.graph.pad(b.convert(part, x.dtype), low_padding, high_padding, inner_padding)
    position = sum(dim < number_dim for dim in outer_dims)
    broadcast_part = b.graph.broadcast_in_dim(
        move_dim(b, padded_part, -1, position), x.shape, sorted([*outer_dims, number_dim])
    )
    row, column = (b.graph.iota(x.shape, dim) for dim in (row_dim, column_dim))
    steps = b.ew("subtract", column, row)
    mask = b.ew("compare", steps, float(offset), dtype="bool", direction="EQ")
    return b.as_result(b.ew("select", mask, broadcast_part, x, dtype=x.dtype))


def select_backward(b: Build, grad: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    """The gradient at an index of `dim`, zeros elsewhere."""
    dim %= len(sizes)
    with_dim = b.graph.reshape(grad, (*grad.shape[:dim], 1, *grad.shape[dim:]))
    start = index % sizes[dim]
    return slice_backward(b, with_dim, sizes, dim, start, start + 1, 1)


def roll(b: Build, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """Elements rotated along dimensions: the last become the first."""
    shape = x.shape
    if not dims:
        x, dims = b.graph.reshape(x, (x.type.elements,)), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        axis, length = dim % len(x.shape), x.shape[dim]
        if not length or not shift % length:
            continue
        split_index = length - shift % length
        parts = [
            b.sliced(x, axis, split_index, length - split_index),
            b.sliced(x, axis, 0, split_index),
        ]
        x = b.graph.concatenate(parts, axis)
    return b.graph.reshape(x, shape)


def linspace(b: Build, start: Any, end: Any, steps: int, **_: Any) -> Value:
    """Evenly spaced numbers, both ends included."""
    if isinstance(start, Value) or isinstance(end, Value):
        raise Unlowered("ends that are computed")
    step = (end - start) / max(steps - 1, 1)
    index = b.convert(b.graph.iota(b.result_types[0].shape, 0), "float32")
    return b.as_result(b.ew("add", b.ew("multiply", index, float(step)), float(start)))


def pixel_shuffle(b: Build, x: Value, factor: int) -> Value:
    """Channels as pixels: [*, C * r * r, H, W] becomes [*, C, H * r, W * r].

    The columns of a row are concatenated, so that each transfer has a row and not an element.
    """
    (*batch, channels, height, width), rank = x.shape, len(x.shape) - 3
    blocks = [*batch, channels // factor**2, factor, factor, height, width]
    columns = _columns(b, b.graph.reshape(x, blocks), rank + 2)
    rows = b.graph.concatenate([b.graph.reshape(c, (*c.shape, 1)) for c in columns], rank + 4)
    rows = b.graph.reshape(rows, (*rows.shape[:-2], width * factor))
    order = [*range(rank + 1), rank + 2, rank + 1, rank + 3]
    return b.graph.reshape(b.graph.transpose(rows, order), b.result_types[0].shape)


def pixel_unshuffle(b: Build, x: Value, factor: int) -> Value:
    """Pixels as channels, the inverse of `pixel_shuffle`."""
    (*batch, channels, height, width), rank = x.shape, len(x.shape) - 3
    blocks = [*batch, channels, height // factor, factor, width // factor, factor]
    columns = _columns(b, b.graph.reshape(x, blocks), rank + 4)
    shape = (*columns[0].shape[:-1], 1, columns[0].shape[-1])
    rows = b.graph.concatenate([b.graph.reshape(c, shape) for c in columns], rank + 3)
    order = [*range(rank + 1), rank + 2, rank + 3, rank + 1, rank + 4]
    return b.graph.reshape(b.graph.transpose(rows, order), b.result_types[0].shape)


def _columns(b: Build, x: Value, dim: int) -> list[Value]:
    """The elements at each index of a dimension, without that dimension."""
    lengths = (*x.shape[:dim], *x.shape[dim + 1 :])
    return [b.graph.reshape(b.sliced(x, dim, index, 1), lengths) for index in range(x.shape[dim])]


_VIEWS: Final[dict[str, Decomposition]] = {
    "view": view,
    "permute": permute,
    "slice": slice_,
    "select": select,
    "split": split,
    "detach": expand,
}
DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    **_VIEWS,
    **{f"{name}_copy": decompose for name, decompose in _VIEWS.items()},
    "clone": copy,
    "lift_fresh": copy,
    "lift_fresh_copy": copy,
    "_copy_from": copy,
    "copy": copy_onto,
    "cat": cat,
    "stack": stack,
    "fill": fill,
    "zero": fill,
    "zeros": fill,
    "zeros_like": fill,
    "ones_like": partial(fill, number=1),
    "ones": partial(fill, number=1),
    "full": fill,
    "full_like": fill,
    "scalar_tensor": scalar,
    "arange": arange,
    "eye": eye,
    "tril": _triangle("LE"),
    "unfold": unfold,
    "unfold_backward": unfold_backward,
    "triu": _triangle("GE"),
    "constant_pad_nd": pad,
    "repeat": repeat,
    "_unsafe_view": view,
    "reshape": view,
    "unsqueeze": view,
    "squeeze": view,
    "transpose": transpose,
    "t": transpose,
    "expand": expand,
    "split_with_sizes": split,
    "slice_backward": slice_backward,
    "select_backward": select_backward,
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    "diagonal_scatter": diagonal_scatter,
    "roll": roll,
    "linspace": linspace,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "alias": expand,
}
