"""The common part of matmul instructions: tiles of the array, PSUM banks, accumulation, cost."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from trnsim.arch import NeuronCore, has_dtype
from trnsim.behaviours.instructions import MATMUL_BF16_8192
from trnsim.behaviours.simulator import OVERLAPS_ACCUMULATE
from trnsim.dtypes import BFLOAT16, FLOAT32, Array, Dtype, Float32Array
from trnsim.errors import UndefinedBehavior
from trnsim.isa.language.instruction import Cost, Dims, Instruction
from trnsim.isa.language.lanes import maximum, minimum
from trnsim.isa.language.support import check_support
from trnsim.memory import AccessPattern, ByteMask, SnakeIndex, Storage, Tile

_PAIR = 2


def moving_free_max(instruction: Instruction, core: NeuronCore, dst: Tile) -> int:
    """Maximum number of columns of one matmul, which depends on the dtype of `dst`.

    The larger limit for bfloat16 holds for nc_matmul only in versions of NKI that document it.
    """
    has_larger_limit = dst.dtype == BFLOAT16
    if instruction.opcode == "nc_matmul":
        has_larger_limit = has_larger_limit and core.nki.follows(MATMUL_BF16_8192)
    features = core.features
    return int(features.matmul_bfloat16_columns_max if has_larger_limit else core.moving_free_max)


def dst_dtypes(core: NeuronCore) -> tuple[Dtype, ...]:
    """The dtypes that a matmul may write to PSUM."""
    return tuple(d for d in (FLOAT32, BFLOAT16) if d.name in core.features.matmul_dst_dtypes)


def check_limits(instruction: Instruction, core: NeuronCore, n: Dims, dst: Tile) -> None:
    """Refuse K, M or N beyond the array and PSUM, and dst across PSUM banks."""
    limits = {"K": core.pe_rows, "M": core.pe_columns, "N": moving_free_max(instruction, core, dst)}
    if any(n[axis] > limit for axis, limit in limits.items()):
        instruction.refuse(
            f"[K={n.K}, M={n.M}] x [K={n.K}, N={n.N}]; legal on {core.name}: K <= "
            f"{core.pe_rows}, M <= {core.pe_columns}, N <= {limits['N']}",
            "tile the matmul; nl.tile_size has the limits",
            f"{instruction.source}, Tile size",
        )
    check_bank(instruction, core, dst)


def check_bank(instruction: Instruction, core: NeuronCore, dst: Tile) -> None:
    """Refuse a dst across PSUM banks, unless the core's matmuls can write to several."""
    bank_bytes = int(core.psum_bank_bytes)
    first, last = (byte // bank_bytes for byte in dst.box[2:])
    if first != last and not core.features.matmul_across_banks:
        instruction.refuse(
            f"`dst` is {dst}, which reaches from PSUM bank {first} of its tensor to bank {last}; "
            f"legal on {core.name}: one bank of {bank_bytes} bytes a partition",
            "write each bank with a matmul of its own",
            "trainium_inferentia2_arch.rst, Tensor Engine, Tile Size",
        )


def check_dtypes(instruction: Instruction, core: NeuronCore, *dtypes: Dtype) -> None:
    """Refuse dtypes that the core lacks."""
    for dtype in dtypes:
        check_support(
            instruction,
            core,
            has_dtype(dtype.name),
            "use another format, or run with target='{target}'",
            request=f"{dtype} on {core.name}",
            source=f"{instruction.source}, Data types",
        )


def check_tiling(
    instruction: Instruction,
    core: NeuronCore,
    n: Dims,
    position: tuple[int, ...] | None,
    size: tuple[int, ...] | None,
) -> None:
    """Refuse tiles of the array with illegal sizes or starts, or too small for `stationary`.

    Args:
        instruction: the matmul.
        core: the core that runs it.
        n: its axis lengths.
        position: tile_position, the first row and column of the tile; None or () for none.
        size: tile_size, rows and columns of the tile; None or () for the whole array.
    """
    if not position and not size:
        return
    if not position or not size or len(position) != _PAIR or len(size) != _PAIR:
        instruction.refuse(
            f"tile_position={position}, tile_size={size}; legal: both as (row, column), or neither",
            "set both, for example tile_position=(0, 0), tile_size=(64, 128)",
            f"{instruction.source}, Tiling mode",
        )
    _check_edges(instruction, core, position, size)
    if size[0] < n.K or size[1] < n.M:
        instruction.refuse(
            f"stationary [K={n.K}, M={n.M}] with tile_size={size}; legal: at most {list(size)}",
            "choose a larger tile_size, or tile the matmul",
            f"{instruction.source}, Tile size",
        )


def _check_edges(
    instruction: Instruction, core: NeuronCore, position: tuple[int, ...], size: tuple[int, ...]
) -> None:
    """Refuse an illegal tile length along an edge of the array, or a start at no multiple of it."""
    source = f"{instruction.source}, Tiling mode"
    edges = (int(core.pe_rows), int(core.pe_columns))
    for name, edge, start, length in zip(("row", "column"), edges, position, size, strict=True):
        if length not in tile_sizes(core, edge):
            sizes = _join_numbers(tile_sizes(core, edge))
            instruction.refuse(
                f"tile_size={size}; legal {name} sizes on {core.name}: {sizes}",
                "choose one of these",
                source,
            )
        if start % length or not 0 <= start < edge:
            starts = _join_numbers(range(0, edge, length))
            instruction.refuse(
                f"tile_position={position} with tile_size={size}; legal start {name}s: {starts}",
                f"start at a multiple of the {name} size",
                source,
            )


def _join_numbers(numbers: Iterable[int]) -> str:
    """The numbers with commas between."""
    return ", ".join(map(str, numbers))


def tile_sizes(core: NeuronCore, edge: int) -> list[int]:
    """The legal tile lengths along an edge of the array: 128, 64 and, from v3 on, 32."""
    lengths = (edge, edge // 2, edge // (2 * 2))
    return [length for length in lengths if length >= core.pe_tile_minimum]


def multiply_into(
    instruction: Instruction,
    core: NeuronCore,
    dst: Tile,
    left: Float32Array,
    right: Float32Array,
    accumulate: bool | None,
) -> None:
    """``dst (+)= left @ right``, in float32, rounded at each write.

    With accumulate=None the first matmul onto each element of dst since its allocation overwrites
    it, and later ones add. Writes by other instructions do not count as the first, and before v4 a
    matmul cannot add to them.

    Raises:
        UndefinedBehavior: for accumulation onto elements that no matmul wrote last.
    """
    out = dst.output() if dst.shape == (left.shape[0], right.shape[1]) else None
    is_first = accumulate is None and (_note_pattern(core, dst) or is_fresh(dst))
    if accumulate is False or is_first:
        dst.store(product_of(left, right, out))
        mark_started(dst)
        return
    if accumulate:
        _check_started(instruction, core, dst)
    _check_not_set_by_others(instruction, core, dst)
    dst.require_intact(instruction.opcode)
    was_started = is_started(dst)
    product = product_of(left, right)
    old = dst.load().reshape(product.shape)
    if not accumulate and not was_started:
        old = np.where(_started_flags(dst).reshape(product.shape), old, 0)
    dst.store(np.add(product, old, out=product if out is None else out))
    if not was_started:
        mark_started(dst)


_write_patterns: Final[WeakKeyDictionary[Storage, set[AccessPattern]]] = WeakKeyDictionary()
"""Tensor -> the patterns in which matmuls wrote to it, on AWS's simulator before NKI 0.6."""


def _note_pattern(core: NeuronCore, dst: Tile) -> bool:
    """True on AWS's simulator before NKI 0.6, if no matmul has written to dst's very pattern."""
    if core.does(OVERLAPS_ACCUMULATE):
        return False
    patterns = _write_patterns.setdefault(dst.storage, set())
    is_first = dst.pattern not in patterns
    patterns.add(dst.pattern)
    return is_first


def product_of(
    left: Float32Array, right: Float32Array, out: Float32Array | None = None
) -> Float32Array:
    """``left @ right``; a product of one term keeps the sign of zero, as nothing is added."""
    multiply = np.multiply if left.shape[1] == 1 else np.matmul
    return multiply(left, right, out=out)


def mark_started(dst: Tile) -> None:
    """Record that a matmul has written every element of `dst`."""
    storage = dst.storage
    if isinstance(dst.index, SnakeIndex):
        pattern = storage.dense_pattern(dst.footprint)
        storage.accumulation_mask.mark(pattern, dst.dtype.itemsize, _element_index(dst, dst.index))
    else:
        storage.accumulation_mask.add(*_dense_runs(dst))


def array_cost(
    core: NeuronCore,
    cycles: float,
    flops: float = 0.0,
    size: tuple[int, ...] | None = None,
    *,
    loaded_columns: float = 0.0,
    held_read: int = 0,
) -> Cost:
    """Interval: `cycles`; latency: the time in which the last column crosses the array's rows.

    Published profiles show a longer latency: `tensor_dependent_s` is added.

    A matmul on a tile of the array leaves the other tiles to other matmuls: its interval is its
    share of the cycles, and the other cycles are latency.

    The stationary tile is loaded first, unless the array holds it already. AWS documents loads in
    the background, up to four times as fast as a matmul. Published times agree only for float32,
    whose rows enter the array every second cycle (1,036 cycles for 512 on Trn2). Rows of other
    formats enter in each cycle, and the published times show the load of all their columns.

    Args:
        core: the core.
        cycles: Tensor Engine cycles of the moving tile.
        flops: floating-point operations.
        size: the instruction's tile_size, rows and columns of the array; None for the whole array.
        loaded_columns: columns of the stationary tile whose load takes time of its own.
        held_read: index of the stationary tile among the tiles that the instruction reads.

    Source: nki.isa.nc_matmul, Tiling mode; trainium_inferentia2_arch.rst, Background and Fast
    LoadStationary.
    """
    array_elements = core.pe_rows * core.pe_columns
    share = prod(size) / array_elements if size else 1.0
    drain_cycles = core.access_latency_cycles + core.pe_rows + cycles * (1 - share)
    return Cost(
        interval_s=cycles * share / core.tensor_clock_hz,
        latency_s=drain_cycles / core.tensor_clock_hz + core.tensor_dependent_s,
        flops=flops,
        held_read=held_read,
        held_load_s=share
        * loaded_columns
        / core.stationary_load_columns_per_cycle
        / core.tensor_clock_hz,
    )


def streaming_cycles(core: NeuronCore, columns: int, stationary_columns: int) -> float:
    """max(N, min(64, M)) cycles: the interval of one pass of the moving tile.

    N is `columns`, of the moving tile, and M is `stationary_columns`.
    """
    return maximum(columns, minimum(core.minimum_interval_cycles, stationary_columns))


def _element_index(dst: Tile, index: SnakeIndex) -> tuple[Array, Array]:
    """The numpy index of the elements of a snake-indexed `dst` in its footprint."""
    return np.arange(dst.partitions)[:, None], index.columns(dst.partitions)


def is_fresh(dst: Tile) -> bool:
    """True if no element of `dst` has been written by a matmul."""
    return dst.storage.accumulation_mask.is_disjoint(*_dense_runs(dst))


def is_started(dst: Tile) -> bool:
    """True if a matmul has written every element of `dst`."""
    if isinstance(dst.index, SnakeIndex):
        return bool(_started_flags(dst).all())
    return dst.storage.accumulation_mask.covers(*_dense_runs(dst))


def _dense_runs(dst: Tile) -> tuple[AccessPattern, int]:
    """The pattern of the tile's contiguous runs in the tensor's dense bytes, and a run's bytes."""
    runs, run_bytes = dst.layout.runs
    return dst.storage.dense_pattern(runs), run_bytes


def _started_flags(dst: Tile) -> Array:
    """One boolean per element of `dst`: whether a matmul has written it."""
    return _flags(dst.storage.accumulation_mask, dst)


def _flags(mask: ByteMask, dst: Tile) -> Array:
    """One boolean per element of `dst`: whether it is in `mask`, over the tensor's dense bytes."""
    flags = mask.flags(dst.storage.dense_pattern(dst.footprint), dst.dtype.itemsize)
    return flags[_element_index(dst, dst.index)] if isinstance(dst.index, SnakeIndex) else flags


def _check_started(instruction: Instruction, core: NeuronCore, dst: Tile) -> None:
    """Refuse accumulate=True onto elements that no matmul has written; on v4, that nothing has."""
    if is_started(dst):
        return
    is_written = dst.is_written()
    takes_written = core.features.matmul_onto_written
    if is_written and takes_written:
        return
    state = "was set by another instruction than a matmul" if is_written else "nothing wrote"
    legal = "was written" if takes_written else "a matmul with accumulate=False has started"
    raise UndefinedBehavior(
        f"{instruction.opcode}: accumulate=True onto {dst}, which {state}; legal on {core.name}: "
        f"PSUM that {legal}",
        fix="use accumulate=False for the first matmul, or leave accumulate out",
        source=f"{instruction.source}, Accumulation mode",
    )


def _check_not_set_by_others(instruction: Instruction, core: NeuronCore, dst: Tile) -> None:
    """Before v4, refuse accumulation onto elements that another instruction has overwritten."""
    storage = dst.storage
    if core.features.matmul_onto_written or not storage.is_set_by_others:
        return
    if storage.set_by_others.is_disjoint(*_dense_runs(dst)):
        return
    if not (is_started(dst) or (_started_flags(dst) & _flags(storage.set_by_others, dst)).any()):
        return
    raise UndefinedBehavior(
        f"{instruction.opcode}: accumulation onto {dst}, in which another instruction has "
        f"written elements since a matmul started them; legal on {core.name}: PSUM that only "
        "matmuls have written since",
        fix="start again with accumulate=False, and add the old values with nisa.tensor_tensor",
        source=f"{instruction.source}, Accumulation mode",
    )
