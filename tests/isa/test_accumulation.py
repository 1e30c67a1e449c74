"""The accumulator registers of the Vector Engine under each command."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction, InternalError, UndefinedBehavior
from trnsim.isa import Engine, ReduceCmd, TensorScalarReduce
from trnsim.isa.accumulation import accumulate, check_command, starting
from trnsim.isa.machine import IDENTITIES, Machine

VALUES = np.array([[[1.0, 2.0], [3.0, 4.0]], [[-1.0, -2.0], [-3.0, -4.0]]], np.float32)
SUMS = [[10.0], [-10.0]]


@pytest.fixture
def machine(core_v3):
    return Machine(core_v3)


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_a_reset_starts_from_the_identity_of_the_operator(machine, op):
    start = starting(machine, ReduceCmd.reset_reduce, op, VALUES)
    assert start.tolist() == [[IDENTITIES[op]]] * 2
    assert start.dtype == np.float32
    assert accumulate(machine, ReduceCmd.reset, op, VALUES) is None
    assert machine.accumulators[Engine.vector].read(2).tolist() == [[IDENTITIES[op]]] * 2


def test_all_free_axes_are_reduced_and_the_registers_keep_the_result(machine):
    assert accumulate(machine, ReduceCmd.reset_reduce, "add", VALUES).tolist() == SUMS
    assert machine.accumulators[Engine.vector].read(2).tolist() == SUMS
    assert accumulate(machine, ReduceCmd.reduce, "add", VALUES).tolist() == [[20], [-20]]
    assert accumulate(machine, ReduceCmd.reduce, "maximum", VALUES).tolist() == [[20], [-1]]


def test_a_loaded_value_is_a_number_or_a_vector(machine, bench):
    load = ReduceCmd.load_reduce
    assert accumulate(machine, load, "add", VALUES, 5.0).tolist() == [[15], [-5]]
    vector = bench().tile(np.array([[1.0], [2.0]], np.float32))
    assert accumulate(machine, load, "add", VALUES, vector).tolist() == [[11], [-8]]


def test_idle_forgets(machine):
    accumulate(machine, ReduceCmd.reset_reduce, "add", VALUES)
    assert accumulate(machine, ReduceCmd.idle, "add", VALUES) is None
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        accumulate(machine, ReduceCmd.reduce, "add", VALUES)


def test_the_registers_of_the_scalar_engine_are_others(machine):
    machine.accumulators[Engine.scalar].write(np.zeros((2, 1), np.float32))
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        accumulate(machine, ReduceCmd.reduce, "add", VALUES)


def test_an_operator_that_does_not_reduce_is_a_defect(machine):
    with pytest.raises(InternalError, match="abs_max accumulates but does not reduce"):
        accumulate(machine, ReduceCmd.reset_reduce, "abs_max", VALUES)


def test_only_the_commands_of_an_instruction_are_legal(bench):
    tile = bench().empty((4, 8))
    made = TensorScalarReduce(tile, tile, "add", 1.0, "add")
    check_command(made, ReduceCmd.idle, None, ReduceCmd.idle)
    for command in (ReduceCmd.load_reduce, "reduce", None):
        with pytest.raises(IllegalInstruction, match=r"reduce_cmd .*; legal: reduce, idle"):
            check_command(made, command, None, ReduceCmd.reduce, ReduceCmd.idle)
    message = "reduce_res with reduce_cmd idle, which accumulates nothing; legal: reduce"
    with pytest.raises(IllegalInstruction, match=message):
        check_command(made, ReduceCmd.idle, tile, ReduceCmd.idle, ReduceCmd.reduce)
