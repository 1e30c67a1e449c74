"""Elements by index: `gather` and `scatter` in their many forms, `x[i]`, embeddings.

Computed indices go to DMA descriptors or to the GpSimd Engine, as on the chip. Masks as indices
have no decomposition: the shapes of their results depend on values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import flat_indices, gather_along_rows, linear_index, move_dim
from trnsim.graph.ops.reductions import neutral
from trnsim.graph.types import dense
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

Indices = Sequence[Value | None]


def _wrap_negative(b: Build, positions: Value, length: int) -> Value:
    """Indices with `length` added where they are negative."""
    is_negative = b.ew("compare", positions, 0.0, dtype="bool", direction="LT")
    return b.ew(
        "select", is_negative, b.ew("add", positions, float(length)), positions, dtype="int32"
    )


def gather(b: Build, x: Value, dim: int, index: Value, **_: Any) -> Value:
    """``x[.., index[.., i, ..], ..]`` along one dimension."""
    if not x.shape:
        return b.as_result(x)
    index_1d = b.graph.reshape(index, index.shape or (1,))
    lengths = [n if d != dim % len(x.shape) else x.shape[d] for d, n in enumerate(index_1d.shape)]
    part = b.graph.slice(x, [0] * len(lengths), lengths)
    rows = gather_along_rows(b, move_dim(b, part, dim, -1), move_dim(b, index_1d, dim, -1))
    return b.graph.reshape(move_dim(b, rows, -1, dim), b.result_types[0].shape)


def _scatter_along(b: Build, x: Value, dim: int, index: Value, updates: Any, op: str) -> Value:
    """`x` with updates written, or combined, at the indices along `dim`."""
    if _are_few_updates(x, dim, index, op):
        return _select_along(b, x, dim % len(x.shape), index, updates, op)
    shape = x.shape or (1,)
    base_1d, positions = b.graph.reshape(x, shape), b.graph.reshape(index, index.shape or (1,))
    base, positions = move_dim(b, base_1d, dim, -1), move_dim(b, positions, dim, -1)
    count = positions.type.elements
    if isinstance(updates, Value):
        part = b.graph.reshape(updates, updates.shape or (1,))
        part = b.graph.slice(
            move_dim(b, part, dim, -1), [0] * len(positions.shape), positions.shape
        )
    else:
        part = b.filled(float(updates), TensorType(positions.shape, x.dtype))
    rows = b.graph.scatter(
        b.graph.reshape(base, (x.type.elements,)),
        b.graph.reshape(flat_indices(b, positions, base.shape), (count,)),
        b.graph.reshape(b.convert(part, x.dtype), (count,)),
        op,
    )
    return b.graph.reshape(move_dim(b, b.graph.reshape(rows, base.shape), -1, dim), x.shape)


_FEW_UPDATES: Final = 8
"""Maximum number of updates of a row for which each update computes all elements of the row."""
_SHORT_ROW: Final = 1024
"""Maximum length of such a row.

An engine computes so many elements in the time in which a transfer by index waits for the one
before it.
"""


def _are_few_updates(x: Value, dim: int, index: Value, op: str) -> bool:
    """True if choosing at each element takes less time than transfers by index, one by one."""
    if not x.shape or len(index.shape) != len(x.shape):
        return False
    dim %= len(x.shape)
    pairs = enumerate(zip(x.shape, index.shape, strict=True))
    is_whole = all(length == part or d == dim for d, (length, part) in pairs)
    is_exact = op == "assign" or (op == "add" and x.type.is_floating)
    is_short = 0 < index.shape[dim] <= _FEW_UPDATES and x.shape[dim] <= _SHORT_ROW
    return is_whole and is_exact and is_short


def _select_along(b: Build, x: Value, dim: int, index: Value, updates: Any, op: str) -> Value:
    """`_scatter_along` by comparing the number of each element with the indices of its row."""
    counts, other_dims = b.graph.iota(x.shape, dim), [d for d in range(len(x.shape)) if d != dim]

    def along_row(value: Value, number: int) -> Value:
        """One element of each row, repeated along the row."""
        column = b.sliced(value, dim, number, 1)
        column = b.graph.reshape(column, [value.shape[d] for d in other_dims])
        return b.graph.broadcast_in_dim(column, x.shape, other_dims)

    if isinstance(updates, Value):
        updates = b.graph.slice(updates, [0] * len(index.shape), index.shape)
    dtype, result = "float32" if op == "add" else x.dtype, x
    for number in range(index.shape[dim]):
        is_match = b.ew("compare", counts, along_row(index, number), dtype="bool", direction="EQ")
        update = along_row(updates, number) if isinstance(updates, Value) else float(updates)
        alternative = result if op == "assign" else 0.0
        selection = b.ew("select", is_match, update, alternative, dtype=dtype)
        result = selection if op == "assign" else b.ew("add", result, selection, dtype=dtype)
    return b.convert(result, x.dtype)


_COMBINATIONS: Final = {
    "add": "add",
    "sum": "add",
    "mean": "add",
    "multiply": "multiply",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


def scatter(
    b: Build, x: Value, dim: int, index: Value, updates: Any = 0, *, reduce: str = "", **kw: Any
) -> Value:
    """`x` with elements written, or combined, at the positions of an index."""
    op = _COMBINATIONS[reduce] if reduce else "assign"
    return _scatter_along(b, x, dim, index, kw.get("value", updates), op)


def scatter_add(b: Build, x: Value, dim: int, index: Value, updates: Value) -> Value:
    """`x` with elements added."""
    return _scatter_along(b, x, dim, index, updates, "add")


def scatter_reduce(
    b: Build,
    x: Value,
    dim: int,
    index: Value,
    updates: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """`x` with updates combined, without the updated elements' old values unless `include_self`."""
    op = _COMBINATIONS[reduce]
    base = b.convert(x, "float32") if reduce == "mean" else x
    if not include_self:
        zeros = b.filled(0.0, TensorType(x.shape, "float32"))
        is_hit = _scatter_along(b, zeros, dim, index, 1.0, "assign")
        neutral_value = float(neutral(op, base.type.numpy_dtype()))
        base = b.ew("select", is_hit, neutral_value, base, dtype=base.dtype)
    result = _scatter_along(b, base, dim, index, updates, op)
    if reduce == "mean":
        start = b.filled(float(include_self), TensorType(x.shape, "float32"))
        count = _scatter_along(b, start, dim, index, 1.0, "add")
        result = b.ew("divide", result, b.ew("maximum", count, 1.0))
        if not x.type.is_floating:
            result = b.ew("floor", result)
    return b.as_result(result)


class _IndexedTensor:
    """`x` and the indices of ``x[i]``, with the indexed dimensions of `x` first and merged.

    Attributes:
        order: dimensions of x, the indexed ones first.
        indexed_first: x in that order.
        rest_lengths: lengths of the other dimensions.
        table: `indexed_first` with the indexed dimensions as rows.
        positions: the row of `table` for each element of the broadcast indices.
        result_order: dimensions of the gathered rows in the order of the result.
    """

    def __init__(self, b: Build, x: Value, indices: Indices) -> None:
        index_by_dim = {dim: i for dim, i in enumerate(indices) if i is not None}
        if any(i.dtype in ("bool", "uint8") for i in index_by_dim.values()):
            raise Unlowered("a mask as an index: the shape of its result depends on values")
        dims, rank = list(index_by_dim), len(x.shape)
        other_dims = [dim for dim in range(rank) if dim not in index_by_dim]
        shape = b.broadcast_shape(list(index_by_dim.values()))
        dim_indices = [
            b.broadcast(_wrap_negative(b, i, x.shape[dim]), shape)
            for dim, i in index_by_dim.items()
        ]
        lengths = [x.shape[dim] for dim in dims]
        self.order = [*dims, *other_dims]
        self.indexed_first = b.graph.transpose(x, self.order)
        self.rest_lengths = tuple(x.shape[dim] for dim in other_dims)
        self.table = b.graph.reshape(self.indexed_first, (prod(lengths), *self.rest_lengths))
        self.positions = b.graph.reshape(linear_index(b, dim_indices, lengths), shape)
        # Neighbours stay where they were; indices with dimensions between them come first.
        is_block = dims == list(range(dims[0], dims[0] + len(dims)))
        leading_count = dims[0] if is_block else 0
        count = len(shape)
        axes = range(count + len(other_dims))
        self.result_order = [
            *axes[count : count + leading_count],
            *axes[:count],
            *axes[count + leading_count :],
        ]


def index(b: Build, x: Value, indices: Indices) -> Value:
    """``x[i, ...]`` by tensors of integers, along any dimensions."""
    indexed_tensor = _IndexedTensor(b, x, indices)
    return b.graph.transpose(
        b.graph.gather(indexed_tensor.table, indexed_tensor.positions), indexed_tensor.result_order
    )


def index_put(
    b: Build, x: Value, indices: Indices, values: Value, accumulate: bool = False, *_: Any
) -> Value:
    """``x[i, ...] = values``, or ``+=``; a mask with a single number is a select."""
    mask = indices[0] if indices else None
    if mask is not None and mask.dtype in ("bool", "uint8"):
        if len(indices) > 1 or values.type.elements != 1:
            raise Unlowered("a mask as an index: which value goes where depends on values")
        broadcast_mask = b.graph.broadcast_in_dim(mask, x.shape, range(len(mask.shape)))
        number = b.broadcast(b.graph.reshape(values, ()), x.shape)
        replacement = b.ew("add", x, number) if accumulate else number
        return b.as_result(b.ew("select", broadcast_mask, replacement, x, dtype=x.dtype))
    indexed_tensor = _IndexedTensor(b, x, indices)
    lengths = (*indexed_tensor.positions.shape, *indexed_tensor.rest_lengths)
    shape = tuple(lengths[dim] for dim in indexed_tensor.result_order)
    inverse_order = [indexed_tensor.result_order.index(dim) for dim in range(len(lengths))]
    updates = b.graph.transpose(
        b.ew("convert", b.broadcast(values, shape), dtype=x.dtype), inverse_order
    )
    flat_updates = b.graph.reshape(
        updates, (indexed_tensor.positions.type.elements, *indexed_tensor.rest_lengths)
    )
    positions = b.graph.reshape(indexed_tensor.positions, flat_updates.shape[:1])
    table = b.graph.scatter(
        indexed_tensor.table, positions, flat_updates, "add" if accumulate else "assign"
    )
    table = b.graph.reshape(table, indexed_tensor.indexed_first.shape)
    return b.graph.transpose(
        table, [indexed_tensor.order.index(dim) for dim in range(len(x.shape))]
    )


def index_select(b: Build, x: Value, dim: int, index: Value) -> Value:
    """Rows of x along `dim`, by index."""
    if not x.shape:
        return b.as_result(x)
    positions = b.graph.reshape(index, index.shape or (1,))
    return move_dim(b, b.graph.gather(move_dim(b, x, dim, 0), positions), 0, dim)


def _row_scatter(op: str) -> Decomposition:
    """index_add, index_copy, index_fill: rows of x replaced by, or increased by, `updates`."""

    def build(
        b: Build, x: Value, dim: int, index: Value, updates: Any, *, alpha: float = 1
    ) -> Value:
        shape = x.shape or (1,)
        rows_first = move_dim(b, b.graph.reshape(x, shape), dim, 0)
        positions = b.graph.reshape(index, (index.type.elements,))
        rows_type = TensorType((positions.shape[0], *rows_first.shape[1:]), x.dtype)
        if not isinstance(updates, Value):
            rows = b.filled(float(updates), rows_type)
        elif updates.shape:
            rows = b.convert(move_dim(b, updates, dim, 0), x.dtype)
        else:
            rows = b.broadcast(b.convert(updates, x.dtype), rows_type.shape)
        if alpha != 1:
            rows = b.ew("multiply", rows, float(alpha))
        result = b.graph.scatter(
            rows_first, _wrap_negative(b, positions, rows_first.shape[0]), rows, op
        )
        return b.graph.reshape(move_dim(b, result, 0, dim), x.shape)

    return build


def take(b: Build, x: Value, index: Value) -> Value:
    """Elements of the flattened `x`."""
    flat_x = b.graph.reshape(x, (x.type.elements,))
    return b.graph.gather(flat_x, _wrap_negative(b, index, x.type.elements))


def masked_scatter(b: Build, x: Value, mask: Value, source: Value) -> Value:
    """`x` with the elements of a source, in order, where the mask is true."""
    if not source.type.elements:
        return b.ew("convert", x)
    broadcast_mask, true_ranks = _mask_and_ranks(b, mask, x.shape)
    ranks = b.ew("maximum", true_ranks, 0.0)
    positions = b.graph.reshape(b.convert(ranks, "int32"), (x.type.elements,))
    positions = b.ew("minimum", positions, float(source.type.elements - 1), dtype="int32")
    elements = b.graph.gather(b.graph.reshape(source, (source.type.elements,)), positions)
    return b.as_result(
        b.ew("select", broadcast_mask, b.graph.reshape(elements, x.shape), x, dtype=x.dtype)
    )


def _mask_and_ranks(b: Build, mask: Value, shape: Sequence[int]) -> tuple[Value, Value]:
    """A mask broadcast to a shape, and the number of true elements up to each, minus 1 [1, N]."""
    broadcast_mask = b.broadcast(mask, shape)
    is_true = b.ew("compare", broadcast_mask, 0.0, dtype="float32", direction="NE")
    row = b.graph.reshape(is_true, (1, is_true.type.elements))
    return broadcast_mask, b.ew("subtract", b.graph.scan("add", row), 1.0)


def masked_scatter_backward(b: Build, grad: Value, mask: Value, sizes: Sequence[int]) -> Value:
    """The gradient of a source: `grad` at the elements where the mask is true, then zeros."""
    elements, count = grad.type.elements, prod(sizes)
    broadcast_mask, true_ranks = _mask_and_ranks(b, mask, grad.shape)
    is_held = b.graph.reshape(broadcast_mask, (1, elements))
    ranks = b.ew("select", is_held, true_ranks, float(count), dtype="float32")
    positions = b.graph.reshape(ranks, (elements,))
    flat_grad = b.graph.reshape(grad, (elements, 1))
    table_type = TensorType((count + 1, 1), grad.dtype)
    table = b.graph.scatter(table_type, b.convert(positions, "int32"), flat_grad, "assign")
    return b.as_result(b.graph.reshape(b.graph.slice(table, (0, 0), (count, 1)), tuple(sizes)))


def as_strided_scatter(
    b: Build,
    x: Value,
    source: Value,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None = None,
) -> Value:
    """`x` with elements at strides replaced; the strides must cover all of x."""
    is_dense = tuple(stride) == dense(tuple(size)) and source.type.elements == x.type.elements
    if offset or not is_dense:
        raise Unlowered("strides that leave elements out")
    return b.as_result(b.graph.reshape(source, x.shape))


def as_strided(
    b: Build, x: Value, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Value:
    """Elements at arbitrary strides, gathered singly."""
    last_offset = sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + (offset or 0)
    if last_offset >= x.type.elements:
        raise Unlowered("strides that leave the tensor")
    return _strided_elements(b, x, size, stride, offset or 0)


def _strided_elements(
    b: Build, x: Value, size: Sequence[int], stride: Sequence[int], offset: int
) -> Value:
    shape = tuple(size) or (1,)
    offsets: Value = b.filled(float(offset), TensorType(shape, "int32"))
    for dim, step in enumerate(stride):
        steps = b.ew("multiply", b.graph.iota(shape, dim), float(step), dtype="int32")
        offsets = b.ew("add", offsets, steps, dtype="int32")
    elements = b.graph.gather(b.graph.reshape(x, (x.type.elements,)), offsets)
    return b.graph.reshape(elements, tuple(size))


def diagonal(b: Build, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    """The diagonal of two dimensions, which becomes the last one."""
    rank = len(x.shape)
    strides = [prod(x.shape[dim + 1 :]) for dim in range(rank)]
    row_dim, column_dim = first % rank, second % rank
    outer_strides = [step for dim, step in enumerate(strides) if dim not in (row_dim, column_dim)]
    start = max(offset, 0) * strides[column_dim] + max(-offset, 0) * strides[row_dim]
    return _strided_elements(
        b,
        x,
        b.result_types[0].shape,
        [*outer_strides, strides[row_dim] + strides[column_dim]],
        start,
    )


def flip(b: Build, x: Value, dims: Sequence[int]) -> Value:
    """`x` reversed along dimensions, one by one.

    Rows of the dimensions behind the reversed one are gathered in reverse order.
    """
    last_dim = len(x.shape) - 1
    for dim in sorted(dim % len(x.shape) for dim in dims):
        is_swapped = dim == last_dim > 0  # rows of single elements would be many
        shape = move_dim(b, x, last_dim, -2).shape if is_swapped else x.shape
        dim_of_rows = dim - 1 if is_swapped else dim
        outer_count, length = prod(shape[:dim_of_rows]), shape[dim_of_rows]
        rows = b.graph.reshape(
            move_dim(b, x, last_dim, -2) if is_swapped else x,
            (outer_count * length, prod(shape[dim_of_rows + 1 :])),
        )
        row_numbers, step = (b.graph.iota((outer_count, length), axis) for axis in (0, 1))
        row_ends = b.ew("add", b.ew("multiply", row_numbers, float(length)), float(length - 1))
        reversed_indices = b.graph.reshape(
            b.ew("subtract", row_ends, step, dtype="int32"), (outer_count * length,)
        )
        reversed_rows = b.graph.reshape(b.graph.gather(rows, reversed_indices), shape)
        x = move_dim(b, reversed_rows, -2, last_dim) if is_swapped else reversed_rows
    return x


def embedding(b: Build, table: Value, indices: Value, *_: Any, **__: Any) -> Value:
    """Rows of a table."""
    return b.graph.gather(table, indices)


def embedding_backward(
    b: Build, grad: Value, indices: Value, count: int, padding: int = -1, by_count: bool = False
) -> Value:
    """Gradients of looked-up rows, added up in a table of zeros; the padding's row stays zero."""
    del count
    if by_count:
        raise Unlowered("gradients scaled by frequency")
    if padding >= 0:
        mask = b.ew("compare", indices, float(padding), dtype="bool", direction="NE")
        broadcast_mask = b.graph.broadcast_in_dim(mask, grad.shape, range(len(mask.shape)))
        grad = b.ew("select", broadcast_mask, grad, 0.0, dtype=grad.dtype)
    return b.graph.scatter(b.result_types[0], indices, grad)


_SUM, _MEAN = 0, 1  # torch.nn.functional.embedding_bag, mode


def embedding_bag(
    b: Build,
    table: Value,
    indices: Value,
    offsets: Value,
    by_count: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    weights: Value | None = None,
    include_last: bool = False,
    padding: int = -1,
) -> tuple[Value, ...]:
    """Sums or means of the rows of each bag, the bag of each index, and the size of each bag."""
    del by_count, sparse
    if mode not in (_SUM, _MEAN) or padding >= 0 or include_last:
        raise Unlowered("bags' maxima, padding or a last offset")
    bags, count = b.result_types[0].shape[0], indices.shape[0]
    row_numbers = b.graph.broadcast_in_dim(b.graph.iota((count,), 0), (count, bags), (0,))
    starts = b.graph.broadcast_in_dim(offsets, (count, bags), (1,))
    is_from_start = b.ew("compare", row_numbers, starts, dtype="float32", direction="GE")
    bag_index = b.ew("subtract", b.graph.reduce("add", is_from_start, (1,)), 1.0)
    rows = b.graph.gather(table, indices)
    if weights is not None:
        rows = b.ew("multiply", rows, b.graph.broadcast_in_dim(weights, rows.shape, (0,)))
    positions = b.convert(bag_index, "int32")
    sums = b.graph.scatter(TensorType(b.result_types[0].shape, "float32"), positions, rows)
    ones = b.filled(1.0, TensorType((count,), "float32"))
    sizes = b.graph.scatter(TensorType((bags,), "float32"), positions, ones)
    if mode == _MEAN:
        divisor = b.ew("maximum", sizes, 1.0)
        sums = b.ew("divide", sums, b.graph.broadcast_in_dim(divisor, sums.shape, (0,)))
    return (b.as_result(sums), *_bag_outputs(b, positions, sizes))


def _bag_outputs(b: Build, positions: Value, sizes: Value) -> tuple[Value, ...]:
    """Values saved for the backward pass; PyTorch omits values that its mode does not need."""
    outputs = list[Value]()
    for result_type, value in zip(b.result_types[1:], (positions, sizes, sizes), strict=False):
        if result_type.elements:
            if result_type.elements != value.type.elements:
                raise Unlowered("another form of the tensors saved for the backward pass")
            outputs.append(b.convert(value, result_type.dtype))
    return tuple(outputs)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "gather": gather,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "index": index,
    "_unsafe_index": index,
    "index_put": index_put,
    "_index_put_impl": index_put,
    "_unsafe_index_put": index_put,
    "index_select": index_select,
    "index_add": _row_scatter("add"),
    "index_copy": _row_scatter("assign"),
    "index_fill": _row_scatter("assign"),
    "take": take,
    "masked_scatter": masked_scatter,
    "masked_scatter_backward": masked_scatter_backward,
    "as_strided_scatter": as_strided_scatter,
    "as_strided": as_strided,
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "flip": flip,
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
}
