"""What instructions of one signature share: operands by name, registers, indices."""

import numpy as np
import pytest

from trnsim.isa import (
    BnAggr,
    DmaCompute,
    Iota,
    RegisterLoad,
    RegisterStore,
    TensorCopy,
    VirtualRegister,
)
from trnsim.isa.language.fields import converted_fields
from trnsim.memory import ScalarIndex, Tile
from trnsim.program.program import Checked
from trnsim.program.signatures import signature_info


def info_of(work, instruction):
    """The signature info of a legal instruction."""
    dims = instruction.verify(work.core)
    engine = instruction.chosen_engine(work.core)
    checked = Checked(instruction, dims, engine, instruction.price(work.core, dims))
    signature = instruction.signature()
    return signature_info(signature, 0, checked, instruction, converted_fields(instruction))


def test_plain_operands_are_found_by_name_and_as_the_instruction_gives_them(bench):
    work = bench()
    copy = TensorCopy(work.empty((4, 8)), work.empty((4, 8)))
    found = info_of(work, copy)
    assert (found.read, found.written) == (("src",), ("dst",))
    assert found.accesses(copy) == copy.accesses() == ([copy.src], [copy.dst])
    assert found.writes_all
    assert not found.has_index


def test_several_tiles_in_one_operand_are_asked_for_each_time(bench):
    work = bench()
    sources = (work.empty((4, 8)), work.empty((4, 8)))
    added = DmaCompute(work.empty((4, 8)), sources, "add")
    found = info_of(work, added)
    assert found.read is None
    assert found.accesses(added) == (list(sources), [added.dst])


@pytest.mark.parametrize(
    ("make", "reads", "writes"),
    [
        (lambda w, r: RegisterLoad(r, w.empty((1, 1), np.int32)), False, True),
        (lambda w, r: RegisterStore(w.empty((1, 1), np.int32), r), True, False),
        (lambda w, r: Iota(w.empty((4, 8), np.int32), ((1, 8),), r), True, False),
        (lambda w, _: BnAggr(w.empty((4, 2)), w.empty((4, 6))), False, False),
    ],
)
def test_registers_are_those_that_the_fields_declare(bench, make, reads, writes):
    work = bench()
    found = info_of(work, make(work, VirtualRegister(1)))
    assert (found.reads_registers, found.writes_registers) == (reads, writes)


def test_a_place_that_is_known_later_may_be_a_registers(bench):
    work = bench()
    whole = work.empty((8, 8))
    pattern = whole.pattern.slice(1, 0, 4)
    moved = Tile(whole.storage, whole.dtype, pattern, ScalarIndex(VirtualRegister(1), 4, 4))
    found = info_of(work, TensorCopy(work.empty((8, 4)), moved))
    assert found.has_index
    assert found.reads_registers
