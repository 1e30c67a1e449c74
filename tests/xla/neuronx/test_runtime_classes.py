import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx

from trnsim.device.device_core import visible_cores
from trnsim.errors import BadInput, NotModelled
from trnsim.torch.traces import exchanges
from trnsim.torch.traces.metaneff import MetaNeff
from trnsim.torch.traces.placement import default_placement
from trnsim.xla.neuronx.trace import traced_program


def test_the_runtime_counts_and_chooses_cores():
    runtime = torch.classes.neuron.Runtime()
    runtime.initialize()
    assert runtime.get_visible_nc_count() == len(visible_cores())
    try:
        runtime.set_default_neuron_cores(1, 1)
        assert default_placement.next_placement().cores == (1,)
    finally:
        runtime.unsafe_close()
    assert default_placement.requested is None
    with pytest.raises(ValueError, match="start_nc='a'; legal: a number"):
        runtime.set_default_neuron_cores("a", 1)
    with pytest.raises(ValueError, match="nc_count=99"):
        runtime.set_default_neuron_cores(0, 99)


def test_layouts_are_refused_when_they_are_used():
    with pytest.raises(NotModelled, match="weights keep their layout"):
        torch.classes.neuron.LayoutTransformation(b"", b"", 1).forward([], False)
    assert not hasattr(torch.classes.neuron, "Model")
