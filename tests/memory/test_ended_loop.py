"""Tensors after the loop on the device in whose body they were allocated."""

import numpy as np
import pytest

from trnsim.dtypes import FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import Memset, TensorCopy
from trnsim.memory import CoreMemory, Memory, Tile


def allocated(memory, **options):
    storage, layout = memory.allocate((4, 8), FLOAT32, Memory.SBUF, **options)
    return Tile(storage, FLOAT32, layout.pattern)


@pytest.mark.parametrize("address", [None, (0, 0)])
def test_a_tensor_of_a_loop_is_refused_after_it_and_others_are_not(bench, address):
    work = bench()
    memory = work.context.memory
    with memory.loop("nl.fori_loop"):
        inner = allocated(memory, address=address)
        with memory.outside_loops():
            constant = allocated(memory)
        for tile in (inner, constant):
            work.context.issue(Memset(tile, 1.0))
        work.context.issue(TensorCopy(inner, inner))
    work.context.issue(TensorCopy(constant, constant))
    for instruction in (TensorCopy(constant, inner), Memset(inner, 1.0)):
        with pytest.raises(
            IllegalInstruction, match=r"body of nl\.fori_loop allocated at"
        ) as caught:
            work.context.issue(instruction)
        assert "allocate it before the loop" in caught.value.fix


def test_an_inner_loop_ends_its_own_tensors(core_v3):
    memory = CoreMemory(core_v3, has_values=True)
    with memory.loop("nl.fori_loop"):
        outer = allocated(memory)
        with memory.loop("nl.while_loop"):
            inner = allocated(memory)
        with pytest.raises(IllegalInstruction, match=r"the body of nl\.while_loop"):
            inner.mark_written()
        outer.mark_written()
    with pytest.raises(IllegalInstruction, match="legal: in the body"):
        outer.is_written()


def test_a_loop_that_fails_hands_on_its_error(core_v3):
    memory = CoreMemory(core_v3, has_values=True)
    made = []

    def fail():
        with memory.loop("nl.fori_loop"):
            made.append(allocated(memory))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    (tile,) = made
    tile.mark_written()
    assert np.asarray(tile.is_written()).all()
