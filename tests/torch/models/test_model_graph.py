"""Any module; models of transformers are tested in tests/clients/test_model_graphs.py."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.errors import BadInput
from trnsim.torch.models import ModelShape, model_graph
from trnsim.torch.models.model_graph import module_graph


def test_the_weights_of_a_module_are_known_by_name():
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)).eval()
    made = module_graph(model, (torch.zeros(2, 3),))
    kinds = {made.names[v.number]: v.number in made.weights for v in made.graph.inputs}
    assert kinds == {
        **dict.fromkeys(("0.weight", "0.bias", "1.weight", "1.bias"), True),
        **dict.fromkeys(("1.running_mean", "1.running_var", "1.num_batches_tracked"), True),
        "0": False,
    }


def test_no_memory_is_needed_for_weights():
    with torch.device("meta"):
        model = nn.Linear(1 << 20, 1 << 20)  # 4 TB
    made = module_graph(model, (torch.empty(1, 1 << 20, device="meta"),))
    assert [node.name for node in made.graph.nodes if node.name == "dot_general"]


def test_a_result_of_one_operator_that_shares_a_decomposition_is_one():
    made = module_graph(nn.MaxPool2d(2), (torch.zeros(1, 2, 4, 4),))
    assert [value.shape for value in made.graph.outputs] == [(1, 2, 2, 2)]
    assert not made.missing


def test_a_dtype_that_models_do_not_have_is_refused():
    with pytest.raises(BadInput, match="dtype 'int8'; legal: bfloat16, float32, float16"):
        model_graph(None, ModelShape("encode"), dtype="int8")
