"""The accumulator registers of the Vector Engine under each command."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction, InternalError, UndefinedBehavior
from trnsim.isa import (
    Activate2,
    Activation,
    Engine,
    Exponential,
    RangeSelect,
    ReduceCmd,
    SelectReduce,
    TensorScalarReduce,
)
from trnsim.isa.language.machine import IDENTITIES, Machine
from trnsim.isa.vector.accumulation import accumulate, check_command, initial_values
from trnsim.memory import Tile

VALUES = np.array([[[1.0, 2.0], [3.0, 4.0]], [[-1.0, -2.0], [-3.0, -4.0]]], np.float32)
SUMS = [[10.0], [-10.0]]


@pytest.fixture
def machine(core_v3):
    return Machine(core_v3)


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_a_reset_starts_from_the_identity_of_the_operator(machine, op):
    start = initial_values(machine, ReduceCmd.reset_reduce, op, 0, VALUES)
    assert start.tolist() == [[IDENTITIES[op]]] * 2
    assert start.dtype == np.float32
    assert accumulate(machine, ReduceCmd.reset, op, 0, VALUES) is None
    assert machine.accumulators[Engine.vector].read(0, 2).tolist() == [[IDENTITIES[op]]] * 2


def test_all_free_axes_are_reduced_and_the_registers_keep_the_result(machine):
    assert accumulate(machine, ReduceCmd.reset_reduce, "add", 0, VALUES).tolist() == SUMS
    assert machine.accumulators[Engine.vector].read(0, 2).tolist() == SUMS
    assert accumulate(machine, ReduceCmd.reduce, "add", 0, VALUES).tolist() == [[20], [-20]]
    assert accumulate(machine, ReduceCmd.reduce, "maximum", 0, VALUES).tolist() == [[20], [-1]]


def test_a_loaded_value_is_a_number_or_a_vector(machine, bench):
    load = ReduceCmd.load_reduce
    assert accumulate(machine, load, "add", 0, VALUES, 5.0).tolist() == [[15], [-5]]
    vector = bench().tile(np.array([[1.0], [2.0]], np.float32))
    assert accumulate(machine, load, "add", 0, VALUES, vector).tolist() == [[11], [-8]]


def test_idle_forgets(machine):
    accumulate(machine, ReduceCmd.reset_reduce, "add", 0, VALUES)
    assert accumulate(machine, ReduceCmd.idle, "add", 0, VALUES) is None
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        accumulate(machine, ReduceCmd.reduce, "add", 0, VALUES)


def test_the_registers_of_the_scalar_engine_are_others(machine):
    machine.accumulators[Engine.scalar].write(0, np.zeros((2, 1), np.float32))
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Vector Engine"):
        accumulate(machine, ReduceCmd.reduce, "add", 0, VALUES)


def test_an_operator_that_does_not_reduce_is_a_defect(machine):
    with pytest.raises(InternalError, match="abs_max accumulates but does not reduce"):
        accumulate(machine, ReduceCmd.reset_reduce, "abs_max", 0, VALUES)


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


def accumulating(work, part):
    """By name, what gives the instruction that reduces `part` into the registers, and its sums."""
    rows = part.partitions
    dst = work.empty(part.shape)
    ones = work.tile(np.ones(part.shape, np.uint8))
    low, high = (work.tile(np.full((rows, 1), x, np.float32)) for x in (-1, part.shape[1]))
    sums = part.load().sum(axis=1)
    largest = part.load().max(axis=1)
    return {
        "activation": (
            lambda command, result: Activation(
                dst, "copy", part, None, 1.0, "add", result, command
            ),
            sums,
        ),
        "activate2": (
            lambda command, result: Activate2(
                dst, "copy", part, 0.0, 0.0, None, None, 0.0, False, False, "add", result, command
            ),
            sums,
        ),
        "exponential": (
            lambda command, result: Exponential(dst, part, 0.0, result, command),
            np.exp(part.load()).sum(axis=1),
        ),
        "tensor_scalar_reduce": (
            lambda command, result: TensorScalarReduce(
                dst, part, "add", 0.0, "add", result, False, command
            ),
            sums,
        ),
        "select_reduce": (
            lambda command, result: SelectReduce(dst, ones, part, 0.0, result, command),
            largest,
        ),
        "range_select": (
            lambda command, result: RangeSelect(
                dst, part, "greater", "less", low, high, command, result
            ),
            largest,
        ),
    }


NAMES = (
    "activation",
    "activate2",
    "exponential",
    "tensor_scalar_reduce",
    "select_reduce",
    "range_select",
)


def part_of(tile, first, rows):
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(0, first, first + rows))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("first", "rows"), [(0, 128), (0, 1), (32, 32), (64, 64), (96, 5)])
def test_a_tile_uses_the_registers_of_its_partitions(bench, core_v4, random, name, first, rows):
    work = bench(core_v4)
    whole = work.tile(random((128, 6)))
    part = part_of(whole, first, rows)
    make, once = accumulating(work, part)[name]
    result = work.empty((rows, 1))
    for command, found in ((ReduceCmd.reset_reduce, None), (ReduceCmd.reduce, result)):
        work.issue(make(command, found))
    twice = once if name in ("select_reduce", "range_select") else 2 * once
    np.testing.assert_allclose(result.load()[:, 0], twice, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_tiles_of_other_partitions_have_sums_of_their_own(bench, core_v4, random, name):
    work = bench(core_v4)
    whole = work.tile(random((128, 6)))
    near, far = part_of(whole, 0, 32), part_of(whole, 64, 32)
    result = work.empty((32, 1))
    work.issue(accumulating(work, near)[name][0](ReduceCmd.reset_reduce, None))
    with pytest.raises(UndefinedBehavior, match="32 lanes from partition 64 on"):
        work.issue(accumulating(work, far)[name][0](ReduceCmd.reduce, result))
    work.issue(accumulating(work, far)[name][0](ReduceCmd.reset_reduce, result))
    make, once = accumulating(work, near)[name]
    work.issue(make(ReduceCmd.reduce, result))
    twice = once if name in ("select_reduce", "range_select") else 2 * once
    np.testing.assert_allclose(result.load()[:, 0], twice, rtol=1e-5, atol=1e-6)
