"""Exchanges between the two cores of a logical core, which run the same program.

Tensors in SBUF go from SBUF to SBUF (sendrecv). A tensor in HBM, or one whose halves are not parts
of a matrix, is written to the HBM that both cores share; a barrier orders it before reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from trnsim.compiler.sharding.core_exchanges import CoreGather, CoreReduce
from trnsim.graph import Node, Value
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places import transposing
from trnsim.lower.emit.places.spans import tile_spans
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import Frame, frame_in_hbm, frame_of, load_tile, write_span
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import Tensor, new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_PIECE_BYTES: Final = 2048
"""Bytes of a partition in one transfer: 256 KiB in all, about as long as its fixed cost."""
_MOST_SENDRECV_ELEMENTS: Final = 256
"""Maximum elements of a partition that the GpSimd Engine's own DMA sends (nki.isa.sendrecv)."""
_MOST_SENDRECVS: Final = 4
"""Maximum number of transfers of the GpSimd Engine in one exchange."""
_LOADED_BYTES: Final = 8 * 1024
"""Bytes of a partition that are loaded from HBM at a time."""
_BLOCK_AXIS, _COLUMN_AXIS = 1, 2
"""Axes of a matrix along which two halves can lie."""


@emitter(CoreReduce)
def all_reduce(emission: Emission, node: Node) -> None:
    """Each core sends its sums to the other and adds those that it receives, in any layout."""
    place = emission.materialize(node.values[0])[0]
    if place.is_on_chip:
        matrix = replace(place.storage, tile=_sum_with_peer(place.storage.tile))
        emission.add_place(node.result, replace(place, storage=matrix))
        return
    frame = frame_in_hbm(place)
    result = emission.residents.allocate_in_hbm(frame, place.storage.dtype)
    max_elements = _LOADED_BYTES // place.storage.dtype.itemsize
    for span in tile_spans(frame, 0, frame.columns, max_elements, max_elements):
        chunk = load_tile(place, frame, span, place.storage.dtype)
        write_span(result, frame, span, _sum_with_peer(chunk))
    emission.places[node.result.number] = [result]


def _sum_with_peer(tile: Tensor) -> Tensor:
    """The sum of a tile of SBUF and its counterpart on the other core."""
    counterpart, total = new(tile.shape, tile.dtype), new(tile.shape, tile.dtype)
    for part in _transfer_slices(tile):
        _swap_with_peer(tile, counterpart, part)
        nisa.tensor_tensor(dst=total[part], data1=tile[part], data2=counterpart[part], op=nl.add)
    return total


def _transfer_slices(tile: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """Slices of a tile for one transfer each: neighbouring blocks, or some columns of a block."""
    rows, blocks, columns = tile.shape
    max_columns = (
        _MOST_SENDRECV_ELEMENTS if _fits_gpsimd_dma(tile) else _PIECE_BYTES // tile.dtype.itemsize
    )
    for block, count in tiles.pieces(blocks, max(1, max_columns // columns)):
        for at, width in tiles.pieces(columns, max_columns):
            yield slice(0, rows), slice(block, block + count), slice(at, at + width)


def _fits_gpsimd_dma(tile: Tensor) -> bool:
    """True if the GpSimd Engine's own DMA sends a tile, so that it does not wait behind weights."""
    return bool(tile.shape[1] * tile.shape[2] <= _MOST_SENDRECV_ELEMENTS * _MOST_SENDRECVS)


def _swap_with_peer(tile: Tensor, counterpart: Tensor, part: tuple[slice, slice, slice]) -> None:
    """Send part of a tile to the other core, and receive its counterpart."""
    engines = nisa.dma_engine
    peer = 1 - nl.program_id(0)
    nisa.sendrecv(
        src=tile[part],
        dst=counterpart[part],
        send_to_rank=peer,
        recv_from_rank=peer,
        pipe_id=0,
        dma_engine=engines.gpsimd_dma if _fits_gpsimd_dma(tile) else engines.dma,
    )


@emitter(CoreGather)
def all_gather(emission: Emission, node: Node) -> None:
    """Each core sends its half to the other and puts both side by side."""
    operation: Any = node.operation
    (value,), whole = node.values, node.result
    place = emission.materialize(value)[0]
    axis = _split_axis(place, value, operation.dim)
    if axis:
        half = frame_of(place)
        result = emission.residents.allocate(
            Frame(whole.shape, half.p_dims, half.f_dims, half.block), whole
        )
    else:
        result = in_hbm(tiles.output(whole.shape, whole.dtype), whole.shape)
    if result.is_on_chip:
        _gather_on_chip(place.storage.tile, result.storage.tile, axis)
    else:
        _gather_in_hbm(place, value, result, operation.dim)
    emission.places[whole.number] = [result]


def _split_axis(place: TensorPlace, value: Value, dim: int) -> int:
    """The axis of a matrix along which halves of dimension `dim` lie; 0 if they lie along none."""
    if not place.is_on_chip or place.storage.is_replicated:
        return 0
    frame = frame_of(place)
    steps = [step for step, n in zip(frame.steps(), frame.shape, strict=True) if n > 1]
    is_all = steps == [step for step, n in zip(place.steps, frame.shape, strict=True) if n > 1]
    size = frame.blocks, frame.columns
    if not is_all or any(place.offset) or tuple(place.storage.tile.shape[1:]) != size:
        return 0
    long_dims = [f_dim for f_dim in frame.f_dims if value.shape[f_dim] > 1]
    if dim in frame.f_dims and long_dims[:1] in ([dim], []):
        return _COLUMN_AXIS
    return _BLOCK_AXIS if frame.p_dims[:1] == (dim,) and frame.rows % frame.block == 0 else 0


def _gather_on_chip(half: Tensor, whole: Tensor, axis: int) -> None:
    """Both halves in a matrix of SBUF: this core's half is copied, the other core's received."""
    rank, length = nl.program_id(0), half.shape[axis]
    core_half, peer_half = (
        whole[(slice(None),) * axis + (slice(at * length, (at + 1) * length),)]
        for at in (rank, 1 - rank)
    )
    for part in _transfer_slices(half):
        _swap_with_peer(half, peer_half, part)
        nisa.tensor_copy(dst=core_half[part], src=half[part])


def _gather_in_hbm(place: TensorPlace, value: Value, whole: TensorPlace, dim: int) -> None:
    """Both halves in HBM: each core writes its own, and waits for the other one."""
    starts = [0] * len(value.shape)
    starts[dim] = nl.program_id(0) * value.shape[dim]
    transposing.write_all(place, value, whole.sliced(value.shape, starts, [1] * len(starts)))
    nisa.core_barrier(data=whole.storage, cores=(0, 1))
