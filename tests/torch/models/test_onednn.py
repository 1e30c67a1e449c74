import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.torch.models.onednn import without_onednn
from trnsim.torch.models.traced import trace_module


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_has_no_operator_of_the_cpu_alone(layer):
    model = layer(3, 4, batch_first=True).eval()
    graph = trace_module(model, (torch.zeros(2, 3, 3),)).module.graph
    assert not [node for node in graph.nodes if "mkldnn" in str(node.target)]


def test_the_setting_of_the_program_is_kept_after_an_error():
    is_enabled = torch._C._get_mkldnn_enabled()
    with pytest.raises(ValueError, match="stop"), without_onednn():
        raise ValueError("stop")
    assert torch._C._get_mkldnn_enabled() == is_enabled
