import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.torch.models.model_graph import module_graph
from trnsim.torch.models.traced import trace_module


class Halves(nn.Module):
    """Two layers, of which one has a part in the result, and a number that is kept."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)
        self.kept = torch.tensor([1.0, 2.0])

    def forward(self, given):
        return self.used(given["x"]).mul(self.kept).sum()


def given():
    return ({"x": torch.zeros(4, 3)},)


def test_inputs_have_their_own_names():
    found = trace_module(Halves(), given())
    assert list(found.names.values()) == [
        *("used.weight", "used.bias", "unused.weight", "unused.bias", "0")
    ]
    assert found.weights == {*list(found.names.values())[:4], "_tensor_constant0"}


def test_a_tensor_that_a_module_keeps_is_a_weight():
    made = module_graph(Halves(), given())
    shapes = {v.shape for v in made.graph.inputs if v.number in made.weights}
    assert shapes == {(2, 3), (2,)}


def test_what_has_no_part_in_the_loss_has_no_gradient():
    found = trace_module(Halves(), given(), is_trained=True)
    (output,) = [node for node in found.module.graph.nodes if node.op == "output"]
    shapes = [tuple(node.meta["val"].shape) for node in output.args[0]]
    assert shapes == [(), (2, 3), (2,)]


def test_an_argument_that_is_written_to_keeps_no_trace_of_it():
    module = nn.ReLU(inplace=True)
    names = [node.name for node in trace_module(module, (torch.zeros(3),)).module.graph.nodes]
    assert not [name for name in names if name.startswith("relu_")]


def test_maxima_whose_places_nobody_reads_are_one_operation():
    made = module_graph(nn.MaxPool2d(2), (torch.zeros(1, 3, 6, 8),))
    assert [node.name for node in made.graph.nodes] == ["reduce_window"]
