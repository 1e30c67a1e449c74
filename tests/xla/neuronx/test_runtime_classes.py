import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx

from trnsim.device.device_core import visible_cores
from trnsim.errors import BadInput, NotModelled
from trnsim.torch.traces.placement import turns
from trnsim.xla.neuronx.trace import compile_function


def test_the_runtime_counts_and_chooses_cores():
    runtime = torch.classes.neuron.Runtime()
    runtime.initialize()
    assert runtime.get_visible_nc_count() == len(visible_cores())
    try:
        runtime.set_default_neuron_cores(1, 1)
        assert turns.next_placement().cores == (1,)
    finally:
        runtime.unsafe_close()
    assert turns.asked is None
    with pytest.raises(ValueError, match="start_nc='a'; legal: a number"):
        runtime.set_default_neuron_cores("a", 1)
    with pytest.raises(ValueError, match="nc_count=99"):
        runtime.set_default_neuron_cores(0, 99)


@pytest.mark.slow
def test_a_model_runs_what_was_traced_and_refuses_binaries():
    x = torch.ones(2, 4)
    compiled = compile_function(torch.nn.Linear(4, 3), x, {})
    model = torch.classes.neuron.SPMDModel(compiled.program.to_bytes(), b"", 1, 1)
    model.initialize([], [list(compiled.function.weights.values())])
    expected = compiled.script_module()(x)
    assert torch.equal(model.forward([x])[0], expected)
    assert torch.equal(model.forward_ranked([[x]])[0][0], expected)
    with pytest.raises(BadInput, match="no program that trnsim traced"):
        torch.classes.neuron.SPMDModel(b"mock_neff0", b"", 1, 1).forward([x])
    with pytest.raises(NotModelled, match="2 of 2 ranks"):
        torch.classes.neuron.SPMDModel(compiled.program.to_bytes(), b"", 2, 2).forward([x])


def test_layouts_are_refused_when_they_are_used():
    with pytest.raises(NotModelled, match="weights keep their layout"):
        torch.classes.neuron.LayoutTransformation(b"", b"", 1).forward([], False)
    assert not hasattr(torch.classes.neuron, "Model")
