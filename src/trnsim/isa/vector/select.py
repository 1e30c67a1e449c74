"""Selection between elements: tensor_copy_predicated, select_reduce, range_select."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import (
    BOOL,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    TFLOAT32,
    UINT8,
    UINT16,
    UINT32,
    Array,
    round_to,
)
from trnsim.errors import UndefinedBehavior
from trnsim.isa.language.declaration import State, StateUse, reads, vector_or_number, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import free_axis_operand, lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operands import check_not_both_in_psum, is_number
from trnsim.isa.language.operator_tables import ALU
from trnsim.isa.language.support import check_support
from trnsim.isa.vector.accumulation import accumulate, check_command
from trnsim.memory import Tile

FP32_MIN: Final = float(np.finfo(np.float32).min)
_EXACT_INTEGERS_END: Final = 1 << 24
_COMPARISONS: Final = ("equal", "less", "less_equal", "greater", "greater_equal")


def _rows(tile: Tile, values: Array) -> Array:
    """`values` of a tile as [P, F], whatever the shape of its free axes."""
    return values.reshape(tile.partitions, -1)


def _selection_mask(predicate: Tile, *, reverse: bool) -> Array:
    """One boolean per element, [P, F]: predicate != 0, or predicate == 0 with `reverse`."""
    bits = _rows(predicate, predicate.bits())
    return np.equal(bits, 0) if reverse else np.not_equal(bits, 0)


def _blend(mask: Array, on_true: Array, on_false: Array) -> Array:
    """``np.where(mask, on_true, on_false)`` for arrays of one dtype.

    Computed on bits, which is faster than np.where on irregular masks.
    """
    integer = np.dtype(f"i{on_true.dtype.itemsize}")
    true_bits, false_bits = on_true.view(integer), on_false.view(integer)
    blended: Array = false_bits ^ ((false_bits ^ true_bits) & -mask.astype(integer))
    return blended.view(on_true.dtype)


def _selection_cost(core: NeuronCore, inputs: Iterable[object], F: int, extra: float = 0.0) -> Cost:
    """F cycles if an input is in PSUM or a number, 2F if both are in SBUF."""
    tiles = [tile for tile in inputs if isinstance(tile, Tile)]
    are_both_in_sbuf = len(tiles) > 1 and all(tile.memory is SBUF for tile in tiles)
    return lane_cost(core, Engine.vector, F * (2 if are_both_in_sbuf else 1), extra)


class TensorCopyPredicated(Instruction, engines=(Engine.vector,)):
    """``dst = src where predicate != 0``; elsewhere `dst` keeps its elements.

    `src` is a tile of the dtype of `dst`, copied bit for bit, or a number. `reverse_pred` copies
    where the predicate is 0. Elements that dst keeps need not have been written.

    Note:
        A bool_ predicate is not in AWS's list, but AWS's own test passes one.
    """

    indirect = ("dst", "predicate")
    written_flags_used = ("dst",)

    dst: Tile = writes("P F", SBUF, PSUM)
    src: Tile | float = vector_or_number("P F", SBUF, PSUM)
    # bool_ is not in AWS's list, but AWS's own test passes it: test_nki_isa_copypredicated.py.
    predicate: Tile = reads("P F", SBUF, PSUM, dtypes=(UINT8, UINT16, UINT32, BOOL))
    reverse_pred: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`src` and dst have one dtype.

        - At most one of src and predicate is in PSUM.
        """
        del core, n
        if isinstance(self.src, Tile) and self.src.dtype != self.dst.dtype:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal dtypes",
                "cast src with nisa.tensor_copy",
            )
        check_not_both_in_psum(self, "src", "predicate")

    def execute(self, machine: Machine) -> None:
        """Bit for bit; a number is rounded to the dtype of dst once."""
        del machine
        dst = self.dst
        mask = _selection_mask(self.predicate, reverse=self.reverse_pred)
        if isinstance(self.src, Tile):
            bits = _rows(dst, self.src.bits())
        else:
            bits = round_to(np.asarray([[self.src]], np.float64), dst.dtype)
        dst.put(_blend(mask, bits, _rows(dst, dst.bits())))
        if dst.index is None:
            dst.storage.note_write(dst.box)
            places = mask.reshape(dst.shape)
            dst.storage.written.mark(dst.footprint, dst.dtype.itemsize, places)
            if dst.storage.is_accumulated:
                dst.note_psum_write(by_matmul=False, places=places)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """Copied elements are written if src's are, kept elements if dst's were.

        Elements with an unwritten predicate are unwritten.
        """
        dst = self.dst
        if dst.index is not None:
            return None
        mask = _selection_mask(self.predicate, reverse=self.reverse_pred)
        operand_flags, dst_flags = _rows(dst, flags), _rows(dst, dst.written_flags())
        if tile is self.predicate:
            written_after = operand_flags & (mask | dst_flags)
        else:
            written_after = np.where(mask, operand_flags, dst_flags)
        return [(dst, written_after)] if operand_flags.any() else None

    def fully_written_tiles(self) -> Iterable[Tile]:
        """A scattered dst; otherwise none, as `execute` marks the copied elements itself."""
        return [self.dst] if self.dst.index is not None else []

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F) with src or predicate in PSUM or src a number, else max(MIN_II, 2F)."""
        return _selection_cost(core, (self.src, self.predicate), n.F)


class SelectReduce(Instruction, engines=(Engine.vector,)):
    """``dst = on_true where predicate != 0 else on_false``; ``reduce_res = max(dst)`` along F.

    `on_false` is a number or a [P, 1] tile. `reverse_pred` swaps the two sides.

    Note:
        A bool_ predicate is not in AWS's list, but AWS's own test passes one. A `reduce_cmd` of
        idle leaves the accumulator registers undefined.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"

    dst: Tile = writes("P F", SBUF, PSUM)
    # bool_ is not in AWS's list, but AWS's own test passes it: test_nki_isa_select_reduce.py.
    predicate: Tile = reads("P F", SBUF, PSUM, dtypes=(INT8, UINT8, INT16, UINT16, BOOL))
    on_true: Tile = reads("P F", SBUF, PSUM)
    on_false: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    reduce_cmd: ReduceCmd = ReduceCmd.idle
    reduce_op: str = "maximum"
    reverse_pred: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """on_true has any dtype but tfloat32, int32 and uint32.

        - At most one of on_true and predicate is in PSUM.
        - `reduce_op` is maximum, and `reduce_res` a float tile.
        - `reduce_cmd` is idle, reset_reduce or reduce; `reduce_res` needs one of the last two.
        """
        del core, n
        if self.on_true.dtype in (TFLOAT32, INT32, UINT32):
            self.refuse(
                f"on_true is {self.on_true}; legal: any dtype but tfloat32, int32 and uint32",
                "cast it with nisa.tensor_copy",
            )
        if self.reduce_res is not None and not self.reduce_res.dtype.is_float:
            self.refuse(
                f"reduce_res is {self.reduce_res}; legal: a float dtype", "allocate it as float32"
            )
        _check_maximum(self, self.reduce_op)
        check_command(
            self,
            self.reduce_cmd,
            self.reduce_res,
            ReduceCmd.idle,
            ReduceCmd.reset_reduce,
            ReduceCmd.reduce,
        )
        check_not_both_in_psum(self, "on_true", "predicate")

    def execute(self, machine: Machine) -> None:
        """Float32, each result rounded once on write."""
        on_true = _rows(self.dst, self.on_true.load())
        mask = _selection_mask(self.predicate, reverse=self.reverse_pred)
        on_false = np.asarray(free_axis_operand(self.on_false, on_true), np.float32).reshape(-1, 1)
        values = _blend(mask, on_true, on_false)
        first_partition = self.on_true.start_partition
        maxima = accumulate(machine, self.reduce_cmd, self.reduce_op, first_partition, values)
        self.dst.store(values)
        if self.reduce_res is not None and maxima is not None:
            self.reduce_res.store(maxima)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """Element by element; on_true need not be written where it is not selected."""
        if tile is self.on_true:
            mask = _selection_mask(self.predicate, reverse=self.reverse_pred)
            flags = flags | ~mask.reshape(flags.shape)
        return super().elements_written_after(tile, flags)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """As tensor_copy_predicated, with on_true as src; `reduce_res` adds 64 cycles.

        This is assumed: AWS gives no formula.
        """
        extra = core.accumulator_read_cycles if self.reduce_res is not None else 0.0
        return _selection_cost(core, (self.on_true, self.predicate), n.F, extra)


class RangeSelect(Instruction, engines=(Engine.vector,)):
    """``dst = on_true where (i <comp_op0> bound0) and (i <comp_op1> bound1) else FP32_MIN``.

    ``i`` is `range_start` plus the index along the free axis; bounds are float32 [P, 1] tiles.
    ``reduce_res = max(dst)`` along F, of the float32 values before they are rounded to dst.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"

    dst: Tile = writes("P F", SBUF, PSUM)
    on_true_tile: Tile = reads("P F", SBUF, PSUM)
    comp_op0: str
    comp_op1: str
    bound0: Tile = reads("P 1", SBUF, PSUM, dtypes=(FLOAT32,))
    bound1: Tile = reads("P 1", SBUF, PSUM, dtypes=(FLOAT32,))
    reduce_cmd: ReduceCmd = ReduceCmd.reset_reduce
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    reduce_op: str = "maximum"
    range_start: int = 0
    on_false_value: float = FP32_MIN

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on.

        - on_true_tile has a float dtype.
        - `comp_op0` and `comp_op1` are equal, less, less_equal, greater or greater_equal.
        - `range_start` is a whole number, and indices stay within 2^24.
        - `on_false_value` is FP32_MIN; `reduce_op` is maximum; `reduce_res` needs a command that
          accumulates.
        """
        check_support(
            self,
            core,
            lambda core: core.features.range_select,
            "compare an iota with nisa.tensor_scalar and use nisa.tensor_copy_predicated",
        )
        if not self.on_true_tile.dtype.is_float:
            self.refuse(
                f"on_true_tile is {self.on_true_tile}; legal: a float dtype",
                "cast it with nisa.tensor_copy",
            )
        for field in ("comp_op0", "comp_op1"):
            if getattr(self, field) not in _COMPARISONS:
                self.refuse(
                    f"{field} {getattr(self, field)}; legal: {', '.join(_COMPARISONS)}",
                    "use one of these",
                )
        _check_maximum(self, self.reduce_op)
        check_command(
            self,
            self.reduce_cmd,
            self.reduce_res,
            ReduceCmd.reset_reduce,
            ReduceCmd.reduce,
            ReduceCmd.reset,
            ReduceCmd.idle,
        )
        self._check_constants(n)

    def execute(self, machine: Machine) -> None:
        """Indices and bounds are compared in float32."""
        data = _rows(self.dst, self.on_true_tile.load())
        values = _blend(self._range_mask(data.shape[1]), data, np.asarray([[FP32_MIN]], np.float32))
        first_partition = self.on_true_tile.start_partition
        maxima = accumulate(machine, self.reduce_cmd, self.reduce_op, first_partition, values)
        self.dst.store(values)
        if self.reduce_res is not None and maxima is not None:
            self.reduce_res.store(maxima)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """Element by element; on_true_tile need not be written outside the range."""
        if tile is self.on_true_tile:
            mask = self._range_mask(prod(flags.shape[1:]))
            flags = flags | ~mask.reshape(flags.shape)
        return super().elements_written_after(tile, flags)

    def _range_mask(self, length: int) -> Array:
        """One boolean per element, [P, F]: whether its index lies in the range; F is `length`."""
        indices = np.arange(self.range_start, self.range_start + length, dtype=np.float32)
        mask = ALU[self.comp_op0].apply(indices, self.bound0.load().reshape(-1, 1)) != 0
        return np.asarray(
            mask & (ALU[self.comp_op1].apply(indices, self.bound1.load().reshape(-1, 1)) != 0)
        )

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F), with or without the reduction."""
        return lane_cost(core, Engine.vector, n.F)

    def _check_constants(self, n: Dims) -> None:
        value = self.on_false_value
        if not is_number(value) or np.float32(value) != np.float32(FP32_MIN):
            self.refuse(
                f"on_false_value {value}; legal: FP32_MIN ({FP32_MIN})",
                "leave it out, and replace the value afterwards",
            )
        start = self.range_start
        if not is_number(start) or start != int(start):
            self.refuse(
                f"range_start {start}; legal: an integer known when the kernel is compiled",
                "add a run-time offset to the bounds instead",
            )
        if max(abs(start), abs(start + n.F - 1)) > _EXACT_INTEGERS_END:
            raise UndefinedBehavior(
                f"range_select: indices {start} to {start + n.F - 1}; legal: within 2^24, beyond "
                "which float32 skips integers",
                fix="subtract an offset from range_start and from the bounds",
                source=self.source,
            )


def _check_maximum(instruction: Instruction, reduce_op: str) -> None:
    if reduce_op != "maximum":
        instruction.refuse(f"reduce_op {reduce_op}; legal: nl.maximum", "reduce with nl.maximum")
