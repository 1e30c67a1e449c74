"""Operators that move, choose, repeat or make elements: copies, joins, indexing, filling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.graph import TensorType, Value
from trnsim.torch.importer.build import Build, Importer, Unlowered


def copied(b: Build, x: Value, *_: Any, **__: Any) -> Value:
    """A dense copy, in the dtype of the result."""
    wanted = b.results[0] if b.results else x.type
    value = b.spread(x, wanted.shape)
    if value.dtype != wanted.dtype or value.number < len(b.graph.inputs):
        return b.ew("convert", value, dtype=wanted.dtype)
    return value


def copied_onto(b: Build, target: Value, x: Value, *_: Any) -> Value:
    """X in the shape and dtype of a tensor that it replaces."""
    del target
    return copied(b, x)


def scalar(b: Build, number: float, **_: Any) -> Value:
    """A tensor of one number, without dimensions."""
    return b.filled(float(number), b.results[0])


def cat(b: Build, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors one after the other along `dim`."""
    wanted = b.results[0]
    parts = [b.convert(part, wanted.dtype) for part in tensors if part.shape != (0,)]
    return b.graph.add("concatenate", parts, wanted, dim=dim % len(wanted.shape))


def stack(b: Build, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors one after the other along a new dimension."""
    place = dim % len(b.results[0].shape)
    parts = [b.graph.reshape(x, (*x.shape[:place], 1, *x.shape[place:])) for x in tensors]
    return cat(b, parts, place)


def embedding(b: Build, table: Value, indices: Value, *_: Any, **__: Any) -> Value:
    """Rows of a table."""
    return b.graph.gather(table, indices)


def embedding_backward(
    b: Build, grad: Value, indices: Value, count: int, padding: int = -1, by_count: bool = False
) -> Value:
    """Each row's gradient, added to its row of a table of zeros."""
    del count, padding
    if by_count:
        raise Unlowered("gradients scaled by frequency")
    return b.graph.scatter(b.results[0], indices, grad)


def index_select(b: Build, x: Value, dim: int, index: Value) -> Value:
    """Rows along `dim`."""
    rank = len(x.shape)
    order = [dim % rank, *(d for d in range(rank) if d != dim % rank)]
    rows = b.graph.transpose(x, order)
    chosen = b.graph.gather(rows, index)
    return b.graph.transpose(chosen, [order.index(d) for d in range(rank)])


def index(b: Build, x: Value, indices: Sequence[Value | None]) -> Value:
    """``x[i]`` by one tensor of integers, along any dimension."""
    given = [(dim, i) for dim, i in enumerate(indices) if i is not None]
    if len(given) != 1 or given[0][1].dtype == "uint8":
        raise Unlowered("indexing by several tensors or by a mask")
    dim, places = given[0]
    if dim == 0:
        return b.graph.gather(x, places)
    if len(places.shape) == 1:
        return index_select(b, x, dim, places)
    raise Unlowered("indexing an inner dimension by a matrix")


def filled(b: Build, x: Any = None, number: Any = 0, **_: Any) -> Value:
    """A tensor of one number."""
    del x
    return b.filled(0.0 if isinstance(number, Value) else float(number), b.results[0])


def _constant(number: float) -> Importer:
    def build(b: Build, *_: Any, **__: Any) -> Value:
        return b.filled(number, b.results[0])

    return build


def full(b: Build, shape: Any, number: float, **_: Any) -> Value:
    """A tensor of one number."""
    del shape
    return b.filled(float(number), b.results[0])


def arange(b: Build, *bounds: float, **_: Any) -> Value:
    """start, start + step, ..."""
    numbers = [n for n in bounds if not isinstance(n, Value)]
    start, step = (0.0, 1.0) if len(numbers) < 2 else (float(numbers[0]), 1.0)  # noqa: PLR2004
    if len(numbers) > 2:  # noqa: PLR2004  start, end, step
        step = float(numbers[2])
    count = b.graph.iota(b.results[0].shape, 0)
    scaled = b.ew("multiply", count, step, dtype=b.results[0].dtype)
    return b.result(b.ew("add", scaled, start, dtype=b.results[0].dtype))


def _triangle(direction: str) -> Importer:
    """Elements on one side of a diagonal, zeros elsewhere."""

    def build(b: Build, x: Value, diagonal: int = 0) -> Value:
        rank = len(x.shape)
        row, column = (b.graph.iota(x.shape, dim) for dim in (rank - 2, rank - 1))
        apart = b.ew("subtract", column, row)
        kept = b.ew("compare", apart, float(diagonal), dtype="uint8", direction=direction)
        return b.result(b.ew("select", kept, x, 0.0, dtype=x.dtype))

    return build


def pad(b: Build, x: Value, padding: Sequence[int], number: float = 0) -> Value:
    """X with a number around it."""
    for place, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
        dim = len(x.shape) - 1 - place
        if before < 0 or after < 0:
            raise Unlowered("padding that takes away")
        sides = [
            b.filled(float(number), TensorType((*x.shape[:dim], n, *x.shape[dim + 1 :]), x.dtype))
            if n
            else None
            for n in (before, after)
        ]
        parts = [part for part in (sides[0], x, sides[1]) if part is not None]
        if len(parts) > 1:
            shape = (*x.shape[:dim], x.shape[dim] + before + after, *x.shape[dim + 1 :])
            x = b.graph.add("concatenate", parts, TensorType(shape, x.dtype), dim=dim)
    return x


def repeat(b: Build, x: Value, times: Sequence[int]) -> Value:
    """x, several times along each dimension."""
    rank = len(times)
    own = (1,) * (rank - len(x.shape)) + x.shape
    paired = [n for pair in zip(times, own, strict=True) for n in pair]
    source = b.graph.reshape(x, [n for length in own for n in (1, length)])
    wide = b.graph.broadcast_in_dim(source, paired, range(2 * rank))
    return b.graph.reshape(b.ew("convert", wide), b.results[0].shape)


def view(b: Build, x: Value, *_: Any, **__: Any) -> Value:
    """The same elements in another shape; in a graph, where nothing is a view."""
    return b.graph.reshape(x, b.results[0].shape)


def permute(b: Build, x: Value, dims: Sequence[int]) -> Value:
    """Dimensions in another order."""
    return b.graph.transpose(x, [dim % len(x.shape) for dim in dims])


def transpose(b: Build, x: Value, first: int = 0, second: int = 1) -> Value:
    """Two dimensions swapped."""
    order = list(range(len(x.shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return b.graph.transpose(x, order)


def expand(b: Build, x: Value, *_: Any, **__: Any) -> Value:
    """X repeated along dimensions of length 1."""
    return b.spread(x, b.results[0].shape)


def slice_(
    b: Build, x: Value, dim: int = 0, start: int | None = 0, end: int | None = None, step: int = 1
) -> Value:
    """Elements of `dim` from start to end."""
    del end
    dim %= len(x.shape)
    first = (start or 0) + (x.shape[dim] if (start or 0) < 0 else 0)
    return _cut(b, x, dim, min(first, x.shape[dim]), step, b.results[0])


def _cut(b: Build, x: Value, dim: int, start: int, step: int, result: TensorType) -> Value:
    if result.shape == x.shape:
        return x
    starts = tuple(start if d == dim else 0 for d in range(len(x.shape)))
    strides = tuple(step if d == dim else 1 for d in range(len(x.shape)))
    return b.graph.add("slice", (x,), result, starts=starts, strides=strides)


def select(b: Build, x: Value, dim: int, place: int) -> Value:
    """One place along `dim`, which goes away."""
    dim %= len(x.shape)
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    cut = _cut(b, x, dim, place % x.shape[dim], 1, TensorType(shape, x.dtype))
    return b.graph.reshape(cut, b.results[0].shape)


def split(b: Build, x: Value, sizes: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    """Pieces along `dim`."""
    del sizes
    dim, place = dim % len(x.shape), 0
    found: list[Value] = []
    for wanted in b.results:
        found.append(_cut(b, x, dim, place, 1, TensorType(wanted.shape, x.dtype)))
        place += wanted.shape[dim]
    return tuple(found)


def slice_backward(
    b: Build, grad: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    """The gradient in its place, zeros around it."""
    if step != 1:
        raise Unlowered("the gradient of a slice with a step")
    del end
    dim %= len(sizes)
    after = sizes[dim] - start - grad.shape[dim]
    return pad(b, grad, [0, 0] * (len(sizes) - 1 - dim) + [start, after])


def select_backward(b: Build, grad: Value, sizes: Sequence[int], dim: int, place: int) -> Value:
    """The gradient in its place, zeros around it."""
    dim %= len(sizes)
    shape = (*grad.shape[:dim], 1, *grad.shape[dim:])
    start = place % sizes[dim]
    return slice_backward(b, b.graph.reshape(grad, shape), sizes, dim, start, start + 1, 1)


IMPORTERS: Final[dict[str, Importer]] = {
    "clone": copied,
    "_copy_from": copied,
    "copy": copied_onto,
    "cat": cat,
    "stack": stack,
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
    "index_select": index_select,
    "index": index,
    "fill": filled,
    "zero": _constant(0.0),
    "zeros": _constant(0.0),
    "zeros_like": _constant(0.0),
    "ones_like": _constant(1.0),
    "ones": _constant(1.0),
    "full": full,
    "full_like": filled,
    "scalar_tensor": scalar,
    "arange": arange,
    "tril": _triangle("LE"),
    "triu": _triangle("GE"),
    "constant_pad_nd": pad,
    "repeat": repeat,
    "view": view,
    "_unsafe_view": view,
    "reshape": view,
    "unsqueeze": view,
    "squeeze": view,
    "permute": permute,
    "transpose": transpose,
    "t": transpose,
    "expand": expand,
    "slice": slice_,
    "select": select,
    "split": split,
    "split_with_sizes": split,
    "slice_backward": slice_backward,
    "select_backward": select_backward,
    "alias": expand,
    "detach": expand,
}
