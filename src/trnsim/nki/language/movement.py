"""Movement of tiles: loads and stores, transposes, products, broadcasts, gathers.

Source: nki.language, Memory operations; release notes of NKI 0.4, Known issues, NKI Language.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trnsim.dtypes import FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.nki.arguments import boolean, check_tensor, documented, integers, lengths
from trnsim.nki.notices import refuse_or_warn
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.nki.tiles import as_tile, cast, issue, new_tile, spread
from trnsim.program import current_core

_MATRIX_RANK = 2
_KNOWN_ISSUES = "release notes of NKI 0.4, Known issues, NKI Language"


@documented
def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the values of an HBM tensor."""
    check_tensor("nl.load", src, "nki.language.load")
    tile = new_tile(src.shape, src.dtype if dtype is None else dtype)
    issue("dma_copy", tile, src)
    return tile


@documented
def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write an SBUF tile to an HBM tensor.

    Raises:
        IllegalInstruction: for a tile in PSUM, which a DMA cannot read.
    """
    issue("dma_copy", dst, value)


@documented
def load_transpose2d(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile [N, M] with the values of an HBM tensor [M, N], transposed by the DMA.

    More than two dimensions are merged to [M, all others].
    """
    plane = _as_matrix("nl.load_transpose2d", src)
    tile = new_tile(plane.shape[::-1], src.dtype)
    issue("dma_transpose", tile, plane)
    return tile if dtype is None or tile.dtype == dtype else cast(tile, dtype)


@documented
def transpose(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new PSUM tile with the partition and the free axis of `x` swapped by the Tensor Engine.

    Elements of FP8 are two bytes apart from NeuronCore-v3 on, which writes them as 16 bits.
    """
    tile = _as_matrix("nl.transpose", as_tile("nl.transpose", x))
    if dtype is not None:
        tile = cast(tile, dtype)
    partitions, columns = tile.shape[::-1]
    has_bit_transpose = current_core().core.features.bit_transpose
    step = 2 if has_bit_transpose and tile.dtype.is_float and tile.dtype.itemsize == 1 else 1
    psum_tile = new_tile((partitions, columns * step), tile.dtype, MemoryRegion.psum)
    transposed_tile = psum_tile[:, ::step]
    issue("nc_transpose", transposed_tile, tile)
    return transposed_tile


@documented
def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """``x.T @ y`` in a new PSUM tile, float32.

    Without `transpose_x` it is ``x @ y``, which AWS's compiler refuses.
    """
    stationary, moving = as_tile("nl.matmul", x), as_tile("nl.matmul", y)
    for tile in (stationary, moving):
        _check_rank("nl.matmul", tile)
    if not boolean("nl.matmul, transpose_x", transpose_x, "nki.language.matmul"):
        refuse_or_warn(
            "nl.matmul(transpose_x=False); legal: transpose_x=True",
            "lay x out with its contraction along the partitions: nl.matmul(xT, y, True)",
            _KNOWN_ISSUES,
        )
        stationary = cast(transpose(stationary), None)
    product = new_tile((stationary.shape[1], moving.shape[1]), FLOAT32, MemoryRegion.psum)
    issue("nc_matmul", product, stationary, moving)
    return product


@documented
def broadcast_to(x: NkiTensor, shape: Iterable[int], dtype: Any = None) -> NkiTensor:
    """`x` repeated along its dimensions of length 1; `x` itself if the shape is the same.

    Raises:
        IllegalInstruction: for another rank, or a mismatched dimension of length other than 1.
    """
    tile = as_tile("nl.broadcast_to", x)
    new_shape = lengths("nl.broadcast_to", shape, "nki.language.broadcast_to")
    pairs = list(zip(tile.shape, new_shape, strict=False))
    if tile.ndim != len(new_shape) or any(length not in (1, target) for length, target in pairs):
        raise IllegalInstruction(
            f"nl.broadcast_to of {tile} to {new_shape}; legal: the same rank, and each dimension "
            "the same or repeated from 1",
            fix="add dimensions with tile.expand_dim, and slice those that do not match",
            source="nki.language.broadcast_to",
        )
    if tile.shape == new_shape and (dtype is None or tile.dtype == dtype):
        return tile
    broadcast_tile = spread(tile, new_shape)
    is_view = broadcast_tile.storage is tile.storage
    is_cast = dtype is not None and broadcast_tile.dtype != dtype
    return cast(broadcast_tile, dtype) if is_view or is_cast else broadcast_tile


@documented
def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view of `x` with a new dimension of length 1 at `axis`."""
    check_tensor("nl.expand_dims", x, "nki.language.expand_dims")
    return x.expand_dim(axis)


@documented
def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Any = None
) -> NkiTensor:
    """Element ``indices[p, i]`` of partition p of `data`, whose free axes are flattened.

    Raises:
        IllegalInstruction: for an axis other than 0.
    """
    if integers("nl.gather_flattened: axis", axis) != (0,):
        raise IllegalInstruction(
            f"nl.gather_flattened(axis={axis}); legal: axis=0, along the flattened free axes",
            fix="leave axis out",
            source="nki.language.gather_flattened",
        )
    for operand in (data, indices):
        check_tensor("nl.gather_flattened", operand, "nki.language.gather_flattened")
    result = new_tile(indices.shape, data.dtype)
    issue("nc_n_gather", result, data, indices)
    return result if dtype is None else cast(result, dtype)


def _as_matrix(label: str, tile: NkiTensor) -> NkiTensor:
    """The tensor with all dimensions but the first merged."""
    _check_rank(label, tile)
    return tile if tile.ndim == _MATRIX_RANK else tile.flatten_dims(1, tile.ndim - 1)


def _check_rank(label: str, tile: NkiTensor) -> None:
    """Refuse a tensor of one dimension; `label` is the function, for the error."""
    source = f"nki.language.{label.removeprefix('nl.')}"
    if check_tensor(label, tile, source).pattern.shape[1:] == ():
        raise IllegalInstruction(
            f"{label} of {tile}; legal: two dimensions or more",
            fix="add a dimension: tensor.expand_dim(1)",
            source=source,
        )
