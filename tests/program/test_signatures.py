"""What instructions of one signature share: operands by name, registers, indices."""

from dataclasses import replace

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    BnAggr,
    DmaCompute,
    Iota,
    RegisterLoad,
    RegisterStore,
    TensorCopy,
    TensorScalar,
    VirtualRegister,
)
from trnsim.isa.language.fields import converted_fields
from trnsim.memory import ScalarIndex, Tile
from trnsim.program.program import Checked
from trnsim.program.signatures import checked_info, signature_info


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


def kept_info(core, instruction, number=0, *, has_values=True):
    """The signature info of an instruction, perhaps kept from an earlier one."""
    return checked_info(instruction.signature(), number, instruction, core, has_values)


def test_a_signature_is_checked_once_on_a_core(bench, monkeypatch):
    work, core = bench(), replace(bench().core)
    first = kept_info(core, TensorCopy(work.empty((4, 8)), work.empty((4, 8))))
    checks, verify = [], TensorCopy.verify
    monkeypatch.setattr(
        TensorCopy, "verify", lambda copy, core: checks.append(copy) or verify(copy, core)
    )
    again = kept_info(core, TensorCopy(work.empty((4, 8)), work.empty((4, 8))), 7)
    assert not checks
    assert again.checked is first.checked
    assert (first.number, again.number) == (0, 7)
    kept_info(core, TensorCopy(work.empty((4, 6)), work.empty((4, 6))))
    kept_info(core, TensorCopy(work.empty((4, 8)), work.empty((4, 8))), has_values=False)
    kept_info(replace(core), TensorCopy(work.empty((4, 8)), work.empty((4, 8))))
    assert len(checks) == 3


def test_what_was_passed_in_another_legal_type_is_converted_each_time(bench):
    work, core = bench(), replace(bench().core)
    for _ in range(2):
        scaled = TensorScalar(work.empty((4, 8)), work.empty((4, 8)), "multiply", 2.0, 0)
        info = kept_info(core, scaled)
        assert info.converted_fields == {"reverse0": False}
        assert scaled.reverse0 is False


def test_a_refused_signature_is_refused_again(bench):
    work, core = bench(), replace(bench().core)
    for _ in range(2):
        with pytest.raises(IllegalInstruction, match="multiplyy"):
            kept_info(core, TensorScalar(work.empty((4, 8)), work.empty((4, 8)), "multiplyy", 2.0))


def test_registers_nan_and_several_tiles_in_an_operand_are_checked_in_each_program(bench):
    work, core = bench(), replace(bench().core)
    dst, sources = work.empty((4, 8)), (work.empty((4, 8)), work.empty((4, 8)))
    for make in (
        lambda: Iota(work.empty((4, 8), np.int32), ((1, 8),), VirtualRegister(1)),
        lambda: TensorScalar(dst, sources[0], "multiply", float("nan")),
        lambda: DmaCompute(dst, sources, "add"),
    ):
        assert kept_info(core, make()).checked is not kept_info(core, make()).checked


def test_a_kept_instruction_has_no_bytes_and_no_name(bench):
    work, core = bench(), replace(bench().core)
    copy = TensorCopy(work.empty((4, 8)), work.empty((4, 8)))
    outline = kept_info(core, copy).checked.instruction
    assert all(tile.storage.data is None for _, tile in outline.tiles())
    assert not any(tile.storage.name for _, tile in outline.tiles())
