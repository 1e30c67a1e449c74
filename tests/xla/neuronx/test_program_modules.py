import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.stored import StoredProgram
from trnsim.xla.neuronx.program_modules import HloModuleProto, compile_content
from trnsim.xla.neuronx.trace import traced_program


def content():
    model = torch.nn.Linear(4, 3)
    return traced_program(model, torch.ones(2, 4), {})[1].to_bytes()


def test_a_module_is_a_program_with_a_computation_that_shows_nothing():
    module, read = HloModuleProto(content()), HloModuleProto()
    read.ParseFromString(module.SerializeToString())
    assert read.SerializeToString() == module.SerializeToString()
    (computation,) = read.computations
    assert (computation.id, computation.instructions) == (read.entry_computation_id, [])
    with pytest.raises(BadInput, match="no program that trnsim traced"):
        read.ParseFromString(b"HLO")


@pytest.mark.slow
def test_a_program_is_compiled_for_a_chip_with_flags():
    text, compiled = compile_content(content(), ["--auto-cast=all", "-O1"], "trn1")
    program = StoredProgram.from_bytes(compiled)
    assert (program.target, program.flags[0]) == ("trn1", "--auto-cast=all")
    assert program.estimate
    assert "Linear on trn1" in text
    with pytest.raises(BadInput, match="no program that trnsim traced"):
        compile_content(b"HLO", [], "trn1")
