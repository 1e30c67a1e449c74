from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch.fx.experimental.proxy_tensor import make_fx

from trnsim.torch.compile.host_graph import callable_of

aten = torch.ops.aten


@pytest.fixture
def simplified():
    """What is left of a function, after its results were compared: operators and how many."""

    def trace(function, *args, seen=None):
        module = make_fx(function, tracing_mode="fake")(*args)
        expected = make_fx(function)(*args)(*args)
        found = callable_of(module, seen)(*args)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
            assert one.stride() == other.stride()
        names = (str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return Counter(names)

    return trace


def test_a_transpose_of_the_same_transpose_is_its_origin(simplified):
    x = torch.randn(3, 4)
    assert simplified(lambda x: [(x + 1).t().t() * 2], x) == {
        "aten.add.Tensor": 1,
        "aten.mul.Tensor": 1,
    }
    assert simplified(lambda x: [x.transpose(0, 1).transpose(1, 0) * 2], x) == {
        "aten.mul.Tensor": 1
    }


def test_another_transpose_stays(simplified):
    left = simplified(lambda x: [x.transpose(0, 1).transpose(1, 2)], torch.randn(2, 3, 4))
    assert left == {"aten.transpose.int": 2}


def test_a_view_of_a_view_is_one_and_of_its_own_shape_none(simplified):
    x = torch.randn(6, 4)
    left = simplified(lambda x: [aten.view(aten.view(x, [24]), [4, 6]) + 1], x)
    assert left == {"aten.view.default": 1, "aten.add.Tensor": 1}
    left = simplified(lambda x: [aten.view(aten.view(x, [24]), [6, 4]) + 1], x)
    assert left == {"aten.add.Tensor": 1}


def test_detaching_is_nothing(simplified):
    assert simplified(lambda x: [x.relu().detach()], torch.randn(4)) == {"aten.relu.default": 1}


def test_a_copy_that_nobody_returns_goes(simplified):
    left = simplified(lambda x: [aten.clone(x + 1) * 2], torch.randn(4, 4))
    assert "aten.clone.default" not in left


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: [aten.clone(x)], id="of an input"),
        pytest.param(lambda x: [aten.clone(x + 1)], id="that is returned"),
        pytest.param(lambda x: [aten.clone(x + 1).view(16)], id="of which a view is returned"),
        pytest.param(lambda x: [(y := x + 1), aten.clone(y) * 2], id="of what is returned"),
        pytest.param(
            lambda x: [aten.clone((x + 1).t(), memory_format=torch.contiguous_format) * 2],
            id="with other strides",
        ),
        pytest.param(lambda x: [(y := x + 1).mul_(2), aten.clone(y) * 2], id="beside a write"),
    ],
)
def test_a_copy_that_may_be_seen_stays(simplified, function):
    assert simplified(function, torch.randn(4, 4))["aten.clone.default"] == 1


def test_a_copy_that_is_only_kept_for_the_gradient_goes(simplified):
    def forward(x):
        kept = x.relu()
        copy = aten.clone(kept)
        return [copy * 2, kept.detach(), copy.view(16)]

    assert simplified(forward, torch.randn(4, 4))["aten.clone.default"] == 1
    assert "aten.clone.default" not in simplified(forward, torch.randn(4, 4), seen=1)


def test_a_copy_of_what_the_program_sees_stays(simplified):
    def forward(x):
        shown = x.relu()
        return [shown.detach(), aten.clone(shown) * 2, aten.clone(shown)]

    assert simplified(forward, torch.randn(4, 4), seen=2)["aten.clone.default"] == 2


def test_gradients_of_parts_are_added_in_their_places(simplified):
    def backward(a, b, c):
        parts = (aten.select_backward(g, [3, 4], 0, n) for n, g in enumerate((a, b, c)))
        first, second, third = parts
        return [first + second + third]

    left = simplified(backward, *torch.randn(3, 4))
    assert left["aten.select_backward.default"] == 1
    assert "aten.add.Tensor" not in left


def test_a_part_that_is_returned_too_is_not_written(simplified):
    def backward(a, b):
        first, second = (aten.select_backward(g, [2, 4], 0, n) for n, g in enumerate((a, b)))
        return [first + second, first]

    assert simplified(backward, *torch.randn(2, 4))["aten.add.Tensor"] == 1


def test_parts_of_other_dtypes_or_shapes_are_added_as_they_were(simplified):
    def backward(a, b):
        first = aten.select_backward(a.bfloat16(), [2, 4], 0, 0)
        return [first + aten.select_backward(b, [2, 4], 0, 1)]

    assert simplified(backward, *torch.randn(2, 4))["aten.add.Tensor"] == 1


def test_other_sizes_than_those_of_the_trace_are_left_alone():
    module = make_fx(lambda x: [x.view(-1).view(2, -1)], tracing_mode="symbolic")(torch.ones(4, 4))
    (found,) = callable_of(module)(torch.arange(36.0).view(6, 6))
    assert torch.equal(found, torch.arange(36.0).view(2, 18))
