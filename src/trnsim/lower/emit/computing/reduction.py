"""Reductions: along columns by the Vector Engine, along partitions by products with ones."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.layout import BroadcastInDim
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.patterns import number_of
from trnsim.graph.types import BOOL, INTEGERS, ITEM_BYTES
from trnsim.lower.emit.computing.compute import reduce_rows
from trnsim.lower.emit.computing.evaluation import PIECE_ELEMENTS, Evaluation
from trnsim.lower.emit.computing.groups import emit_group_sums
from trnsim.lower.emit.computing.packing import RowEvaluation
from trnsim.lower.emit.computing.rows import should_defer_reduction
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.graph_facts import MOST_TRANSPOSED_BYTES
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.spans import span_elements, tile_spans
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.transposing import load_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, row_major_frame
from trnsim.lower.kernels import integers
from trnsim.lower.kernels.balance import balanced
from trnsim.lower.kernels.columns import are_columns_spread, column_reduce, is_reduced_on_partitions
from trnsim.lower.kernels.instructions import copied, widened
from trnsim.lower.kernels.tiles import BANK, P, Tensor, dtype_of, new, pieces
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_MOST_ELEMENTS_REDUCED: Final = 8192
"""Most elements of a partition that one instruction reduces."""
_MOST_BLOCKS_OF_GROUP: Final = 2
"""Most blocks of partitions that a group fills if products with masks sum it."""

_WHOLE_OPERATIONS: Final = (
    *("abs", "add", "clamp", "convert", "maximum", "minimum", "multiply", "negate"),
    *("relu", "select", "sign", "square", "subtract"),
)
"""Elementwise operations whose results of whole numbers are whole numbers."""
_MOST_IN_BFLOAT16: Final = 256
"""bfloat16 represents all whole numbers up to this magnitude exactly."""
_SUMS: Final = ("dot_general", "reduce", "scan")
"""Operations that sum whole numbers to larger ones."""


@emitter(Reduce)
def reduce(emission: Emission, node: Node) -> None:
    """Emit a reduction in the layout of its operand if that suits, else by rows or by a kernel."""
    operation: Any = node.operation
    (value,) = node.values
    if should_defer_reduction(emission, node) and emission.deferred.defer_reduction(node):
        return
    rank, last = len(value.shape), len(operation.dims)
    is_of_rows = tuple(sorted(operation.dims)) == tuple(range(rank - last, rank))
    if is_of_rows and _reduce_short_rows(emission, node):
        return
    is_float = value.type.is_floating and node.result.type.is_floating
    has_rows = bool(node.result.shape) or value.type.elements == max(value.shape, default=1)
    if is_float and has_rows and _reduce_middle(emission, node):
        return
    if is_float and has_rows and _reduce_in_place(emission, node, is_of_rows=is_of_rows):
        return
    if not is_of_rows:
        emission.run_kernel(column_reduce, node)
        return
    evaluation = Evaluation(emission, value, is_stored=False)
    is_in_hbm = evaluation.is_in_hbm()
    if not is_in_hbm:
        evaluation = Evaluation(emission, value, in_hbm(emission.dense(value), value.shape))
    evaluation.frame = row_major_frame(value.shape, last)
    _reduce_columns(
        emission, node, evaluation, {dim for dim in operation.dims if value.shape[dim] > 1}
    )
    if not is_in_hbm:  # its readers have another dimension along the partitions
        place = in_hbm(emission.dense(node.result), node.result.shape)
        emission.places[node.result.number] = [place]


def _reduce_short_rows(emission: Emission, node: Node) -> bool:
    """Emit a reduction of many short rows from HBM to HBM; False if it does not suit."""
    place = RowEvaluation(emission, node.values[0], is_stored=False).reduce_to_hbm(node)
    if place is not None:
        emission.places[node.result.number] = [place]
    return place is not None


def _reduce_in_place(emission: Emission, node: Node, *, is_of_rows: bool) -> bool:
    """Emit a reduction of floats in the layout of its operand; False if it does not suit."""
    operation: Any = node.operation
    (value,) = node.values
    evaluation = Evaluation(emission, value, is_stored=False)
    is_last = emission.facts.is_output_only(node.result) and evaluation.is_in_hbm()
    if is_last and (is_of_rows or are_columns_spread(operation, value.shape)):
        return False
    if evaluation.pending_leaves() and not set(evaluation.frame.p_dims) <= set(operation.dims):
        emission.materialize(value)
        evaluation = Evaluation(emission, value, is_stored=False)
    frame = evaluation.frame
    dims = {dim for dim in operation.dims if value.shape[dim] > 1}
    p_dims = [dim for dim in frame.p_dims if value.shape[dim] > 1]
    reduces_partitions = bool(dims) and dims == set(p_dims) and not frame.is_replicated
    fits_in_sbuf = frame.columns * nl.float32.itemsize <= emission.residents.most_bytes // 2
    if reduces_partitions and operation.op == "add" and fits_in_sbuf:
        _sum_partitions(emission, node, evaluation)
        return True
    if reduces_partitions and _transpose_operand(emission, value, frame):
        evaluation = Evaluation(emission, value)
        frame = evaluation.frame
        p_dims = [dim for dim in frame.p_dims if value.shape[dim] > 1]
    reduces_groups = 0 < len(dims) < len(p_dims) and dims == set(p_dims[-len(dims) :])
    if reduces_groups and operation.op == "add" and frame.columns <= BANK:
        if _is_of_blocks(node, frame) if is_of_rows else _suits_kernel(emission, node, evaluation):
            return False
        emit_group_sums(emission, node, evaluation, dims)
        return True
    f_dims = [dim for dim in frame.f_dims if value.shape[dim] > 1]
    if evaluation.pending_leaves() or dims != set(f_dims[len(f_dims) - len(dims) :]):
        return False
    _reduce_columns(emission, node, evaluation, dims)
    return True


def _reduce_middle(emission: Emission, node: Node) -> bool:
    """Emit reductions over dimensions between the first and the last; False if it does not suit.

    It suits operands that are computed here from values in HBM, with enough rows to fill the
    partitions and results that fit in SBUF: each partition has whole matrices [reduced, last], so
    that neither the operands nor the results cross HBM.
    """
    operation: Any = node.operation
    (value,) = node.values
    shape, first, last = value.shape, operation.dims[0], operation.dims[-1]
    rows, length, after = (
        prod(shape[start:end])
        for start, end in ((0, first), (first, last + 1), (last + 1, len(shape)))
    )
    is_middle = operation.dims == tuple(range(first, last + 1)) and min(length, after) > 1
    if not is_middle or rows < P or length * after > PIECE_ELEMENTS:
        return False
    dims = range(len(shape))
    frame = Frame(shape, tuple(dims[:first]), tuple(dims[first:]))
    if frame.blocks * after * nl.float32.itemsize > emission.residents.free_bytes():
        return False
    evaluation = RowEvaluation(emission, value, is_stored=False)
    if not evaluation.start_rows(frame):
        return False
    place = Frame(node.result.shape, *_result_dims(frame, node)).matrix(nl.float32)
    with balanced():
        for span in tile_spans(frame, 0, frame.columns, PIECE_ELEMENTS, frame.columns):
            tile = widened(evaluation.tile(span), (span.partitions, span.blocks, span.columns))
            for number in range(span.blocks):
                data = tile[:, number].reshape((span.partitions, length, after))
                target = place.storage.tile[: span.partitions, span.block + number]
                op = getattr(nl, operation.op)
                nisa.tensor_reduce(dst=target, op=op, data=data.permute((0, 2, 1)), axis=2)
    emission.places[node.result.number] = [place]
    emission.residents.add(node.result, place)
    return True


def _is_of_blocks(node: Node, frame: Frame) -> bool:
    """True if each sum is of several blocks of partitions, of which each pair takes a mask."""
    size = node.values[0].type.elements // node.result.type.elements
    return size > _MOST_BLOCKS_OF_GROUP * frame.block


def _suits_kernel(emission: Emission, node: Node, evaluation: Evaluation) -> bool:
    """True if a sum over groups of partitions is better read from HBM.

    It has to be if the operand does not fit into SBUF beside the sums. It is faster for groups of
    many blocks, because each pair of blocks of a group takes a mask of its own. It is also faster
    for an operand in HBM whose sums are not broadcast to its shape again, if a group straddles
    blocks or if the kernel reduces along partitions too.
    """
    (value,) = node.values
    frame, operation = evaluation.frame, node.operation
    nbytes = frame.blocks * frame.columns * nl.float32.itemsize
    size = value.type.elements // node.result.type.elements
    if 2 * nbytes > emission.residents.most_bytes or _is_of_blocks(node, frame):
        return True
    is_repeated = any(
        isinstance(reader.operation, BroadcastInDim) and reader.result.shape == value.shape
        for reader in emission.facts.readers(node.result)
    )
    return (
        isinstance(operation, Reduce)
        and evaluation.is_in_hbm()
        and not is_repeated
        and (frame.block % size != 0 or is_reduced_on_partitions(operation, value.shape))
    )


def _transpose_operand(emission: Emission, value: Value, frame: Frame) -> bool:
    """Store the value with partitions and columns exchanged; False if it is too large.

    Later readers, such as the other operations of a softmax, use that place too.
    """
    transposed = Frame(frame.shape, frame.f_dims, frame.p_dims)
    if transposed.blocks * transposed.columns * ITEM_BYTES[value.dtype] > MOST_TRANSPOSED_BYTES:
        return False
    emission.materialize(value)
    emission.places[value.number].insert(0, load_in_frame(emission, value, transposed))
    return True


def _result_dims(frame: Frame, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of the result along the partitions, and along the columns."""
    operation: Any = node.operation
    remaining = [dim for dim in range(len(frame.shape)) if dim not in operation.dims]
    result_dim = {dim: number for number, dim in enumerate(remaining)}
    p_dims, f_dims = (
        tuple(result_dim[dim] for dim in dims if dim in result_dim)
        for dims in (frame.p_dims, frame.f_dims)
    )
    return p_dims, f_dims


def _sum_partitions(emission: Emission, node: Node, evaluation: Evaluation) -> None:
    """Emit sums along the partitions; every partition then holds them."""
    frame = evaluation.frame
    _, f_dims = _result_dims(frame, node)
    result = Frame(node.result.shape, (), f_dims, P, is_replicated=True)
    place = result.matrix(nl.float32)
    dtype = _summed_dtype(emission, node.values[0])
    ones = emission.constants.ones(dtype)
    for start in range(0, frame.columns, BANK):
        columns = min(BANK, frame.columns - start)
        sums = new((P, columns), nl.float32, nl.psum)
        for span in evaluation.tile_spans(start, columns):
            tile = _span_tile(evaluation, span, dtype)
            at = span.start - start
            dst = sums[:, at : at + span.columns]
            for number in range(span.blocks):
                nisa.nc_matmul(dst=dst, stationary=ones[: span.partitions], moving=tile[:, number])
        nisa.tensor_copy(dst=place.storage.tile[:, 0, start : start + columns], src=sums)
    emission.places[node.result.number] = [place]
    emission.residents.add(node.result, place)


def _summed_dtype(emission: Emission, value: Value) -> Any:
    """The dtype in which a value's elements enter sums along the partitions.

    float16 stays, as it has more digits than bfloat16. Other values are summed in bfloat16 if no
    input or output of the graph is float32 or float16, unless they are whole numbers, which
    bfloat16 holds only up to 256; else in float32.
    """
    if value.dtype == "float16":
        return nl.float16
    is_narrow = emission.facts.is_narrow and not _has_long_integers(emission, value)
    return nl.bfloat16 if is_narrow else nl.float32


def _has_long_integers(emission: Emission, value: Value) -> bool:
    """True if a value's elements are whole numbers that bfloat16 may not hold.

    They are computed from integers, are sums (of truth values, for example), or products of truth
    values and large numbers.
    """
    bound = _largest_whole_number(emission, value)
    if value.dtype == "bfloat16":  # its numbers are rounded already
        return bound == inf
    return bound > _MOST_IN_BFLOAT16


def _largest_whole_number(emission: Emission, value: Value) -> float:
    """A bound on the magnitude of a value's elements, if they are whole numbers; else 0.

    Integers and sums have an infinite bound. Truth values have the bound 1, and a number of the
    program has its magnitude, at least 1.
    """
    bounds: dict[int, float] = {}
    pending = [value]
    while pending:
        current = pending[-1]
        bound = _bound_of_leaf(emission, current)
        if bound is None:
            node = emission.facts.producers[current.number]
            missing = [operand for operand in node.values if operand.number not in bounds]
            pending += missing
            bound = None if missing else _bound_of_result(node, bounds)
        if bound == 0:
            return 0
        if bound is not None:
            bounds[current.number] = bound
            pending.pop()
    return bounds[value.number]


def _bound_of_leaf(emission: Emission, value: Value) -> float | None:
    """The bound of a value as `_largest_whole_number` has it; None if its operands decide."""
    if value.dtype in INTEGERS:
        return inf
    if value.dtype == BOOL:
        return 1
    producers = emission.facts.producers
    node, number = producers.get(value.number), number_of(producers, value)
    if number is not None and number.is_integer():
        return max(abs(number), 1)
    may_be_whole = node is not None and (is_view(node) or node.name in (*_WHOLE_OPERATIONS, *_SUMS))
    return None if may_be_whole else 0


def _bound_of_result(node: Node, bounds: dict[int, float]) -> float:
    """The bound of an operation's result, from the bounds of its operands."""
    operand_bounds: list[float] = []
    for operand in node.operands:
        if isinstance(operand, Value):
            operand_bounds.append(bounds[operand.number])
        elif float(operand).is_integer():
            operand_bounds.append(max(abs(operand), 1))
        else:
            return 0
    if node.name in _SUMS:
        return inf
    if node.name in ("multiply", "square"):
        return prod(operand_bounds) if node.name == "multiply" else operand_bounds[0] ** 2
    return sum(operand_bounds) if node.name in ("add", "subtract") else max(operand_bounds)


def _span_tile(evaluation: Evaluation, span: TileSpan, dtype: Any) -> Tensor:
    """A span's tile in a dtype; a leaf that HBM holds in that dtype is not copied again."""
    shape = (span.partitions, span.blocks, span.columns)
    if evaluation.is_in_hbm() and (evaluation.value.number, ()) in evaluation.leaves:
        tile = evaluation.tile(span)
        if tile.dtype == dtype and tuple(tile.shape) == shape:
            return tile
        return copied(tile, dtype, new(shape, dtype))
    return evaluation.tile(span, new(shape, dtype))


def _reduce_columns(emission: Emission, node: Node, evaluation: Evaluation, dims: set[int]) -> None:
    """Emit reductions along the columns."""
    operation: Any = node.operation
    frame, inner = evaluation.frame, prod(evaluation.frame.shape[dim] for dim in dims)
    p_dims, f_dims = _result_dims(frame, node)
    result = Frame(node.result.shape, p_dims, f_dims, frame.block, frame.is_replicated)
    place = result.matrix(nl.float32)
    if inner > _MOST_ELEMENTS_REDUCED:
        with balanced():
            _reduce_pieces(evaluation, operation.op, inner, place)
    else:
        _reduce_groups(evaluation, operation.op, inner, place)
    if not node.result.type.is_floating:
        place = _as_integers(place, result, node.result.dtype)
    emission.places[node.result.number] = [place]
    emission.residents.add(node.result, place)


def _reduce_groups(evaluation: Evaluation, op: str, inner: int, place: TensorPlace) -> None:
    """Reduce groups of `inner` neighbouring columns, several groups by one instruction."""
    frame = evaluation.frame
    most_columns = max(_MOST_ELEMENTS_REDUCED // 4 // inner, 1) * inner
    is_in_hbm = evaluation.is_in_hbm()
    most_elements = span_elements(frame, most_columns) if is_in_hbm else most_columns
    for span in tile_spans(frame, 0, frame.columns, most_elements, most_columns):
        shape = (span.partitions, span.blocks, span.columns)
        tile = widened(evaluation.tile(span), shape)
        groups, first = span.columns // inner, span.start // inner
        blocks = slice(span.block, span.block + span.blocks)
        dst = place.storage.tile[: span.partitions, blocks, first : first + groups]
        for number in range(span.blocks):
            data = tile[:, number]
            if groups > 1:
                data = data.reshape((span.partitions, groups, inner))
            target = dst[:, number]
            nisa.tensor_reduce(dst=target, op=getattr(nl, op), data=data, axis=len(data.shape) - 1)


def _as_integers(place: TensorPlace, frame: Frame, dtype: str) -> TensorPlace:
    """The place of whole numbers in float32, converted to integers modulo the range of a type."""
    cast = frame.matrix(dtype_of(dtype))
    for span in tile_spans(frame, 0, frame.columns, P, frame.columns):
        blocks = slice(span.block, span.block + span.blocks)
        part = place.storage.tile[: span.partitions, blocks]
        target = cast.storage.tile[: span.partitions, blocks]
        copied(integers.wrap(part, dtype), target.dtype, target)
    return cast


def _reduce_pieces(evaluation: Evaluation, op: str, inner: int, place: TensorPlace) -> None:
    """Reduce runs of `inner` columns that are too long for one instruction, piece by piece."""
    frame, result = evaluation.frame, place.storage.tile
    parts = -(-inner // PIECE_ELEMENTS)
    for group, start in enumerate(range(0, frame.columns, inner)):
        for rows in tile_spans(frame, start, inner, 1, inner):
            partials = new((rows.partitions, 1, parts))
            for number, (at, count) in enumerate(pieces(inner, PIECE_ELEMENTS)):
                tile = evaluation.tile(replace(rows, start=start + at, columns=count))
                piece = widened(tile, (rows.partitions, 1, count))
                reduce_rows(piece, op, partials[:, :, number : number + 1])
            block = slice(rows.block, rows.block + 1)
            reduce_rows(partials, op, result[: rows.partitions, block, group : group + 1])
