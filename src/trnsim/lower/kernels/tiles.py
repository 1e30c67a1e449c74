"""Helpers of the kernels: tiles, strided views of HBM, pieces of a dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from trnsim.graph.types import BOOL
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

Tensor = Any
"""A tensor of a kernel: a tile on chip, or a tensor in HBM."""

P: Final = 128
"""Partitions of SBUF and PSUM (trainium_inferentia2_arch.rst)."""
BANK: Final = 512
"""float32 columns of one PSUM bank (trainium_inferentia2_arch.rst)."""
BANK_BYTES: Final = 4 * BANK
"""Bytes of a partition of one PSUM bank."""
FEWEST_COLUMNS: Final = 64
"""A product of fewer columns takes as long (trainium_inferentia2_arch.rst: ``max(N, 64)``)."""
LARGEST_FLOAT32: Final = float(np.finfo(np.float32).max)


def new(shape: Sequence[int], dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Tensor:
    """A new tile, which nothing has written; in PSUM, FP8 elements lie `psum_bytes` apart."""
    if buffer is nl.psum and (step := psum_bytes(dtype) // dtype.itemsize) > 1:
        *outer, columns = shape
        return nl.ndarray((*outer, columns * step), dtype=dtype, buffer=buffer)[..., ::step]
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=buffer)


def psum_bytes(dtype: Any) -> int:
    """Bytes between neighbouring elements of a tile in PSUM.

    From NeuronCore-v3 on a transpose writes FP8 as 16 bits (trainium2_arch.rst, Built-in Transpose
    Support).
    """
    bytes_in_sbuf: int = dtype.itemsize
    is_wide = current_core().core.features.bit_transpose and "float" in dtype.name
    return max(bytes_in_sbuf, _WIDE_BYTES) if is_wide else bytes_in_sbuf


_WIDE_BYTES: Final = 2
"""Bytes to which a transpose widens FP8."""


def output(shape: Sequence[int], dtype: str) -> Tensor:
    """A tensor in HBM for the kernel to return."""
    return nl.ndarray(tuple(shape) or (1,), dtype=dtype_of(dtype), buffer=nl.shared_hbm)


def dtype_of(name: str) -> Any:
    """The format of that name in `nki.language`; a truth value is stored as a byte."""
    return nl.uint8 if name == BOOL else getattr(nl, name)


def strided(tensor: Tensor, pattern: Sequence[tuple[int, int]], offset: int = 0) -> Tensor:
    """A view of a dense HBM tensor by [stride, count] pairs, in elements."""
    return tensor.ap([list(pair) for pair in pattern], offset=offset)


def flat(tensor: Tensor, rows: int, columns: int) -> Tensor:
    """A dense HBM tensor as [rows, columns]."""
    return strided(tensor, [(columns, rows), (1, columns)])


def pieces(length: int, longest: int) -> Iterator[tuple[int, int]]:
    """Start and length of each piece of a dimension."""
    for start in range(0, length, longest):
        yield start, min(longest, length - start)


def spread(length: int, longest: int) -> Iterator[tuple[int, int, int]]:
    """(start, partitions, elements of a partition) of the blocks that cover a dimension."""
    start = 0
    while start < length:
        elements = min((length - start) // P, longest)
        rows, elements = (P, elements) if elements else (length - start, 1)
        yield start, rows, elements
        start += rows * elements


def copy_run(
    target: Tensor, target_offset: int, source: Tensor, source_offset: int, elements: int
) -> None:
    """Copy contiguous elements within HBM, in parts that all DMA engines share."""
    longest = max(-(-elements // _DMA_ENGINES), _LEAST_PART_ELEMENTS)
    for piece_offset, length in pieces(elements, longest):
        run = [(length, 1), (1, length)]
        nisa.dma_copy(
            dst=strided(target, run, target_offset + piece_offset),
            src=strided(source, run, source_offset + piece_offset),
        )


_DMA_ENGINES: Final = 16
"""DMA engines of a core, each of which takes one descriptor (nki-dma-overview.rst)."""
_LEAST_PART_ELEMENTS: Final = 16384
"""Elements that one engine moves in little more than the fixed time of a transfer."""


def fill(tensor: Tensor, elements: int, number: float) -> None:
    """Write a number to every element of a dense HBM tensor."""
    widest = min(elements, _FILL_COLUMNS)
    tile = new((P, widest), tensor.dtype)
    if "float" in tensor.dtype.name:
        nisa.memset(dst=tile, value=number)
    else:  # all bits of an unsigned number, as one with a sign
        bits = 8 * tensor.dtype.itemsize
        pattern = (int(number) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        nisa.memset(dst=tile.view(getattr(nl, f"int{bits}")), value=pattern)
    full_rows_end = elements - elements % widest
    for start, length in pieces(full_rows_end, P * widest):
        rows = length // widest
        nisa.dma_copy(dst=strided(tensor, [(widest, rows), (1, widest)], start), src=tile[:rows])
    if full_rows_end < elements:
        view = strided(
            tensor, [(elements - full_rows_end, 1), (1, elements - full_rows_end)], full_rows_end
        )
        nisa.dma_copy(dst=view, src=tile[:1, : elements - full_rows_end])


_FILL_COLUMNS: Final = 2048
"""Columns of the tile that fills a tensor: long enough to hide the fixed time of a transfer."""


def load(source: Tensor, dtype: Any = None) -> Tensor:
    """A tile with the values of a tensor in HBM, cast to `dtype` if given."""
    tile = new(source.shape, source.dtype if dtype is None else dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(target: Tensor, tile: Tensor) -> None:
    """Write a tile to HBM, rounded to its format on the chip."""
    if tile.dtype != target.dtype or tile.buffer is nl.psum:
        copy = new(tile.shape, target.dtype)
        nisa.tensor_copy(dst=copy, src=tile)
        tile = copy
    nisa.dma_copy(dst=target, src=tile)


def transposed(tile: Tensor) -> Tensor:
    """The transpose of a tile of at most [128, 128], by the Tensor Engine."""
    flipped = new(tile.shape[::-1], tile.dtype, nl.psum)
    nisa.nc_transpose(dst=flipped, data=tile)
    result = new(flipped.shape, tile.dtype)
    nisa.tensor_copy(dst=result, src=flipped)
    return result
