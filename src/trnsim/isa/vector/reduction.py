"""Reductions along the free axis: tensor_reduce."""

from __future__ import annotations

from math import prod

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import as_stored, is_float32, lane_cost
from trnsim.isa.language.machine import BatchPlan, Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operands import check_bitvec
from trnsim.isa.language.operator_tables import ALU
from trnsim.memory import Tile

_REDUCTIONS = [name for name, operator in ALU.items() if operator.reduce is not None]


class TensorReduce(Instruction, engines=(Engine.vector,)):
    """``dst = reduce(op, data, axis)`` over the last free axes; negated with `negate`.

    Note:
        The order in which a lane adds is not documented; here it is numpy's.
    """

    indirect = ("dst", "data")

    dst: Tile = writes("", SBUF, PSUM)
    op: str
    data: Tile = reads("P F", SBUF, PSUM)
    axis: int | tuple[int, ...]
    negate: bool = False
    keepdims: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """The axes are the last ones, never the partition axis.

        - dst has the partitions of data and the remaining elements.
        - `op` has a reduction; bitvec operators take integers and cannot negate.
        """
        del core, n
        if self.op not in _REDUCTIONS:
            self.refuse(f"op {self.op}; legal: {', '.join(_REDUCTIONS)}", "use one of these")
        self._check_bitvec()
        ndim = len(self.data.shape)
        axes = self._axes()
        if not axes or axes[0] <= 0 or axes != list(range(axes[0], ndim)):
            self.refuse(
                f"axis={self.axis} of data {self.data}; legal: the last free axes, such as "
                f"{tuple(range(1, ndim))}",
                "permute the tile so that the axes to reduce come last; transpose it to reduce "
                "partitions",
            )
        remaining = prod(self.data.shape[1 : axes[0]])
        dst_size = (self.dst.shape[0], prod(self.dst.shape[1:]))
        if dst_size != (self.data.shape[0], remaining):
            self.refuse(
                f"dst is {self.dst}; legal: {self.data.shape[0]} partitions x {remaining} elements",
                "allocate dst with the axes that remain",
            )

    def execute(self, machine: Machine) -> None:
        """Float32, or bits as stored for bitvec operators."""
        del machine
        operator = ALU[self.op]
        assert operator.reduce is not None  # noqa: S101  ensured by `check`
        data = self.data.bits() if operator.is_bitvec else self.data.load()
        first_axis = self._axes()[0]
        result = operator.reduce(data.reshape(*data.shape[:first_axis], -1), axis=-1)
        if operator.is_bitvec:
            result = as_stored(result, self.dst.dtype.dtype)
        self.dst.store(-result if self.negate else result)

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """The sum, maximum or minimum of each row of contiguous float32 elements."""
        del core
        data, dst = self.data, self.dst
        is_plain = (
            self.op in ("add", "maximum", "minimum")
            and len(data.shape) == len(("P", "F"))
            and is_float32(data)
            and is_float32(dst)
            and data.pattern.strides_bytes[1] == data.dtype.itemsize
        )
        reduce = ALU[self.op].reduce
        if not is_plain or reduce is None:
            return None

        def run(instruction: TensorReduce, machine: Machine) -> None:
            del machine
            result = reduce(instruction.data.array, axis=-1)
            out = instruction.dst.array
            out[...] = (-result if instruction.negate else result).reshape(out.shape)

        return BatchPlan(run)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The elements of dst of which all reduced elements are written."""
        dst_flags = np.asarray(flags.reshape(*tile.shape[: self._axes()[0]], -1).all(axis=-1))
        return [(self.dst, dst_flags)] if dst_flags.any() else None

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F/2 for add or maximum of bfloat16 into bfloat16, else F."""
        is_fast = self.data.dtype.name == self.dst.dtype.name == "bfloat16" and self.op in (
            "add",
            "maximum",
        )
        return lane_cost(core, Engine.vector, n.F / (2 if is_fast else 1))

    def _axes(self) -> list[int]:
        """The axes to reduce, ascending, none negative."""
        axes = (self.axis,) if isinstance(self.axis, int) else self.axis
        ndim = len(self.data.shape)
        return sorted(axis + ndim if axis < 0 else axis for axis in axes)

    def _check_bitvec(self) -> None:
        """Refuse bitvec operators on other dtypes than integers, and with negate."""
        check_bitvec(self, ALU[self.op], self.data, self.dst)
        if ALU[self.op].is_bitvec and self.negate:
            self.refuse(
                f"bitvec operator {self.op} with negate=True; legal: negate=False",
                "negate the result with nisa.tensor_scalar",
            )
