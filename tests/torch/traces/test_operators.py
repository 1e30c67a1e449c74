import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces import operators
from trnsim.torch.traces.instances import instance_of


def test_the_operators_are_there_with_the_device_and_register_once():
    operators.register()
    assert torch.ops.neuron.load.default._schema.returns[0].type.kind() == "IntType"


def test_a_program_runs_by_its_bytes_under_any_number(scaled):
    content = torch.frombuffer(bytearray(scaled.to_bytes()), dtype=torch.uint8)
    weights, inputs = [torch.tensor([2.0, 3.0])], [torch.ones(2, 2)]
    (result,) = torch.ops.neuron.forward(content, weights, inputs, False, 12345)
    assert result.tolist() == [[2, 3], [2, 3]]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_hostile_program_is_refused_when_a_module_is_loaded(scaled_module, tmp_path):
    scaled_module.neuron_0.program = torch.zeros(64, dtype=torch.uint8)
    path = tmp_path / "hostile.pt"
    torch.jit.save(scaled_module, path)
    with pytest.raises(RuntimeError, match="no program that trnsim traced"):
        torch.jit.load(path)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_program_is_loaded_as_that_of_a_rank_to_its_core(scaled_module, monkeypatch):
    part = scaled_module.neuron_0
    torch.ops.neuron._load_collectives_neuron(part, 3, 1, 1, 2)
    loaded = instance_of(part.instance, part.program)
    assert loaded.placement.cores == (3,)
    assert scaled_module(torch.ones(2, 2)).tolist() == [[2, -3], [2, -3]]
    shown = []
    monkeypatch.setattr(operators, "show_text_as_own", shown.append)
    with pytest.raises(BadInput, match="rank 2 of 2") as refused:
        torch.ops.neuron._load_collectives_neuron(part, 3, 1, 2, 2)
    assert shown == [refused.value]
