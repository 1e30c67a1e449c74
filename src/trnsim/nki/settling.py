"""Lazy copies of partition broadcasts from PSUM to SBUF.

A broadcast over partitions is a matmul with ones, whose product the Tensor Engine writes to PSUM.
The tile that a kernel gets is in SBUF, as AWS documents. But an engine that can read PSUM need not
wait for a copy, and an elementwise operation on one tile in PSUM and one in SBUF takes half the
time of two tiles in SBUF. So the copy is made for the first instruction that needs the SBUF tile,
as in AWS's compiler; until then instructions read the product in PSUM.

Source: trainium_inferentia2_arch.rst, Tensor Engine, Alternative Use Case; nki.language of SDK
2.26, broadcast_to ("in SBUF, but can be also assigned to a PSUM tensor"); fused_mamba.rst, profile
of mamba_v1, where PSUM holds broadcasts to the end while the Scalar Engine makes no copies.
"""

from __future__ import annotations

from typing import Final

from trnsim.isa import Engine, Instruction, TensorCopy
from trnsim.memory import Memory, Storage, Tile
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.program import current_core

MOST_IN_PSUM: Final = 4
"""Maximum number of broadcasts left in PSUM at once: half of its banks, a bank each. Assumed."""

_PSUM_READERS: Final = frozenset(
    {"tensor_tensor", "tensor_tensor_scan", "scalar_tensor_tensor", "tensor_scalar", "activation"}
)
_READING_ENGINES: Final = (Engine.vector, Engine.scalar)


def leave_in_psum(sbuf_tile: NkiTensor, product: NkiTensor) -> None:
    """Let reads of `sbuf_tile` read `product` in PSUM, until it is copied to the tile."""
    core = current_core()
    core.may_be_in_psum = True
    products = core.left_in_psum
    while len(products) >= MOST_IN_PSUM:
        _copy_to_sbuf(next(iter(products)))
    products[sbuf_tile.storage] = product


def ensure_in_sbuf(tile: NkiTensor) -> NkiTensor:
    """`tile`, after a copy of its values to SBUF if they are in PSUM."""
    if tile.storage in current_core().left_in_psum:
        _copy_to_sbuf(tile.storage)
    return tile


def settle(instruction: Instruction) -> Instruction:
    """`instruction`, ready for issue: broadcast operands are read in PSUM or copied to SBUF first.

    An instruction that writes PSUM causes the copies of all broadcasts.
    """
    products = current_core().left_in_psum
    if not products:
        return instruction
    tiles = [tile for _, tile in instruction.tiles()]
    writes = instruction.accesses()[1]
    if any(tile.memory is Memory.PSUM for tile in writes):
        for storage in list(products):
            _copy_to_sbuf(storage)
        return instruction
    broadcast_tiles = [tile for tile in tiles if tile.storage in products]
    if len(broadcast_tiles) == 1 and _may_read_psum(instruction, broadcast_tiles[0], tiles, writes):
        return instruction.with_tiles(_psum_tile)
    for tile in broadcast_tiles:
        if tile.storage in products:
            _copy_to_sbuf(tile.storage)
    return instruction


def _may_read_psum(
    instruction: Instruction, tile: Tile, tiles: list[Tile], writes: list[Tile]
) -> bool:
    """True if `instruction` may read `tile` in PSUM: all other operands are in SBUF."""
    product = current_core().left_in_psum[tile.storage]
    return (
        instruction.opcode in _PSUM_READERS
        and instruction.chosen_engine(current_core().core) in _READING_ENGINES
        and all(operand.memory is not Memory.PSUM for operand in tiles)
        and all(destination is not tile for destination in writes)
        and tile.dtype == product.dtype
        and tile.index is None
    )


def _psum_tile(tile: Tile) -> Tile:
    """The tile's elements in the PSUM product that takes its place; `tile` if there is none."""
    product = current_core().left_in_psum.get(tile.storage)
    if product is None:
        return tile
    return NkiTensor(product.storage, tile.dtype, tile.pattern, MemoryRegion.psum)


def _copy_to_sbuf(storage: Storage) -> None:
    """Copy a broadcast from PSUM to its SBUF tile."""
    core = current_core()
    product = core.left_in_psum.pop(storage)
    sbuf_tile = NkiTensor(storage, product.dtype, product.pattern, MemoryRegion.sbuf)
    core.issue(TensorCopy(sbuf_tile, product))
