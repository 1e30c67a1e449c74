import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.traces.tracing import FrozenBranch, trace_function

ONE = torch.ones(2)


class Counting(nn.Module):
    """A module that changes a buffer, and shares a weight."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = self.first
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, *, more=None):
        self.calls += 1
        return self.second(self.first(x)) + self.calls if more is None else more


def test_weights_have_the_names_of_the_module_each_once():
    traced = trace_function(Counting(), ONE)
    assert list(traced.weights) == ["first.weight", "first.bias", "calls"]
    assert list(traced.inputs) == ["x"]
    assert traced.title == "Counting"
    assert traced.line.file == __file__


def test_weights_are_copies_and_a_changed_buffer_is_no_state():
    model = Counting()
    traced = trace_function(model, ONE)
    assert not any("copy_" in str(node.target) for node in traced.module.graph.nodes)
    assert model.calls == 0
    assert traced.weights["first.weight"].data_ptr() != model.first.weight.data_ptr()
    assert traced.originals[0] is model.first.weight


def test_a_method_has_the_weights_of_its_module_and_a_closure_its_own():
    model = nn.Linear(2, 2)
    kept = torch.ones(2)
    assert list(trace_function(model.forward, ONE).weights) == ["owner.weight", "owner.bias"]
    assert len(trace_function(lambda x: x + kept, ONE).weights) == 1


def test_arguments_may_be_nested_or_have_names():
    traced = trace_function(lambda x, past: x + past["k"][1], (ONE, {"k": [ONE, 2 * ONE]}))
    assert list(traced.inputs) == ["x", 'past["k"][0]', 'past["k"][1]']
    assert list(trace_function(lambda x, y: x - y, {"y": ONE, "x": ONE}).inputs) == ["x", "y"]
    assert list(trace_function(lambda *xs: xs[0] + xs[1], (ONE, ONE)).inputs) == ["xs_0", "xs_1"]


def test_an_argument_that_has_only_a_name_is_called_by_it():
    traced = trace_function(Counting(), {"x": ONE, "more": ONE})
    assert list(traced.inputs) == ["x", "more"]
    assert list(traced.weights) == ["first.weight", "first.bias", "calls"]
    assert [node.op for node in traced.values] == ["placeholder"] * 5


def test_results_keep_their_nesting():
    traced = trace_function(lambda x: {"a": x + 1, "b": x}, ONE)
    assert traced.results.expression() == '{"a": r[0], "b": r[1]}'
    assert [str(form) for form in traced.result_forms] == ["float32[2]"] * 2


@pytest.mark.parametrize(
    ("function", "example", "match"),
    [
        (3, ONE, "trace of a int; legal"),
        (lambda x: x, (ONE, ONE), "2 example inputs for <lambda>"),
        (lambda x: x, {"y": ONE}, "example inputs y for <lambda>.*: missing a required argument"),
        (lambda: ONE, (), "without a tensor"),
        (lambda x: x * 2, torch.eye(2).to_sparse(), "a tensor of .* torch.sparse_coo; legal"),
        (lambda _: "text", ONE, '<lambda> returns "text", without a tensor; legal'),
        (lambda _: {"a": None, "b": [3]}, ONE, "without a tensor; legal"),
        (lambda x, n: x + n, (ONE, 2), "the example input n has 2"),
        (lambda x, n: x + n[0], (ONE, (None,)), "the example input n has None"),
        (lambda x: [x, object()], ONE, "an object"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_its_line(function, example, match):
    with pytest.raises(BadInput, match=match) as refused:
        trace_function(function, example)
    assert refused.value.line.file == __file__


def test_an_error_of_the_model_is_its_own():
    with pytest.raises(ZeroDivisionError):
        trace_function(lambda x: x / (1 // 0), ONE)


def test_a_weight_in_memory_of_numpy_is_copied_at_once():
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    array = model.weight.detach().numpy()
    model.register_buffer("kept", torch.from_numpy(np.ones(2, np.float32)))
    traced = trace_function(lambda x: model(x) + model.kept, ONE)
    array[:] = 7.0
    model.kept.numpy()[:] = 7.0
    weights = list(traced.weights.values())
    assert any(torch.equal(weight, before) for weight in weights)
    assert any(torch.equal(weight, torch.ones(2)) for weight in weights)


@pytest.mark.parametrize(
    "weight",
    [
        torch.arange(12.0).reshape(3, 4)[1:, ::2],
        torch.arange(6.0).reshape(2, 3).T,
        torch.arange(3.0)[:, None].expand(3, 2),
        torch.tensor(4.0),
        torch.empty(0, 2),
    ],
)
def test_a_weight_in_memory_of_other_processes_keeps_its_strides(weight):
    kept = torch.empty(20).share_memory_().as_strided(weight.shape, weight.stride(), 3)
    kept.untyped_storage().fill_(0)
    for index in itertools.product(*map(range, weight.shape)):
        kept[index] = weight[index]
    (copy,) = trace_function(lambda x: x.sum() + kept, ONE).weights.values()
    assert torch.equal(copy, weight)
    assert copy.stride() == weight.stride()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_torchscript_compiled_is_refused():
    for function in (torch.jit.script(nn.Linear(2, 2)), torch.jit.trace(lambda x: x + 1, ONE)):
        with pytest.raises(BadInput, match=r"trace of a \w+, which TorchScript compiled already"):
            trace_function(function, ONE)


def test_a_branch_on_a_value_beside_attention_is_frozen():
    class Branching(nn.Module):
        def forward(self, x):
            y = nn.functional.scaled_dot_product_attention(x, x, x)
            return y + 1 if y.sum().item() > 0 else y - 1

    x = torch.rand(1, 2, 4, 8)
    with pytest.warns(FrozenBranch, match=r"reads the value of a tensor at .*test_tracing\.py"):
        traced = trace_function(Branching(), x)
    (result,) = traced.module([], [], [x])
    torch.testing.assert_close(result, Branching()(x))


def test_code_for_compilers_alone_that_fails_is_left_out():
    def told(x, weights=None):
        if not torch.compiler.is_compiling():
            weights = torch.ones(2)
        return x * weights.sum()

    traced = trace_function(told, torch.ones(3))
    (result,) = traced.module([], [], [torch.ones(3)])
    assert result.tolist() == [2.0, 2.0, 2.0]

    def failing(x):
        if torch.compiler.is_compiling():
            raise ValueError("of compilers")
        raise KeyError(x)

    with pytest.raises(ValueError, match="of compilers"):
        trace_function(failing, torch.ones(3))


def test_a_function_that_compiles_a_part_of_itself_is_refused():
    def model(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1

    with pytest.raises(NotModelled, match="model compiles a part of itself") as caught:
        trace_function(model, ONE)
    assert "torch.compile(model, backend='neuron')" in caught.value.fix
    assert caught.value.line.file == __file__
