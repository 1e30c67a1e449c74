"""Building blocks of the functions of `nki.language`: new tiles, and issue by opcode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import Instruction
from trnsim.memory import Memory
from trnsim.nki.notices import refuse_or_warn
from trnsim.nki.precision import stored
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.program import current_core

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUADRANT = 32  # nki.isa.nc_stream_shuffle: it moves data within 32 partitions
_BROADCASTING = "release notes of NKI 0.4, Known issues: binary operations and broadcasting"


def new_tile(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """A new uninitialised tensor in a memory of this core."""
    kind = stored(dtype)
    lengths = tuple(int(length) for length in shape)
    storage, layout = current_core().memory.allocate(lengths, kind, buffer.memory, name=name)
    return NkiTensor.laid_out(storage, kind, layout, buffer)


def issue(opcode: str, *operands: Any, **options: Any) -> None:
    """Issue the instruction called `opcode` to the current core.

    Raises:
        NotModelled: where it is not emulated yet.
    """
    instruction = Instruction.registry.get(opcode)
    if instruction is None:
        raise NotModelled(
            f"nki.isa.{opcode}, on which a function of nki.language rests, is not emulated yet",
            fix="express the kernel with the emulated instructions of nki.isa",
            source=f"nki.isa.{opcode}",
        )
    current_core().issue(instruction(*operands, **options))


def as_tile(what: str, value: Any) -> NkiTensor:
    """An operand on chip; as on AWS's simulator, one in HBM is loaded first.

    Raises:
        IllegalInstruction: for anything else than a tensor.
    """
    if not isinstance(value, NkiTensor):
        raise IllegalInstruction(
            f"{what} of {type(value).__name__}; legal: tiles and numbers, at least one tile",
            fix="make a tile of it with nl.full, or compute it in Python",
            source="nki.language",
        )
    if value.memory is not Memory.HBM:
        return value
    refuse_or_warn(
        f"{what} of {value}; legal: tiles in SBUF or PSUM",
        "load it first: nl.load(tensor)",
        "nki.language",
    )
    tile = new_tile(value.shape, value.dtype)
    issue("dma_copy", tile, value)
    return tile


def cast(tile: NkiTensor, dtype: Any) -> NkiTensor:
    """A copy in SBUF, in the format `dtype` if given."""
    copied = new_tile(tile.shape, tile.dtype if dtype is None else dtype)
    issue("tensor_copy", copied, tile)
    return copied


def matched(what: str, x: NkiTensor, y: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Both tiles in the same shape.

    Raises:
        IllegalInstruction: where the shapes differ; only AWS's simulator broadcasts them.
    """
    if x.shape == y.shape:
        return x, y
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        shape = ()
    fix = "broadcast first: nl.broadcast_to(tile, shape), or nisa.tensor_scalar for a [P, 1] tile"
    reason = f"{what} of {x} and {y}; legal: equal shapes"
    if not shape:
        raise IllegalInstruction(reason, fix=fix, source=_BROADCASTING)
    refuse_or_warn(reason, fix, _BROADCASTING)
    return spread(x, shape), spread(y, shape)


def spread(tile: NkiTensor, shape: Sequence[int]) -> NkiTensor:
    """`tile` broadcast to `shape`: free dimensions as a view, the partition axis by copies."""
    while tile.ndim < len(shape):
        tile = tile.expand_dim(1)
    for dim, length in enumerate(shape):
        if dim and tile.shape[dim] != length:
            tile = tile.broadcast(dim, length)
    return tile if tile.shape[0] == shape[0] else _over_partitions(tile, shape[0])


def _over_partitions(tile: NkiTensor, partitions: int) -> NkiTensor:
    """One partition copied to many by the Vector Engine, a quadrant at a time."""
    if tile.start_partition % _QUADRANT:
        aligned = new_tile(tile.shape, tile.dtype)
        issue("dma_copy", aligned, tile)
        tile = aligned
    copies = new_tile((partitions, *tile.shape[1:]), tile.dtype)
    for first in range(0, partitions, _QUADRANT):
        some = copies.slice(0, first, min(first + _QUADRANT, partitions))
        issue("nc_stream_shuffle", some, tile, (0,) * _QUADRANT)
    return copies
