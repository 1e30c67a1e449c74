"""The activation instruction of NeuronCore-v4: activate2."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Float32Array
from trnsim.isa.language.declaration import State, StateUse, reads, vector_or_number, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import free_axis_operand
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operator_tables import ALU
from trnsim.isa.language.support import check_support
from trnsim.isa.scalar.activation import (
    accumulate,
    activation_cost,
    check_command,
    check_values,
    named_function,
)
from trnsim.memory import Tile

_BYPASS = "bypass"
_PAIRS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", _BYPASS),
    ("add", _BYPASS),
    ("subtract", _BYPASS),
    (_BYPASS, _BYPASS),
)
_REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")


class Activate2(Instruction, engines=(Engine.scalar,)):
    """``dst = op((data <op0> imm0) <op1> imm1)``, reduced along the free axis into the accumulator.

    `imm0`, `imm1` and `relu_param` are numbers or [P, 1] tiles; `reverse0` and `reverse1` swap the
    two sides of an operator; nl.bypass skips a stage. The accumulator is that of `activation`; a
    reset sets it to the identity of `reduce_op`.

    Note:
        Functions are evaluated in float32; the chip approximates them by polynomials that AWS does
        not publish. The order in which a lane reduces is not documented.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"
    indirect = ("dst", "data")

    dst: Tile = writes("P F", SBUF, PSUM)
    op: str
    data: Tile = reads("P F", SBUF, PSUM)
    imm0: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    imm1: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    op0: str | None
    op1: str | None
    relu_param: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=0.0)
    reverse0: bool = False
    reverse1: bool = False
    reduce_op: str | None = None
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    reduce_cmd: ReduceCmd = ReduceCmd.idle

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v4 on.

        - (op0, op1) is one of (multiply, add), (multiply, subtract), (multiply, bypass), (add,
          bypass), (subtract, bypass), (bypass, bypass).
        - `reverse0` needs an op0 and `reverse1` an op1.
        - `imm0` and `imm1` have one dtype where both are tiles.
        - `reduce_op` is add, maximum, minimum, abs_max or abs_min; `reduce_cmd` is not load_reduce.
        - Inputs of sin, arctan, log, sqrt, rsqrt and reciprocal lie in their range.
        """
        del n
        check_support(
            self,
            core,
            lambda core: core.features.activate2,
            "use nisa.activation, or run with target='{target}'",
        )
        named_function(self, self.op)
        self._check_operators()
        tiles = [t for t in (self.imm0, self.imm1) if isinstance(t, Tile)]
        if len({tile.dtype for tile in tiles}) > 1:
            self.refuse(
                f"`imm0` is {self.imm0} and `imm1` is {self.imm1}; legal: equal dtypes",
                "cast one of them with nisa.tensor_copy",
            )
        check_command(self, self.reduce_cmd)
        uses_operator = self.reduce_cmd is not ReduceCmd.idle
        if self.reduce_op not in _REDUCTIONS and (self.reduce_op is not None or uses_operator):
            self.refuse(
                f"reduce_op {self.reduce_op} with reduce_cmd {self.reduce_cmd.name}; legal: "
                f"{', '.join(_REDUCTIONS)}",
                "name the operator of the accumulator",
            )

    def execute(self, machine: Machine) -> None:
        """Float32 throughout; each result is rounded once on write."""
        values = self.data.load()
        values = _stage(self.op0, self.imm0, values, reverse=self.reverse0)
        values = _stage(self.op1, self.imm1, values, reverse=self.reverse1)
        function = named_function(self, self.op)
        check_values(self, function, values)
        if function.takes_relu_param:
            result = function.apply(values, free_axis_operand(self.relu_param, values))
        else:
            result = function.apply(values)
        result = result.astype(np.float32, copy=False)
        self.dst.store(result)
        accumulate(machine, self, result)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F); reading the accumulator adds about 64 cycles.

        The engine first loads the function's table, if it holds another one.
        """
        return activation_cost(core, n, self.op, self.reduce_res)

    def _check_operators(self) -> None:
        """Refuse a pair (op0, op1) that the engine lacks, and reverse without an operator."""
        pair = tuple(_BYPASS if op is None else op for op in (self.op0, self.op1))
        if pair not in _PAIRS:
            self.refuse(
                f"op0 {self.op0}, op1 {self.op1}; legal: "
                + ", ".join(f"({first}, {second})" for first, second in _PAIRS),
                "use nisa.tensor_scalar for other operators",
            )
        for stage, (op, is_reversed) in enumerate(
            zip(pair, (self.reverse0, self.reverse1), strict=True)
        ):
            if is_reversed and op == _BYPASS:
                self.refuse(
                    f"reverse{stage}=True with op{stage} {op}; legal: with an operator",
                    f"leave reverse{stage} out",
                )


def _stage(
    op: str | None, operand: Tile | float, values: Float32Array, *, reverse: bool
) -> Float32Array:
    """``values <op> operand``, sides swapped with `reverse`; `values` unchanged for bypass."""
    if op in (None, _BYPASS):
        return values
    broadcast = free_axis_operand(operand, values)
    apply = ALU[op].apply
    result = apply(broadcast, values) if reverse else apply(values, broadcast)
    return np.asarray(result, np.float32)
