"""`nki.isa.NkiInstruction`: its opcode and its name."""

from trnsim.nki.instruction import NkiInstruction


def test_an_instruction_shows_its_opcode_and_its_name():
    assert repr(NkiInstruction("all_to_all")) == "NkiInstruction(all_to_all)"
    assert repr(NkiInstruction("all_to_all", "x")) == "NkiInstruction(all_to_all 'x')"
