"""Building blocks of the functions of `nki.language`: new tiles, and issue by opcode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from math import prod
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from trnsim.context_values import context_value
from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, Dtype
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import Engine, Instruction, NcMatmul
from trnsim.isa.language.fields import is_too_large, tensor_fix
from trnsim.memory import Memory
from trnsim.nki.loop_bodies import check_call, check_turn
from trnsim.nki.notices import refuse_or_warn
from trnsim.nki.precision import stored_dtype
from trnsim.nki.sentinels import with_sentinels
from trnsim.nki.settling import ensure_in_sbuf, leave_in_psum, settle
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.program import current_core
from trnsim.program.context import CoreContext

_FACTOR_DTYPES = (FLOAT32, BFLOAT16, FLOAT16)
_QUADRANT_PARTITIONS = 32  # nki.isa.nc_stream_shuffle: it moves data within 32 partitions
_ones_by_core: Final[WeakKeyDictionary[CoreContext, dict[tuple[int, Dtype], NkiTensor]]] = (
    WeakKeyDictionary()
)
_is_broadcast: Final = ContextVar("trnsim_nki_is_broadcast", default=False)
"""True in a broadcast over partitions, whose instructions depend on what was written and issued."""
_BROADCAST_SOURCE = "release notes of NKI 0.4, Known issues: binary operations and broadcasting"


def new_tile(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf
) -> NkiTensor:
    """A new uninitialised tensor in SBUF, PSUM or HBM of the current core."""
    dtype_stored = stored_dtype(dtype)
    lengths = tuple(int(length) for length in shape)
    storage, layout = current_core().memory.allocate(lengths, dtype_stored, buffer.memory)
    return with_sentinels(NkiTensor.laid_out(storage, dtype_stored, layout, buffer))


def issue(opcode: str, *operands: Any, **options: Any) -> None:
    """Issue the instruction called `opcode` to the current core.

    Raises:
        NotModelled: if it is not emulated yet.
    """
    instruction_class = Instruction.registry.get(opcode)
    if instruction_class is None:
        raise NotModelled(
            f"nki.isa.{opcode}, on which a function of nki.language rests, is not emulated yet",
            fix="express the kernel with the emulated instructions of nki.isa",
            source=f"nki.isa.{opcode}",
        )
    core, instruction = current_core(), instruction_class(*map(plain_number, operands), **options)
    if core.nesting.turns and not _is_broadcast.get():
        check_turn(instruction)
    instruction = settle(instruction)
    if not core.issue_next(instruction):
        core.issue(instruction)


def plain_number(value: Any) -> Any:
    """Python's number for a number of numpy's; any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def check_number(label: str, value: Any, source: str) -> int | float:
    """A number as one of Python's own types; `label` names it in the error.

    Raises:
        IllegalInstruction: for any other value, and for an integer beyond float64.
    """
    number = plain_number(value)
    if not isinstance(number, int | float) or is_too_large(number):
        raise IllegalInstruction(
            f"{label} is {type(number).__name__}; legal: a number of float64",
            fix="pass a number that the dtype can hold",
            source=source,
        )
    return number


def as_tile(label: str, value: Any) -> NkiTensor:
    """`value`, checked to be a tensor in SBUF or PSUM; `label` names its use in the error.

    On AWS's simulator a tensor in HBM is loaded to SBUF, with a warning.

    Raises:
        IllegalInstruction: for a value that is no tensor, and for a tensor in HBM.
    """
    if not isinstance(value, NkiTensor):
        raise IllegalInstruction(
            f"{label} of {type(value).__name__}; legal: tiles and numbers, at least one tile",
            fix=tensor_fix(value, "make a tile of it with nl.full, or compute it in Python"),
            source="nki.language",
        )
    if value.memory is not Memory.HBM:
        return value
    refuse_or_warn(
        f"{label} of {value}; legal: tiles in SBUF or PSUM",
        "load it first: nl.load(tensor)",
        "nki.language",
    )
    tile = new_tile(value.shape, value.dtype)
    issue("dma_copy", tile, value)
    return tile


def cast(tile: NkiTensor, dtype: Any) -> NkiTensor:
    """A copy in SBUF, in the format `dtype` if given."""
    copy_tile = new_tile(tile.shape, tile.dtype if dtype is None else dtype)
    issue("tensor_copy", copy_tile, tile)
    return copy_tile


def match_shapes(label: str, x: NkiTensor, y: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Both tiles in the same shape.

    Raises:
        IllegalInstruction: if the shapes differ; only AWS's simulator broadcasts them.
    """
    if x.shape == y.shape:
        return x, y
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        shape = ()
    fix = "broadcast first: nl.broadcast_to(tile, shape), or nisa.tensor_scalar for a [P, 1] tile"
    reason = f"{label} of {x} and {y}; legal: equal shapes"
    if not shape:
        raise IllegalInstruction(reason, fix=fix, source=_BROADCAST_SOURCE)
    refuse_or_warn(reason, fix, _BROADCAST_SOURCE)
    return spread(x, shape), spread(y, shape)


def spread(tile: NkiTensor, shape: Sequence[int]) -> NkiTensor:
    """`tile` broadcast to `shape`: free dimensions as a view, the partition axis by copies."""
    while tile.ndim < len(shape):
        tile = tile.expand_dim(1)
    for dim, length in enumerate(shape):
        if dim and tile.shape[dim] != length:
            tile = tile.broadcast(dim, length)
    return tile if tile.shape[0] == shape[0] else _broadcast_partitions(tile, shape[0])


def _broadcast_partitions(tile: NkiTensor, partitions: int) -> NkiTensor:
    """A tile of one partition copied to `partitions`: by a matmul with ones, or by shuffles.

    The matmul is used where it is exact (`_can_be_multiplied`).

    Source: trainium_inferentia2_arch.rst, Tensor Engine, Alternative Use Case.
    """
    if tile.start_partition % _QUADRANT_PARTITIONS:
        aligned_tile = new_tile(tile.shape, tile.dtype)
        issue("dma_copy", aligned_tile, tile)
        tile = aligned_tile
    check_call("a broadcast over partitions", tile, partitions)
    with context_value(_is_broadcast, True):
        return _copies_on_partitions(tile, partitions)


def _copies_on_partitions(tile: NkiTensor, partitions: int) -> NkiTensor:
    """A tile of one partition, in a legal first partition, copied to `partitions`."""
    copies = new_tile((partitions, *tile.shape[1:]), tile.dtype)
    if _can_be_multiplied(tile):
        _multiply_by_ones(copies, tile)
    else:
        for start in range(0, partitions, _QUADRANT_PARTITIONS):
            quadrant = copies.slice(0, start, min(start + _QUADRANT_PARTITIONS, partitions))
            issue("nc_stream_shuffle", quadrant, tile, (0,) * _QUADRANT_PARTITIONS)
    return copies


def _can_be_multiplied(tile: NkiTensor) -> bool:
    """True if a matmul by ones copies the tile: a dtype of the Tensor Engine, all elements written.

    A product of unwritten elements is an error; a shuffle only moves them.
    """
    is_known = not current_core().has_values or tile.is_written()
    return tile.dtype in _FACTOR_DTYPES and tile.index is None and is_known


def _multiply_by_ones(copies: NkiTensor, row: NkiTensor) -> None:
    """``copies = ones.T @ row``, a PSUM bank at a time.

    A float32 product of a single bank stays in PSUM until it is needed in SBUF. Longer products are
    copied by the Scalar Engine, as mamba_v2_8K_seqlen_zoomed.png shows.
    """
    context = current_core()
    row = ensure_in_sbuf(row) if row.memory is Memory.SBUF else cast(row, None)
    ones = _ones(copies.shape[0], row.dtype)
    pieces = list(_pieces(row, copies, int(context.core.moving_free_max)))
    for row_piece, copies_piece in pieces:
        product = new_tile(copies_piece.shape, FLOAT32, MemoryRegion.psum)
        context.issue(NcMatmul(product, ones, row_piece, is_stationary_onezero=True))
        if len(pieces) == 1 and copies_piece.dtype == FLOAT32:
            leave_in_psum(copies_piece, product)
        else:
            issue("activation", copies_piece, "copy", product)


def _ones(length: int, dtype: Dtype) -> NkiTensor:
    """A [1, length] tile of ones, created once per run."""
    tiles = _ones_by_core.setdefault(current_core(), {})
    if (length, dtype) not in tiles:
        with current_core().outside_loops():
            tiles[length, dtype] = new_tile((1, length), dtype)
            issue("memset", tiles[length, dtype], 1.0, engine=Engine.gpsimd)
    return tiles[length, dtype]


def _pieces(
    row: NkiTensor, copies: NkiTensor, most_elements: int, dim: int = 1
) -> Iterator[tuple[NkiTensor, NkiTensor]]:
    """Pairs of the same piece of both tiles, each of at most `most_elements` free elements.

    The tiles are cut along the free dimensions from `dim` on.
    """
    if prod(row.shape[1:]) <= most_elements:
        yield row, copies
        return
    length = max(1, most_elements // prod(row.shape[dim + 1 :]))
    for start in range(0, row.shape[dim], length):
        end = min(start + length, row.shape[dim])
        parts = row.slice(dim, start, end), copies.slice(dim, start, end)
        yield from _pieces(*parts, most_elements, dim + 1)
