"""Reductions: along columns by the Vector Engine, along partitions as products with ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.computing.balance import balanced
from trnsim.lower.emit.computing.compute import OPERATORS, reduced, widened
from trnsim.lower.emit.computing.evaluation import PIECE, Evaluation
from trnsim.lower.emit.computing.groups import sums_by_group
from trnsim.lower.emit.computing.rows import waits
from trnsim.lower.emit.facts import TURNED_BYTES
from trnsim.lower.emit.places.placed import Placed
from trnsim.lower.emit.places.turning import turned
from trnsim.lower.emit.places.walk import Frame, spans
from trnsim.lower.emit.rules import emitter
from trnsim.lower.kernels.tiles import BANK, P, new, pieces
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

_LONGEST: Final = 8192
"""Elements of a partition that are reduced at once."""


@emitter(Reduce)
def reduce(emission: Emission, node: Node) -> None:
    """A reduction in the layout in which its operand is computed, if that suits."""
    operation: Any = node.operation
    (value,) = node.values
    if waits(emission, node) and emission.waiting.fold(node):
        return
    if value.type.is_floating and node.result.type.is_floating and node.result.shape:
        evaluation = Evaluation(emission, value, is_kept=False)
        if evaluation.pending() and not set(evaluation.frame.p_dims) <= set(operation.dims):
            emission.settled(value)
            evaluation = Evaluation(emission, value, is_kept=False)
        frame = evaluation.frame
        dims = {dim for dim in operation.dims if value.shape[dim] > 1}
        standing = [dim for dim in frame.p_dims if value.shape[dim] > 1]
        is_across = bool(dims) and dims == set(standing) and not frame.is_replicated
        fits = frame.columns * nl.float32.itemsize <= emission.residents.most_bytes // 2
        if is_across and operation.op == "add" and fits:
            _across(emission, node, evaluation)
            return
        if is_across and _turns(emission, value, frame):
            evaluation = Evaluation(emission, value)
            frame = evaluation.frame
            standing = [dim for dim in frame.p_dims if value.shape[dim] > 1]
        is_part = 0 < len(dims) < len(standing) and dims == set(standing[-len(dims) :])
        if is_part and operation.op == "add" and frame.columns <= BANK:
            sums_by_group(emission, node, evaluation, dims)
            return
        long = [dim for dim in frame.f_dims if value.shape[dim] > 1]
        is_inner = dims == set(long[len(long) - len(dims) :])
        if is_inner and _along(emission, node, evaluation, dims):
            return
    emission.by_kernel(node)


def _turns(emission: Emission, value: Value, frame: Frame) -> bool:
    """Have what runs along the partitions along the columns, where that fits in SBUF.

    It stays so for those that read it next, as the rest of a softmax.
    """
    across = Frame(frame.shape, frame.f_dims, frame.p_dims)
    if across.blocks * across.columns * ITEM_BYTES[value.dtype] > TURNED_BYTES:
        return False
    emission.settled(value)
    emission.placed[value.number].insert(0, turned(emission, value, across))
    return True


def _kept(frame: Frame, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of the result along the partitions, and along the columns."""
    operation: Any = node.operation
    left = [dim for dim in range(len(frame.shape)) if dim not in operation.dims]
    place = {dim: number for number, dim in enumerate(left)}
    p_dims, f_dims = (
        tuple(place[dim] for dim in side if dim in place) for side in (frame.p_dims, frame.f_dims)
    )
    return p_dims, f_dims


def _across(emission: Emission, node: Node, evaluation: Evaluation) -> None:
    """Sums along the partitions, which every partition then holds."""
    frame = evaluation.frame
    _, f_dims = _kept(frame, node)
    result = Frame(node.result.shape, (), f_dims, P, is_replicated=True)
    placed = result.matrix(nl.float32)
    dtype = nl.bfloat16 if emission.facts.is_narrow else nl.float32
    ones = emission.constants.ones(dtype)
    for start in range(0, frame.columns, BANK):
        columns = min(BANK, frame.columns - start)
        sums = new((P, columns), nl.float32, nl.psum)
        for span in evaluation.spans(start, columns):
            tile = evaluation.tile(span, new((span.partitions, span.blocks, columns), dtype))
            for number in range(span.blocks):
                nisa.nc_matmul(dst=sums, stationary=ones[: span.partitions], moving=tile[:, number])
        nisa.tensor_copy(dst=placed.storage.tile[:, 0, start : start + columns], src=sums)
    emission.placed[node.result.number] = [placed]
    emission.residents.hold(node.result, placed)


def _along(emission: Emission, node: Node, evaluation: Evaluation, dims: set[int]) -> bool:
    """Reductions along the columns; whether they fit."""
    frame = evaluation.frame
    inner = 1
    for dim in dims:
        inner *= frame.shape[dim]
    if evaluation.pending():
        return False
    operation: Any = node.operation
    p_dims, f_dims = _kept(frame, node)
    result = Frame(node.result.shape, p_dims, f_dims, frame.block, frame.is_replicated)
    placed = result.matrix(nl.float32)
    if inner > _LONGEST:
        with balanced():
            _in_pieces(evaluation, operation.op, inner, placed)
        emission.placed[node.result.number] = [placed]
        emission.residents.hold(node.result, placed)
        return True
    most = max(_LONGEST // 4 // inner, 1) * inner
    for span in spans(frame, 0, frame.columns, most, most):
        shape = (span.partitions, span.blocks, span.columns)
        tile = evaluation.tile(span)
        if tuple(tile.shape) != shape:
            return False
        groups = span.columns // inner
        first = span.start // inner
        dst = placed.storage.tile[
            : span.partitions, span.block : span.block + span.blocks, first : first + groups
        ]
        for number in range(span.blocks):
            view = tile[:, number].reshape((span.partitions, groups, inner))
            nisa.tensor_reduce(dst=dst[:, number], op=OPERATORS[operation.op], data=view, axis=2)
    emission.placed[node.result.number] = [placed]
    emission.residents.hold(node.result, placed)
    return True


def _in_pieces(evaluation: Evaluation, op: str, inner: int, placed: Placed) -> None:
    """Reductions of long runs of columns: of pieces, then of what those give."""
    frame, result = evaluation.frame, placed.storage.tile
    parts = -(-inner // PIECE)
    for group, start in enumerate(range(0, frame.columns, inner)):
        for rows in spans(frame, start, inner, 1, inner):
            each = new((rows.partitions, 1, parts))
            for number, (at, count) in enumerate(pieces(inner, PIECE)):
                tile = evaluation.tile(replace(rows, start=start + at, columns=count))
                whole = widened(tile, (rows.partitions, 1, count))
                reduced(whole, op, each[:, :, number : number + 1])
            block = slice(rows.block, rows.block + 1)
            reduced(each, op, result[: rows.partitions, block, group : group + 1])
