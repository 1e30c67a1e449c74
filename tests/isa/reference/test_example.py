"""Typical instances: each instruction has one that is legal on the newest core that has it."""

import pytest

from trnsim.dtypes import BFLOAT16, FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import Instruction
from trnsim.isa.reference.example import examples, tile
from trnsim.isa.reference.page import cost_if_legal
from trnsim.memory import Memory, Tile

CLASSES = Instruction.registry.values()


@pytest.mark.parametrize("declared", CLASSES, ids=lambda c: c.opcode)
def test_every_instruction_has_a_typical_instance_that_v4_takes(declared, core_v4):
    assert any(cost_if_legal(instance, core_v4) for instance in examples(declared))


@pytest.mark.parametrize("declared", CLASSES, ids=lambda c: c.opcode)
def test_every_case_is_legal_on_some_engine_and_core(declared, core_v2, core_v3, core_v4):
    by_case = {}
    for instance in examples(declared):
        values = {k: v for k, v in instance.__dict__.items() if k != "engine"}
        case = str({k: str(v) for k, v in values.items() if "VirtualRegister" not in str(v)})
        by_case.setdefault(case, []).append(instance)
    for instances in by_case.values():
        assert any(
            cost_if_legal(i, core) for i in instances for core in (core_v2, core_v3, core_v4)
        )


def test_each_engine_that_a_kernel_may_name_is_named_once_a_case():
    copies = list(examples(Instruction.registry["tensor_copy"]))
    assert [copy.engine.name for copy in copies] == ["vector", "scalar", "gpsimd"]
    assert [str(copy.dst) for copy in copies] == ["SBUF [128, 512] bfloat16"] * 3


def test_a_matmul_accumulates_in_float32_from_bfloat16():
    matmul = next(examples(Instruction.registry["nc_matmul"]))
    assert (matmul.dst.dtype, matmul.dst.memory) == (FLOAT32, Memory.PSUM)
    assert (matmul.moving.dtype, matmul.moving.shape) == (BFLOAT16, (128, 512))


def test_a_tile_has_no_bytes():
    made = tile((4, 8), FLOAT32, Memory.SBUF)
    assert isinstance(made, Tile)
    assert (made.nbytes, made.storage.data) == (128, None)


def test_what_is_illegal_somewhere_has_no_price_there(core_v2):
    exponential = next(examples(Instruction.registry["exponential"]))
    assert cost_if_legal(exponential, core_v2) is None
    with pytest.raises(IllegalInstruction):
        exponential.verify(core_v2)
