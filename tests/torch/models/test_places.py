"""Where a module is while it is traced."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.torch.compile.fx_import import import_graph
from trnsim.torch.models.traced import trace_module


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x).relu()
        return x + y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


FIRST = Block.forward.__code__.co_firstlineno
LAST = Net.forward.__code__.co_firstlineno


def nodes(module, *, is_trained=False):
    found = trace_module(module, (torch.zeros(2, 8),), is_trained=is_trained)
    return import_graph(found.module).graph.nodes


def of(found, operator):
    return [node.origin for node in found if node.origin.operator == f"aten::{operator}"]


def test_nodes_say_their_module_and_the_users_line():
    found = nodes(Net())
    assert [one.module for one in of(found, "relu")] == ["blocks.0", "blocks.1"]
    assert {one.module for one in of(found, "addmm")} == {"blocks.0.fc", "blocks.1.fc"}
    for operator, line in (("addmm", FIRST + 1), ("add", FIRST + 2), ("sum", LAST + 3)):
        assert {(one.line.file, one.line.line) for one in of(found, operator)} == {(__file__, line)}
    assert {one.module for one in of(found, "sum")} == {""}


def test_a_gradient_is_of_the_module_whose_gradient_it_is():
    found = nodes(Net(), is_trained=True)
    assert {one.module for one in of(found, "mm")} == {"blocks.0.fc", "blocks.1.fc"}
    passed = [one.module for one in of(found, "threshold_backward")]
    assert list(dict.fromkeys(passed)) == ["blocks.1", "blocks.0"]
    assert {one.line.line for one in of(found, "threshold_backward")} == {FIRST + 1}


def test_modules_keep_no_hooks():
    module = Net()
    nodes(module)
    assert all(not one._forward_pre_hooks and not one._forward_hooks for one in module.modules())


def test_an_error_in_a_module_leaves_no_hooks():
    class Broken(nn.Module):
        def forward(self, _):
            raise ValueError("broken")

    module = Broken()
    with pytest.raises(ValueError, match="broken"):
        nodes(module)
    assert not module._forward_pre_hooks
    assert "nn_module_stack" not in torch.fx.traceback.current_meta
