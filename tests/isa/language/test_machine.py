"""What instructions touch beyond their operands: accumulator registers and the other core."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import Engine
from trnsim.isa.language.machine import Machine


@pytest.fixture
def machine(core_v3):
    return Machine(core_v3)


@pytest.mark.parametrize("engine", [Engine.scalar, Engine.vector])
def test_registers_are_undefined_until_something_resets_them(machine, engine):
    registers = machine.accumulators[engine]
    message = f"registers of the {engine.label} are read for 4 lanes"
    with pytest.raises(UndefinedBehavior, match=message) as caught:
        registers.read(0, 4)
    assert "reset_reduce" in caught.value.fix
    registers.write(0, np.arange(4.0).reshape(4, 1))
    assert registers.read(0, 4).ravel().tolist() == [0, 1, 2, 3]
    assert registers.read(0, 2).ravel().tolist() == [0, 1]
    with pytest.raises(UndefinedBehavior, match="read for 5 lanes"):
        registers.read(0, 5)
    registers.forget()
    with pytest.raises(UndefinedBehavior):
        registers.read(0, 1)


def test_the_engines_keep_their_own_registers(machine):
    machine.accumulators[Engine.scalar].write(0, np.ones((2, 1)))
    with pytest.raises(UndefinedBehavior):
        machine.accumulators[Engine.vector].read(0, 1)


def test_registers_hold_a_float32_copy(machine):
    registers, values = machine.accumulators[Engine.vector], np.full((2, 1), 0.1)
    registers.write(0, values)
    values[:] = 7
    assert registers.read(0, 2).dtype == np.float32
    assert registers.read(0, 2)[0, 0] == np.float32(0.1)


def test_registers_are_those_of_partitions(machine):
    registers = machine.accumulators[Engine.vector]
    registers.write(64, np.arange(32.0).reshape(32, 1))
    assert registers.read(64, 32).ravel().tolist() == list(range(32))
    for first in (0, 32, 96):
        with pytest.raises(UndefinedBehavior, match=f"lanes from partition {first} on"):
            registers.read(first, 32)


def test_tiles_of_other_partitions_leave_each_others_registers(machine):
    registers = machine.accumulators[Engine.vector]
    registers.write(0, np.ones((128, 1)))
    registers.write(32, np.full((32, 1), 2.0))
    registers.write(96, np.full((8, 1), 3.0))
    expected = [1.0] * 32 + [2.0] * 32 + [1.0] * 32 + [3.0] * 8 + [1.0] * 24
    assert registers.read(0, 128).ravel().tolist() == expected
    assert registers.read(96, 9).ravel().tolist() == [3.0] * 8 + [1.0]


def test_a_single_core_has_no_partner(machine):
    with pytest.raises(IllegalInstruction, match=r"sendrecv in a kernel launched on one core"):
        machine.core_link("sendrecv")


def test_a_linked_core_has_one(core_v3):
    link = object()
    assert Machine(core_v3, link).core_link("sendrecv") is link
