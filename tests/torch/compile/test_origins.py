import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.compile.fx_import import import_graph
from trnsim.torch.compile.origins import (
    call_of,
    dynamic_calls,
    dynamic_inputs,
    line_of,
    module_of,
    origin_of,
)

# PyTorch's own export copies a class that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        y = self.layer(x)
        return torch.cat([y, y.pow(2)], dim=-1).topk(2, dim=1)


FIRST = Model.forward.__code__.co_firstlineno


def exported(model, *args, **options):
    return torch.export.export(model, args, **options).run_decompositions().graph_module


def nodes(module):
    return {node.target: node for node in module.graph.nodes if node.op == "call_function"}


def test_a_call_has_the_names_of_its_schema_and_tensors_without_values():
    found = nodes(exported(Model(), torch.ones(2, 4)))
    topk = call_of(found[torch.ops.aten.topk.default], "aten::topk")
    assert (topk.operator, topk.name) == ("aten::topk", "topk")
    assert str(topk.arguments["self"]) == "float32[2, 6]"
    assert {key: topk.arguments[key] for key in ("k", "dim")} == {"k": 2, "dim": 1}
    assert [str(one) for one in topk.results] == ["float32[2, 2]", "int64[2, 2]"]
    cat = call_of(found[torch.ops.aten.cat.default], "aten::cat.default")
    assert cat.operator == "aten::cat"
    assert [str(one) for one in cat.tensors] == ["float32[2, 3]"] * 2


def test_a_line_is_that_of_the_program_past_the_frameworks_own():
    found = nodes(exported(Model(), torch.ones(2, 4)))
    lines = {str(target): line_of(node) for target, node in found.items()}
    assert all(line.file == __file__ for line in lines.values())
    assert lines["aten.topk.default"].line == FIRST + 2
    layer = next(line for name, line in lines.items() if "addmm" in name or "linear" in name)
    assert layer.line == FIRST + 1


def test_a_node_without_a_trace_has_no_line():
    node = nodes(exported(Model(), torch.ones(2, 4)))[torch.ops.aten.topk.default]
    for trace in (None, "", 'File "/nowhere/torch/x.py", in f'):
        node.meta["stack_trace"] = trace
        assert line_of(node) is None


def test_a_value_of_a_graph_knows_the_call_that_it_came_from():
    imported = import_graph(exported(Model(), torch.ones(2, 4)))
    made = {node.name: node.result.number for node in imported.graph.nodes}
    assert imported.origins[made["top_k"]].operator == "aten::topk"
    assert imported.origins[made["top_k"]].line.line == FIRST + 2
    assert imported.origins[made["dot_general"]].line.line == FIRST + 1
    assert set(imported.origins) >= set(made.values())
    assert [call.name for call in imported.calls][-1] == "topk"
    assert not any(call.reason for call in imported.calls)


def test_a_call_without_a_lowering_has_the_reason():
    class Missing(torch.nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x * 2)

    calls = import_graph(exported(Missing(), torch.ones(2))).calls
    assert [(call.name, call.reason) for call in calls] == [
        ("mul", ""),
        ("special_bessel_j0", "there is no lowering of it"),
    ]


@pytest.mark.slow
def test_tensors_without_a_size_are_found():
    class Places(torch.nn.Module):
        def forward(self, x):
            return torch.nonzero(x)

    module = exported(Places(), torch.ones(4))
    assert dynamic_inputs(module) == []
    assert [str(call.results[0]) for call in dynamic_calls(module)] == ["int64[?, 1]"]
    batch = torch.export.Dim("batch")
    module = exported(Model(), torch.ones(2, 4), dynamic_shapes=({0: batch},))
    assert [str(one) for one in dynamic_inputs(module)] == ["float32[?, 4]"]
    assert dynamic_inputs(exported(Model(), torch.ones(2, 4))) == []


def test_an_operation_knows_its_module_its_operator_and_its_line():
    found = nodes(exported(torch.nn.Sequential(Model()), torch.ones(2, 4)))
    topk = origin_of(found[torch.ops.aten.topk.default], "aten::topk.default")
    assert (topk.module, topk.operator) == ("0", "aten::topk")
    assert topk.line.line == FIRST + 2
    layer = next(node for target, node in found.items() if "addmm" in str(target))
    assert module_of(layer) == "0.layer"


@pytest.mark.slow_cases(
    "layers.0.fc-layers.0.fc",
    "L['self'].layers.0.fc-layers.0.fc",
    "L['self']-",
    "G['net'].layers[0]-layers.0",
    "L['self']._modules['layers']._modules['0'].fc-layers.0.fc",
)
@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("", ""),
        ("layers.0.fc", "layers.0.fc"),
        ("L['self'].layers.0.fc", "layers.0.fc"),
        ("L['self']", ""),
        ("G['net'].layers[0]", "layers.0"),
        ("L['self']._modules['layers']._modules['0'].fc", "layers.0.fc"),
    ],
)
def test_a_path_is_written_as_names_of_weights_are(path, wanted):
    node = nodes(exported(Model(), torch.ones(2, 4)))[torch.ops.aten.topk.default]
    node.meta["nn_module_stack"] = {"1": ("outer", "Outer"), "2": (path, "Inner")}
    assert module_of(node) == wanted


def test_a_backward_operation_is_of_the_forward_ones_module():
    node = nodes(exported(Model(), torch.ones(2, 4)))[torch.ops.aten.topk.default]
    stack = node.meta.pop("nn_module_stack")
    assert module_of(node) == ""
    node.meta["fwd_nn_module_stack"] = stack | {"x": ("deep", "Deep")}
    assert module_of(node) == "deep"
