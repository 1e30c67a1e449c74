"""Scans along the free axis: tensor_tensor_scan, tensor_scalar_cumulative."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    UINT8,
    UINT16,
    Array,
    Float32Array,
)
from trnsim.isa.language.declaration import State, StateUse, reads, vector_or_number, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operands import (
    BINARY,
    apply,
    apply_along,
    arithmetic,
    check_float32,
    check_not_both_in_psum,
    check_operand,
    is_bypass,
)
from trnsim.isa.language.operator_tables import ALU, AluOperator
from trnsim.isa.vector.accumulation import check_command, initial_values
from trnsim.memory import Tile

# Operators that give the same bits with their sides swapped: numpy's left-to-right scan has them.
_ACCUMULATIONS = {
    "add": np.add.accumulate,
    "multiply": np.multiply.accumulate,
    "maximum": np.maximum.accumulate,
    "minimum": np.minimum.accumulate,
}
_CUMULATIVE_OPERATORS = (*_ACCUMULATIONS, "subtract")
_CUMULATIVE_DTYPES = (
    *(FLOAT32, BFLOAT16, FLOAT16, FLOAT8_E4M3, FLOAT8_E4M3FN, FLOAT8_E5M2),
    *(UINT8, UINT16, INT8, INT16),
)


class TensorTensorScan(Instruction, engines=(Engine.vector,)):
    """``dst[:, i] = (data0[:, i] <op0> dst[:, i-1]) <op1> data1[:, i]``, in float32.

    `initial`, a number or a [P, 1] tile, stands for ``dst[:, -1]``. The value carried from element
    to element is the float32 result before it is rounded to dst. `reverse0` makes data0 the right
    side of op0, `reverse1` makes data1 the left side of op1.
    """

    result_depends_on = "elements so far"

    dst: Tile = writes("P F", SBUF, PSUM)
    data0: Tile = reads("P F", SBUF, PSUM)
    data1: Tile = reads("P F", SBUF, PSUM)
    initial: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    op0: str
    op1: str
    reverse0: bool = False
    reverse1: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Binary arithmetic operators.

        - At most one of data0 and data1 is in PSUM.
        """
        del n
        for field in ("op0", "op1"):
            arithmetic(self, field, core, arity=BINARY)
        check_not_both_in_psum(self, "data0", "data1")

    def execute(self, machine: Machine) -> None:
        """Sequential in float32, rounded once on write."""
        del machine
        lanes = self.dst.partitions
        data0, data1 = (tile.load().reshape(lanes, -1) for tile in (self.data0, self.data1))
        start = self.initial.load() if isinstance(self.initial, Tile) else self.initial
        initial = np.broadcast_to(np.asarray(start, np.float32).reshape(-1, 1), (lanes, 1))
        # A data0 of ones leaves the carried value as it is.
        if self.op1 in _ACCUMULATIONS and self.op0 == "multiply" and (data0 == 1).all():
            chain = np.concatenate((initial, data1), axis=1)
            result = _ACCUMULATIONS[self.op1](chain, axis=1)[:, 1:]
        else:
            result = self._step_by_step(data0, data1, initial.reshape(-1))
        self.dst.store(result)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, 2F)."""
        return lane_cost(core, Engine.vector, 2 * n.F)

    def _step_by_step(
        self, data0: Float32Array, data1: Float32Array, state: Float32Array
    ) -> Float32Array:
        """The scan element by element, for all lanes at once."""
        operator0, operator1 = ALU[self.op0], ALU[self.op1]
        columns0, columns1 = np.array(data0.T, order="C"), np.ascontiguousarray(data1.T)
        op0, op1 = operator0.apply, operator1.apply
        is_plain = isinstance(op0, np.ufunc) and isinstance(op1, np.ufunc)
        if is_plain and not (self.reverse0 or self.reverse1):
            for x, y in zip(columns0, columns1, strict=True):
                op0(x, state, out=x)
                state = op1(x, y, out=x)
            return columns0.T
        for x, y in zip(columns0, columns1, strict=True):
            intermediate: Array = apply(operator0, x, state, reverse=self.reverse0)
            x[:] = apply(operator1, intermediate, y, reverse=self.reverse1)
            state = x
        return columns0.T


class TensorScalarCumulative(Instruction, engines=(Engine.vector,)):
    """``dst[:, i] = reg = (src[:, i] <op0> imm0) <op1> reg``, in float32.

    The register starts as the identity of op1 (reset_reduce), as `imm1` (load_reduce) or with the
    value left by an earlier instruction (reduce). `imm0` and `imm1` are numbers or [P, 1] tiles.

    Note:
        AWS's pseudo code has a reverse0 that the signature lacks. Its subtract subtracts the
        register from the value.
    """

    state = (StateUse(State.accumulators, "update"),)
    indirect = ("dst", "src")
    result_depends_on = "elements so far"

    dst: Tile = writes("P F", SBUF, PSUM, dtypes=_CUMULATIVE_DTYPES)
    src: Tile = reads("P F", SBUF, PSUM, dtypes=_CUMULATIVE_DTYPES)
    op0: str
    op1: str
    imm0: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    imm1: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    reduce_cmd: ReduceCmd = ReduceCmd.reset_reduce

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`op0` is arithmetic; `op1` is add, subtract, multiply, maximum or minimum.

        - `imm0` and `imm1` are numbers or float32 tiles.
        - `reduce_cmd` is reset_reduce, reduce or load_reduce, the last with `imm1`.
        """
        del n
        check_operand(self, "imm0", arithmetic(self, "op0", core, may_bypass=True))
        if self.op1 not in _CUMULATIVE_OPERATORS:
            self.refuse(
                f"op1 {self.op1}; legal: {', '.join(_CUMULATIVE_OPERATORS)}", "use one of these"
            )
        check_float32(self, "imm1")
        check_command(
            self,
            self.reduce_cmd,
            None,
            ReduceCmd.reset_reduce,
            ReduceCmd.reduce,
            ReduceCmd.load_reduce,
        )
        if self.reduce_cmd is ReduceCmd.load_reduce and self.imm1 is None:
            self.refuse(
                "reduce_cmd load_reduce without imm1; legal: a number or a float32 [P, 1] tile",
                "pass the value from which the accumulator starts as imm1",
            )

    def execute(self, machine: Machine) -> None:
        """Sequential in float32, rounded once on write; the registers keep the last element."""
        values = self.src.load()
        if not is_bypass(self.op0):
            values = apply_along(ALU[self.op0], values, self.imm0)
        values = values.reshape(len(values), -1)
        first = self.src.start_partition
        start = initial_values(machine, self.reduce_cmd, self.op1, first, values, self.imm1)
        if self.op1 in _ACCUMULATIONS:
            chain = np.concatenate((start, values), axis=1)
            result = _ACCUMULATIONS[self.op1](chain, axis=1)[:, 1:]
        else:
            result = _scan_by_column(ALU[self.op1], values, start)
        machine.accumulators[Engine.vector].write(first, result[:, -1:])
        self.dst.store(result)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F): AWS gives no formula; one input tile takes about F cycles.

        Source: trainium_inferentia2_arch.rst, Vector Engine, Cost Model.
        """
        return lane_cost(core, Engine.vector, n.F)


def _scan_by_column(operator: AluOperator, values: Array, start: Float32Array) -> Float32Array:
    """``reg = value <op> reg`` for each element of a row; subtract is thus ``value - reg``."""
    columns = np.ascontiguousarray(values.T)
    result = np.empty_like(columns)
    state: Array = start.reshape(-1)
    for value, out in zip(columns, result, strict=True):
        out[:] = state = operator.apply(value, state)
    return result.T
