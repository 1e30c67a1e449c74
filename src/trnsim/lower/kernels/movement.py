"""Movement without computation: concatenation, reversal, padding."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from trnsim.graph import Node
from trnsim.graph.ops.layout import Concatenate, Pad, Reinterpret, Reverse
from trnsim.graph.types import BOOL, TensorType, dense
from trnsim.lower.emit.places.tensor_place import in_hbm
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import Tensor
from trnsim.lower.rules import emitter, kernel
from trnsim.nki import isa as nisa

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

PIECE_ELEMENTS: Final = 2048
"""Most elements of a partition that are joined at once."""
_ONE_ELEMENT: Final = [(1, 1)]
"""The pattern of a tensor without dimensions."""


@emitter(Reinterpret)
def reinterpret(emission: Emission, node: Node) -> None:
    """Emit a reinterpretation: a view of the operand's memory."""
    (value,), operation = node.values, node.operation
    memory = emission.dense(value).reshape(value.shape)
    view = memory.view(tiles.dtype_of(getattr(operation, "to", value.dtype)))
    emission.places[node.result.number] = [in_hbm(view, node.result.shape)]


def concatenate(op: Concatenate, node: Node, *operands: Tensor) -> Tensor:
    """Copy each operand to its part of the result: by transfers, or on the chip for short rows."""
    out = tiles.output(node.result.shape, node.result.dtype)
    dim = op.dim
    rows, total_width = prod(node.result.shape[:dim]), prod(node.result.shape[dim:])
    parts = [
        (tensor, prod(value.shape[dim:]))
        for tensor, value in zip(operands, node.values, strict=True)
    ]
    longest = max(width for _, width in parts) * out.dtype.itemsize
    if rows > 1 and longest < _SHORT_BYTES and total_width <= PIECE_ELEMENTS:
        _interleave(parts, out, rows, total_width)
        return out
    place = 0
    for tensor, width in parts:
        if rows == 1:
            tiles.copy_run(out, place, tensor, 0, width)
        else:
            target = tiles.strided(out, [(total_width, rows), (1, width)], place)
            nisa.dma_copy(dst=target, src=tiles.flat(tensor, rows, width))
        place += width
    return out


_SHORT_BYTES: Final = 512
"""Shorter runs take as long, as descriptors bound their transfer (nki-dma-overview.rst)."""


def repeat_elements(source: Tensor, elements: int, copies: int, dtype: str) -> Tensor:
    """Each element of a tensor in HBM repeated `copies` times, [elements, copies]."""
    out = tiles.output((elements, copies), dtype)
    for start, partitions, elements_each in tiles.spread(elements, PIECE_ELEMENTS // copies):
        pattern = [(elements_each, partitions), (1, elements_each)]
        part = tiles.load(tiles.strided(source, pattern, start))
        copies_tile = tiles.new((partitions, elements_each, copies), out.dtype)
        columns = part.reshape((partitions, elements_each, 1)).broadcast(2, copies)
        nisa.tensor_copy(dst=copies_tile, src=columns)
        pattern = [(elements_each * copies, partitions), (1, elements_each * copies)]
        target = tiles.strided(out, pattern, start * copies)
        nisa.dma_copy(dst=target, src=copies_tile.reshape((partitions, elements_each * copies)))
    return out


def is_short(length: int, tensor: TensorType) -> bool:
    """True for a run of `length` elements that is so short that descriptors bound its transfer."""
    return length * tensor.nbytes < _SHORT_BYTES * tensor.elements


def _interleave(parts: list[tuple[Tensor, int]], out: Tensor, rows: int, total_width: int) -> None:
    """Join rows on the chip, loaded and stored as long runs of HBM."""
    for start, count, rows_each in tiles.spread(rows, PIECE_ELEMENTS // total_width):
        tile = tiles.new((count, rows_each, total_width), out.dtype)
        place = 0
        for tensor, width in parts:
            pattern = [(rows_each * width, count), (1, rows_each * width)]
            part = tiles.load(tiles.strided(tensor, pattern, start * width))
            target = tile[:, :, place : place + width]
            nisa.tensor_copy(dst=target, src=part.reshape((count, rows_each, width)))
            place += width
        pattern = [(rows_each * total_width, count), (1, rows_each * total_width)]
        target = tiles.strided(out, pattern, start * total_width)
        nisa.dma_copy(dst=target, src=tile.reshape((count, rows_each * total_width)))


@kernel(Reverse)
def reverse(op: Reverse, node: Node, source: Tensor) -> Tensor:
    """Reverse dimensions by one transfer for each index along them."""
    out, shape = tiles.output(node.result.shape, node.result.dtype), node.result.shape
    steps = dense(shape)
    pattern = [
        (step, 1 if dim in op.dims else n)
        for dim, (step, n) in enumerate(zip(steps, shape, strict=True))
    ] or _ONE_ELEMENT
    for place in product(*(range(shape[dim]) for dim in op.dims)):
        source_offset = sum(i * steps[dim] for i, dim in zip(place, op.dims, strict=True))
        target_offset = sum(
            (shape[d] - 1 - i) * steps[d] for i, d in zip(place, op.dims, strict=True)
        )
        nisa.dma_copy(
            dst=tiles.strided(out, pattern, target_offset),
            src=tiles.strided(source, pattern, source_offset),
        )
    return out


def pad(op: Pad, node: Node, operand: Tensor) -> Tensor:
    """Fill the result with the padding number, and copy the elements to their positions."""
    out = tiles.output(node.result.shape, node.result.dtype)
    is_truth = node.result.dtype == BOOL
    tiles.fill(out, node.result.type.elements, float(op.number != 0) if is_truth else op.number)
    source, target = dense(node.values[0].shape), dense(node.result.shape)
    source_pattern: list[tuple[int, int]] = []
    target_pattern: list[tuple[int, int]] = []
    source_offset = target_offset = 0
    for dim, length in enumerate(node.values[0].shape):
        low, step = op.low[dim], op.interior[dim] + 1
        first = max(-(low // step), 0)
        end = min(length, -((low - node.result.shape[dim]) // step))
        if end <= first:
            return out
        source_pattern.append((source[dim], end - first))
        target_pattern.append((target[dim] * step, end - first))
        source_offset += first * source[dim]
        target_offset += (low + first * step) * target[dim]
    nisa.dma_copy(
        dst=tiles.strided(out, target_pattern or _ONE_ELEMENT, target_offset),
        src=tiles.strided(operand, source_pattern or _ONE_ELEMENT, source_offset),
    )
    return out
