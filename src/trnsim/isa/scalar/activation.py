"""Activation functions: activation, activation_reduce, and the accumulator shared by activate2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trnsim.arch import NeuronCore, advised, cores
from trnsim.behaviours.simulator import REDUCE_RES_MAY_ALIAS
from trnsim.dtypes import BFLOAT16, FLOAT32, TFLOAT32, Array, Float32Array
from trnsim.errors import UndefinedBehavior, Unspecified
from trnsim.isa.language.declaration import (
    Operand,
    State,
    StateUse,
    reads,
    vector_or_number,
    writes,
)
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import (
    column_or_number,
    free_axis_operand,
    is_column,
    is_float32,
    lane_cost,
)
from trnsim.isa.language.machine import IDENTITIES, BatchPlan, Machine, Plan
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operator_tables import (
    ACTIVATIONS,
    ALU,
    EXACT_FUNCTIONS,
    ActivationFunction,
)
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.isa.scalar.activate2 import Activate2

_TABLE = "nki.api.shared.rst, Supported Activation Functions for NKI ISA"
_ENGINES = "nki.api.shared.rst, NKI Engine Selection"
_COMMANDS = (ReduceCmd.idle, ReduceCmd.reset, ReduceCmd.reduce, ReduceCmd.reset_reduce)
_RESETS = (ReduceCmd.reset, ReduceCmd.reset_reduce)
_REDUCES = (ReduceCmd.reduce, ReduceCmd.reset_reduce)


class Activation(Instruction, engines=(Engine.scalar,)):
    """``dst = op(data * scale + bias)``; sums along the free axis go to the accumulator.

    `scale` and `bias` are numbers or [P, 1] tiles; on v2 `bias` must be a tile. The Scalar Engine
    keeps one float32 sum per lane between instructions: reduce_cmd sets it to zero (reset), adds to
    it (reduce), does both (reset_reduce) or neither (idle). `reduce_res` [P, 1] receives the sum.

    Note:
        AWS's pseudo code adds the old sum twice in `reduce`; its prose, followed here, adds it
        once. Functions are evaluated in float32; the chip approximates them by polynomials that AWS
        does not publish. The order in which a lane adds is not documented.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"
    indirect = ("dst", "data")

    dst: Tile = writes("P F", SBUF, PSUM)
    op: str
    data: Tile = reads("P F", SBUF, PSUM)
    bias: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    scale: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=1.0)
    reduce_op: str | None = None
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    reduce_cmd: ReduceCmd = ReduceCmd.idle

    def check(self, core: NeuronCore, n: Dims) -> None:
        """A known function with inputs in its range, and sums only.

        - `op` is a function of the Scalar Engine, not prelu, for whose slope there is no operand.
        - `scale` is float32; `bias` is not tfloat32, and on v2 a tile.
        - `reduce_op` is add; `reduce_cmd` is idle, reset, reduce or reset_reduce.
        - reciprocal takes no bias on v2.
        - Inputs of sin, arctan, log, sqrt, rsqrt and reciprocal lie in their range.
        """
        del n
        check_scaled(self, core)
        _check_sum(self, self.reduce_op)
        check_command(self, self.reduce_cmd)

    def execute(self, machine: Machine) -> None:
        """Float32 throughout; each result is rounded once on write."""
        function = named_function(self, self.op)
        values = self.data.load()
        vectors = [tile.bits() for tile in (self.scale, self.bias) if isinstance(tile, Tile)]
        # A function that may still refuse its inputs must leave dst as it was.
        writes_dst_last = not machine.core.does(REDUCE_RES_MAY_ALIAS)
        may_compute_in_dst = function.is_total and not writes_dst_last
        out = self.dst.output(values, *vectors) if may_compute_in_dst else None
        if not (isinstance(self.scale, int | float) and self.scale == 1):
            values = np.multiply(values, free_axis_operand(self.scale, values), out=out)
            out = values
        if self.bias is not None:
            values = np.add(values, free_axis_operand(self.bias, values), out=out)
            out = values
        check_values(self, function, values)
        if isinstance(function.apply, np.ufunc):
            result: Float32Array = function.apply(values, out=out)
        else:
            result = function.apply(values).astype(np.float32, copy=False)
        self.dst.store(result)
        accumulate(machine, self, result)
        if writes_dst_last and self.reduce_res is not None:
            self.dst.store(result)

    def plan(self) -> Plan | None:
        """A few functions of numpy on float32 arrays; sums in one call of BLAS."""
        compute = self._float32_function()
        if compute is None:
            return None

        def run(activation: Activation, machine: Machine) -> None:
            if activation._has_column_in_dst() or not machine.core.does(REDUCE_RES_MAY_ALIAS):
                activation.execute(machine)
                return
            result = compute(activation)
            if activation.reduce_res is not None:
                sums = _sums(result)
                first_partition = activation.data.start_partition
                machine.accumulators[Engine.scalar].write(first_partition, sums)
                activation.reduce_res.array[...] = sums

        return run

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """As `plan`, for many tiles at once; only for exact functions.

        Each tile's sums go to its own part of reduce_res.
        """
        compute = self._float32_function()
        is_exact = self.op in EXACT_FUNCTIONS and core.does(REDUCE_RES_MAY_ALIAS)
        if compute is None or not is_exact or self._has_column_in_dst() or not is_float32(self.dst):
            return None

        def run(activation: Activation, machine: Machine) -> None:
            del machine
            result = compute(activation)
            if activation.reduce_res is not None:
                activation.reduce_res.array[...] = _sums(result)

        return BatchPlan(run, may_refuse=not named_function(self, self.op).is_total)

    def _has_column_in_dst(self) -> bool:
        """True if `scale` or `bias` may share bytes with `dst`."""
        dst_bytes = self.dst.storage.data
        columns = [tile for tile in (self.scale, self.bias) if isinstance(tile, Tile)]
        return any(
            tile.storage is self.dst.storage
            or (dst_bytes is not None and tile.storage.data is dst_bytes)
            for tile in columns
        )

    def _float32_function(self) -> Callable[[Activation], Float32Array] | None:
        """A function that computes dst and returns its values; None unless it applies.

        It applies to plain float32 data and a float32 or bfloat16 dst, if the accumulator is either
        not used, or reset and written to a column `reduce_res`.
        """
        has_scale = isinstance(self.scale, Tile) or self.scale != 1
        steps: list[tuple[np.ufunc, str]] = [(np.multiply, "scale")] if has_scale else []
        steps += [(np.add, "bias")] if self.bias is not None else []
        operands = [getattr(self, name) for _, name in steps]
        dst, data = self.dst, self.data
        is_plain = (
            (dst.dtype is FLOAT32 or dst.dtype is BFLOAT16)
            and (dst.index is None and dst.shape == data.shape)
            and is_float32(data)
            and all(is_column(operand, data) for operand in operands if isinstance(operand, Tile))
        )
        if self.reduce_cmd is ReduceCmd.reset_reduce:
            sums = self.reduce_res
            is_plain = is_plain and sums is not None and is_column(sums, data)
        elif self.reduce_cmd is not ReduceCmd.idle or self.reduce_res is not None:
            return None
        return _function_of(named_function(self, self.op), steps) if is_plain else None

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F); reading the accumulator adds about 64 cycles.

        The engine first loads the function's table, if it holds another one.
        """
        return activation_cost(core, n, self.op, self.reduce_res)


class ActivationReduce(Instruction, engines=(Engine.scalar,)):
    """``dst = op(data * scale + bias); reduce_res = sum(dst)``: activation with reset_reduce.

    With reduce_res=None the sum stays in the accumulator, for a later `activation`.

    Note:
        AWS requires nl.add on v2 and does not say which operators later generations accept; others
        are refused there too, as unspecified.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"
    indirect = ("dst", "data")

    dst: Tile = writes("P F", SBUF, PSUM)
    op: str
    data: Tile = reads("P F", SBUF, PSUM)
    reduce_op: str
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM)
    bias: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    scale: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=1.0)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """As activation with reset_reduce.

        - `reduce_op` is add.
        - `scale` is float32; `bias` is not tfloat32, and on v2 a tile.
        """
        is_documented = core.features.activation_reduce_add_alone
        if self.reduce_op not in ("add", None) and not is_documented:
            limited = [c.version for c in cores() if c.features.activation_reduce_add_alone]
            raise Unspecified(
                f"activation_reduce: reduce_op {self.reduce_op} on {core.name}; AWS limits "
                f"{', '.join(limited)} to nl.add and does not say what later generations take",
                fix="reduce with nl.add, or with nisa.tensor_reduce or nisa.activate2",
                source="nki.isa.activation_reduce",
            )
        del n
        check_scaled(self, core)
        _check_sum(self, self.reduce_op)

    def execute(self, machine: Machine) -> None:
        """As activation."""
        self._activation().execute(machine)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F) + 64."""
        return self._activation().cost(core, n)

    def _verify_number(self, name: str, operand: Operand, value: object) -> None:
        """As for any operand; but reduce_res may be None although it has no default."""
        if name != "reduce_res" or value is not None:
            super()._verify_number(name, operand, value)

    def _activation(self) -> Activation:
        """The activation with reset_reduce that computes the same."""
        return Activation(
            self.dst,
            self.op,
            self.data,
            self.bias,
            self.scale,
            self.reduce_op,
            self.reduce_res,
            ReduceCmd.reset_reduce,
        )


def named_function(instruction: Instruction, op: str) -> ActivationFunction:
    """The activation function that `op` names."""
    function = ACTIVATIONS.get(str(op))
    if function is None:
        instruction.refuse(f"op {op}; legal: {', '.join(ACTIVATIONS)}", "use one of these", _TABLE)
    return function


def check_scaled(instruction: Activation | ActivationReduce, core: NeuronCore) -> None:
    """Refuse a function that needs a slope, and a scale or bias that the core does not take."""
    op, scale, bias = instruction.op, instruction.scale, instruction.bias
    if named_function(instruction, op).takes_relu_param:
        raise Unspecified(
            f"{instruction.opcode}: op {op}, for whose slope AWS names no operand here",
            fix=advised(
                "use nisa.activate2(op=nl.prelu, relu_param=...) on {core}",
                lambda core: core.features.activate2,
            ),
            source="release notes of NKI 0.4, nki.isa.activate2",
        )
    if isinstance(scale, Tile) and scale.dtype != FLOAT32:
        instruction.refuse(f"`scale` is {scale}; legal: float32", "allocate it as float32")
    if isinstance(bias, Tile) and bias.dtype == TFLOAT32:
        instruction.refuse(f"`bias` is {bias}; legal: not tfloat32", "allocate it as float32")
    features = core.features
    if op == "reciprocal" and bias is not None and not features.activation_reciprocal_bias:
        instruction.refuse(
            f"reciprocal with a bias on {core.name}; legal: without one",
            "add the bias first",
            _ENGINES,
        )
    if isinstance(bias, int | float) and not features.activation_number_bias:
        instruction.refuse(
            f"bias={bias} on {core.name}; legal: a tile of shape [P, 1]",
            "fill a [P, 1] tile with nisa.memset and pass it",
        )


def _check_sum(instruction: Instruction, reduce_op: str | None) -> None:
    if reduce_op not in (None, "add"):
        instruction.refuse(f"reduce_op {reduce_op}; legal: nl.add", "reduce with nl.add")


def check_command(instruction: Instruction, command: ReduceCmd) -> None:
    """Refuse a command that the Scalar Engine lacks."""
    if command not in _COMMANDS:
        instruction.refuse(
            f"reduce_cmd {command.name}; legal: {', '.join(legal.name for legal in _COMMANDS)}",
            "start with reset_reduce and go on with reduce",
        )


def _function_of(
    function: ActivationFunction, steps: Sequence[tuple[np.ufunc, str]]
) -> Callable[[Activation], Float32Array]:
    """``dst = function(data * scale + bias)`` on float32 arrays.

    Args:
        function: the function.
        steps: the operations before it, each with the field of its second operand.
    """
    apply, is_total = function.apply, function.is_total
    is_ufunc = isinstance(apply, np.ufunc)

    def compute(activation: Activation) -> Float32Array:
        dst, values = activation.dst, activation.data.array
        dst_array = dst.array
        out = dst_array if is_total and dst.dtype is FLOAT32 else None
        for operate, name in steps:
            values = operate(values, column_or_number(getattr(activation, name), dst), out=out)
            out = values
        if not is_total:
            check_values(activation, function, values)
        if is_ufunc:
            result = apply(values, out=out)
        else:
            result = apply(values).astype(np.float32, copy=False)
        if result is not dst_array:
            dst_array[...] = result
        return result

    return compute


def _sums(result: Float32Array) -> Float32Array:
    """The accumulators after a reset: zero plus the sums along the last axis, [P, 1]."""
    reduce = ALU["add"].reduce
    assert reduce is not None  # noqa: S101  add has one
    sums: Float32Array = np.add(reduce(result, axis=-1)[..., None], np.float32(0))
    return sums


def check_values(instruction: Instruction, function: ActivationFunction, values: Array) -> None:
    """Refuse inputs for which the function's results are not documented.

    Raises:
        UndefinedBehavior: if an input is outside the valid range.
    """
    if not function.is_legal(values):
        raise UndefinedBehavior(
            f"{instruction.opcode}: {function.name} of values from {values.min():g} to "
            f"{values.max():g}; legal: {function.low:g} to {function.high:g}"
            + (" in magnitude" if function.uses_magnitude else ""),
            fix="clamp the input first, for example with nisa.tensor_scalar(op0=nl.maximum)",
            source=_TABLE,
        )


def accumulate(
    machine: Machine,
    instruction: Activation | Activate2,
    result: Float32Array,
) -> None:
    """Execute `reduce_cmd` on the lanes of `data`, and write the accumulator to `reduce_res`.

    Raises:
        UndefinedBehavior: if a reduce continues an accumulator that nothing reset.
    """
    name, command = instruction.reduce_op or "add", instruction.reduce_cmd
    registers = machine.accumulators[Engine.scalar]
    start, lanes = instruction.data.start_partition, len(result)
    if command in _RESETS:
        registers.write(start, np.full((lanes, 1), IDENTITIES[name], np.float32))
    if command in _REDUCES:
        old = registers.read(start, lanes)
        registers.write(start, ALU[name].apply(old, reduced_along_free_axes(name, result)))
    if instruction.reduce_res is not None:
        instruction.reduce_res.store(registers.read(start, lanes))


def activation_cost(core: NeuronCore, n: Dims, op: str, reduce_res: Tile | None) -> Cost:
    """max(MIN_II, F), plus the time to read the accumulator if `reduce_res` is given.

    The engine first loads the function's table, if it holds another one.
    """
    extra = core.accumulator_read_cycles if reduce_res is not None else 0.0
    cost = lane_cost(core, Engine.scalar, n.F, extra)
    table = ACTIVATIONS[op].table
    if not table:
        return cost
    return replace(cost, table=table, held_load_s=core.activation_table_load_s)


def reduced_along_free_axes(name: str, values: Float32Array) -> Float32Array:
    """`values` [P, ...] reduced to [P, 1] by the ALU operator `name`."""
    flat = values.reshape(len(values), -1)
    operator = ALU[name]
    if operator.reduce is not None:
        return np.asarray(operator.reduce(flat, axis=1), np.float32).reshape(-1, 1)
    # abs_max and abs_min keep the later of equal magnitudes, as the operator does.
    backwards = np.abs(flat[:, ::-1])
    index = backwards.argmax(axis=1) if name == "abs_max" else backwards.argmin(axis=1)
    return np.take_along_axis(flat[:, ::-1], index[:, None], axis=1)
