"""Reductions into the accumulator registers of the Vector Engine, by `reduce_cmd`.

Reductions take the float32 results before they are rounded to the dtype of `dst`: range_select's
note on stability has -inf in a bfloat16 `dst` beside FP32_MIN in a float32 `reduce_res`. The order
in which a lane adds is not documented; here it is numpy's. The registers of a reduction are those
of the partitions that the engine reads.

Source: nki.isa.tensor_scalar_reduce, nki.isa.exponential: Accumulator behavior.
"""

from __future__ import annotations

import numpy as np

from trnsim.dtypes import Array, Float32Array
from trnsim.errors import InternalError
from trnsim.isa.language.instruction import Instruction
from trnsim.isa.language.lanes import free_axis_operand
from trnsim.isa.language.machine import IDENTITIES, Machine
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operator_tables import ALU
from trnsim.memory import Tile

_COMMANDS_WITHOUT_RESULT = (ReduceCmd.idle, ReduceCmd.reset)


def check_command(
    instruction: Instruction, command: ReduceCmd, reduce_res: Tile | None, *legal: ReduceCmd
) -> None:
    """Refuse a command not in `legal`, and a `reduce_res` where the command accumulates nothing."""
    if command not in legal:
        instruction.refuse(
            f"reduce_cmd {getattr(command, 'name', command)}; legal: "
            f"{', '.join(c.name for c in legal)}",
            "use one of these",
        )
    if reduce_res is not None and command in _COMMANDS_WITHOUT_RESULT:
        instruction.refuse(
            f"reduce_res with reduce_cmd {command.name}, which accumulates nothing; legal: "
            f"{', '.join(c.name for c in legal if c not in _COMMANDS_WITHOUT_RESULT)}",
            "name the command that fills the accumulator, such as nisa.reduce_cmd.reset_reduce",
        )


def initial_values(
    machine: Machine,
    command: ReduceCmd,
    op: str,
    first_partition: int,
    values: Array,
    initial: Tile | float | None = None,
) -> Float32Array:
    """The register values from which a reduction by `command` starts, [P, 1].

    Args:
        machine: state of the core.
        command: the instruction's reduce_cmd.
        op: operator of the reduction, whose identity a reset writes.
        first_partition: the first partition of the values, and so the first register.
        values: the values to reduce, [P, ...]; only P matters here.
        initial: the value from which load_reduce starts.

    Raises:
        UndefinedBehavior: if `reduce` continues an accumulator that nothing reset.
    """
    lanes = len(values)
    if command is ReduceCmd.reduce:
        return machine.accumulators[Engine.vector].read(first_partition, lanes)
    start: Array | float = IDENTITIES[op]
    if command is ReduceCmd.load_reduce and initial is not None:
        start = free_axis_operand(initial, np.empty((lanes, 1)))
    return np.array(np.broadcast_to(np.asarray(start, np.float32), (lanes, 1)))


def accumulate(
    machine: Machine,
    command: ReduceCmd,
    op: str,
    first_partition: int,
    values: Array,
    initial: Tile | float | None = None,
) -> Float32Array | None:
    """Reduce float32 `values` along the free axes into the registers from `first_partition` on.

    The arguments are those of `initial_values`.

    Returns:
        The new register values, [P, 1]; None if `command` accumulates nothing.
    """
    registers = machine.accumulators[Engine.vector]
    if command is ReduceCmd.idle:
        registers.forget()
        return None
    start = initial_values(machine, command, op, first_partition, values, initial)
    if command is ReduceCmd.reset:
        registers.write(first_partition, start)
        return None
    operator = ALU[op]
    if operator.reduce is None:
        raise InternalError(f"{op} accumulates but does not reduce")
    reduction = operator.reduce(values.reshape(len(values), -1), axis=1).reshape(-1, 1)
    registers.write(first_partition, operator.apply(start, reduction))
    return registers.read(first_partition, len(values))
