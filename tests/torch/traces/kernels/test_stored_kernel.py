import pytest

from trnsim.isa import Instruction
from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.kernels.stored_kernel import StoredKernel, TensorPlace, is_storable

HAVE_NO_FORM = {
    *("all_gather", "all_gather_v", "all_gather_v_prepare", "all_gather_v_trigger"),
    *("all_reduce", "all_to_all", "all_to_all_v", "all_to_all_v_prepare", "all_to_all_v_trigger"),
    *("collective_permute", "collective_permute_implicit", "collective_permute_implicit_reduce"),
    *("collective_permute_implicit_current_processing_rank_id", "reduce_scatter"),
}


def test_every_instruction_but_collectives_has_a_form():
    kinds = [kind for kind in Instruction.registry.values() if kind.__module__[:7] == "trnsim."]
    assert {kind.opcode for kind in kinds if not is_storable(kind)} == HAVE_NO_FORM


def test_a_kernel_is_what_it_was_after_json(form):
    kernel = StoredKernel.from_json(form, "kernels[0]")
    assert kernel.to_json() == form
    assert [tensor.place for tensor in kernel.arguments] == [TensorPlace.argument]
    opcodes = [instruction.opcode for instruction in kernel.cores[0].instructions]
    assert opcodes == ["dma_copy", "tensor_scalar", "dma_copy"]


def first(form):
    return form["cores"][0]["instructions"][0]


def test_an_instruction_that_does_not_exist_is_refused(form):
    for opcode in ("no_such_instruction", "all_reduce", "__class__"):
        first(form)["opcode"] = opcode
        with pytest.raises(MalformedProgram, match=rf"instructions\[0\].opcode: '{opcode}', none"):
            StoredKernel.from_json(form, "kernels[0]")


def test_an_operand_more_or_less_is_refused(form):
    operands = first(form)["operands"]
    del operands["src"]
    with pytest.raises(MalformedProgram, match=r"\[0\].operands: dst, priority.*; legal: dst, src"):
        StoredKernel.from_json(form, "kernels[0]")
    first(form)["operands"] = operands | {"src": None, "x": 1}
    with pytest.raises(MalformedProgram, match=r"instructions\[0\].operands: dst"):
        StoredKernel.from_json(form, "kernels[0]")


@pytest.mark.parametrize(
    ("operand", "value", "text"),
    [
        ("dst", 3, r"operands.dst: 3; legal: an object of tensor, dtype"),
        ("dst", {"tensor": 1}, r"operands.dst: {'tensor': 1}; legal: an object"),
        ("priority", 1.5, r"operands.priority: 1.5; legal: a whole number or null"),
        ("engine", "warp", r"operands.engine: 'warp'; legal: unknown, tensor"),
        ("dge_mode", {"__reduce__": []}, r"operands.dge_mode: {'__reduce__'"),
    ],
)
def test_an_operand_of_another_type_is_refused_with_its_field(form, operand, value, text):
    first(form)["operands"][operand] = value
    with pytest.raises(
        MalformedProgram, match=r"kernels\[0\].cores\[0\].instructions\[0\]." + text
    ):
        StoredKernel.from_json(form, "kernels[0]")
