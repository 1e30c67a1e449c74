"""Sums over groups of neighbouring partitions: products with blocks of a diagonal of ones."""

from __future__ import annotations

from functools import partial
from math import ceil, prod
from typing import Any

from trnsim.graph import Node
from trnsim.graph.ops.layout import BroadcastInDim
from trnsim.lower.emit.computing.evaluation import Evaluation
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.kernels.instructions import keep_groups
from trnsim.lower.kernels.tiles import Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


def emit_group_sums(emission: Emission, node: Node, evaluation: Evaluation, dims: set[int]) -> None:
    """Emit the sum over `dims`, whose elements lie on groups of neighbouring partitions.

    Each partition then holds its group's sum, so that readers that broadcast it need no copy.
    """
    frame, size = evaluation.frame, prod(evaluation.frame.shape[dim] for dim in dims)
    block = frame.block
    parts: dict[int, Tensor] = {}
    for span in evaluation.tile_spans():
        tile = evaluation.tile(span, new((span.partitions, span.blocks, span.columns)))
        parts |= {span.block + number: tile[:, number] for number in range(span.blocks)}
    place = frame.matrix(nl.float32)
    for number, part in parts.items():
        rows = part.shape[0]
        sums = new((rows, frame.columns), nl.float32, nl.psum)
        first = number * block // size * size // block
        last = (ceil((number * block + rows) / size) * size - 1) // block
        for source in range(first, last + 1):
            moving = parts[source]
            ones = emission.constants.get_or_make(
                ("groups", size, block, source, number),
                partial(ones_by_group, size, block, source, number),
            )
            nisa.nc_matmul(dst=sums, stationary=ones[: moving.shape[0], :rows], moving=moving)
        nisa.tensor_copy(dst=place.storage.tile[:rows, number], src=sums)
    reduce_: Any = node.operation
    remaining = [dim for dim in range(len(frame.shape)) if dim not in reduce_.dims]
    for reader in emission.facts.readers(node.result):
        operation: Any = reader.operation
        repeats = isinstance(operation, BroadcastInDim) and list(operation.dims) == remaining
        if repeats and reader.result.shape == frame.shape:
            emission.places[reader.result.number] = [place]
    steps = tuple(place.steps[dim] for dim in remaining)
    emission.places[node.result.number] = [
        TensorPlace(place.storage, node.result.shape, steps, (0, 0))
    ]


def ones_by_group(size: int, block: int, rows: int, columns: int) -> Tensor:
    """A matrix [k, n]: 1 if rows k of block `rows` and n of block `columns` share a group, else 0.

    `size` is the length of a group, `block` that of a block; `rows` and `columns` are the numbers
    of two blocks.
    """
    first, last = columns * block // size, ceil((columns + 1) * block / size)
    groups = last - first
    tile = new((block, groups, size))
    nisa.memset(dst=tile, value=1.0)
    keep_groups(tile, size, rows * block - first * size)
    at = columns * block - first * size
    return tile.reshape((block, groups * size))[:, at : at + block]
