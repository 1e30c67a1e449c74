import re

import numpy as np
import pytest

from trnsim.compiler.program import evaluate_program
from trnsim.errors import BadInput, NotModelled
from trnsim.graph import (
    Graph,
)
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.ops.collectives import AllReduce
from trnsim.lower import (
    costs,
    evaluate,
    fusion_groups,
    lowering,
)


def product(rows=256):
    g = Graph()
    x, w = g.input((rows, 128), "bfloat16"), g.input((128, 512), "bfloat16")
    g.outputs = [g.elementwise("relu", g.dot_general(x, w, (1, 0), "float32"))]
    return g


def test_values_pass_from_kernel_to_kernel(random):
    g = Graph()
    x, w = g.input((64, 32), "float32"), g.input((32, 16), "float32")
    g.outputs = [g.reshape(g.elementwise("relu", g.dot_general(x, w, (1, 0))), (1024,))]
    a, b = random((64, 32)), random((32, 16), seed=1)
    (found,) = evaluate(g, [a, b])
    np.testing.assert_allclose(found, np.maximum(a @ b, 0).reshape(1024), atol=1e-5)


def test_what_runs_is_named_by_its_operations(random):
    g = product()
    launched = [
        lowering.launch(group, [random(v.shape) for v in group.inputs], "trn2")
        for group in fusion_groups(g)
    ]
    assert [run.title for run in launched] == ["dot_general", "relu"]


@pytest.mark.parametrize("target", ["trn1", "inf2", "trn2", "trn3"])
def test_each_kernel_has_its_time_on_every_chip(target):
    found = costs(product(), target)
    assert [cost.name for cost in found] == ["dot_general", "relu"]
    assert all(0 < cost.device_time_s < 1e-3 and cost.launch_s > 0 for cost in found)
    assert [cost.flop for cost in found] == [2 * 256 * 128 * 512, 0]
    assert found[0].hbm_bytes == 2 * (256 * 128 + 128 * 512) + 4 * 256 * 512


def test_more_rows_take_longer():
    few, many = (sum(c.device_time_s for c in costs(product(rows))) for rows in (256, 2048))
    assert many > 2 * few


def test_a_number_changes_no_time_and_is_not_timed_again():
    times = []
    for number in (0.5, 0.25):
        g = Graph()
        g.outputs = [g.elementwise("multiply", g.input((7, 9), "float32"), number)]
        times.append(costs(g))
    assert times[0][0] is times[1][0]


def test_how_large_an_integer_it_is_compared_with_changes_the_time(monkeypatch):
    monkeypatch.setenv("TRNSIM_CACHE", "off")

    def compared_with(number):
        g = Graph()
        x = g.input((7, 9), "int32")
        g.outputs = [g.elementwise("compare", x, number, direction="LT")]
        return g

    for number in (5.0, 2.0**25, 2.0**26):
        (group,), (cost,) = fusion_groups(compared_with(number)), costs(compared_with(number))
        assert cost == lowering._measure(group, "trn2", is_mirrored=False), number


WRONG = [
    ([], ""),
    ([np.zeros((2, 3), np.float32)] * 3, ", ".join(["tensor<2x3xfloat32>"] * 3)),
    ([np.zeros((2, 3), np.float32), np.zeros(3, bool)], "tensor<2x3xfloat32>, tensor<3xbool>"),
    ([np.zeros((3, 2), np.float32), np.zeros(4, bool)], "tensor<3x2xfloat32>, tensor<4xbool>"),
    ([np.zeros((2, 3), np.int32), np.zeros(4, bool)], "tensor<2x3xint32>, tensor<4xbool>"),
    ([np.zeros((2, 3), np.float32), np.zeros(4, np.int8)], "tensor<2x3xfloat32>, tensor<4xint8>"),
    ([[[1.0, 2.0]], None], "tensor<1x2xfloat64>, tensor<object>"),
]


@pytest.mark.parametrize("compute", [evaluate, evaluate_program])
@pytest.mark.parametrize(("inputs", "words"), WRONG)
def test_inputs_are_those_that_the_graph_takes(inputs, words, compute):
    g = Graph()
    x, y = g.input((2, 3), "float32"), g.input((4,), "bool")
    g.outputs = [g.elementwise("abs", x), g.elementwise("not", y)]
    message = re.escape(f"the inputs are ({words}); legal: (tensor<2x3xfloat32>, tensor<4xbool>)\n")
    with pytest.raises(BadInput, match=f"^{message}  fix: give an array of that element type and"):
        compute(g, inputs)


@pytest.mark.parametrize("compute", [evaluate, evaluate_program])
def test_a_scalar_of_numpy_is_an_input(compute):
    g = Graph()
    g.outputs = [g.elementwise("add", g.input((), "float32"), 1.0)]
    np.testing.assert_array_equal(compute(g, [np.float32(2)])[0], np.float32(3))


@pytest.mark.parametrize("dtype", [bool, np.uint8])
def test_a_truth_value_is_given_as_it_is_or_as_its_byte(dtype):
    g = Graph()
    g.outputs = [g.elementwise("not", g.input((2,), "bool"))]
    assert evaluate(g, [np.array([0, 1], dtype)])[0].tolist() == [True, False]


def test_an_operation_without_a_kernel_says_so():
    g = Graph()
    x = g.input((4,), "float32")
    g.outputs = [g.apply(AllReduce(((0, 1),)), x)]
    message = "all_reduce has no kernel yet: it exchanges values between cores, and a graph is"
    with pytest.raises(NotModelled, match=message):
        costs(g)


class Swapped:
    """A kernel of the user's that swaps its two tensors."""

    def values(self, arrays, target):
        assert target == "trn3"
        return [arrays[1], arrays[0]]


def test_a_kernel_of_the_users_stands_between_others(random):
    g = Graph()
    x, y = g.input((8, 4), "float32"), g.input((8, 4), "float32")
    doubled = g.elementwise("add", x, x)
    call = CustomCall(Swapped(), (doubled.type, y.type))
    first, second = g.apply_to_all(call, [doubled, y])
    g.outputs = [g.elementwise("subtract", first, second)]
    a, b = random((8, 4)), random((8, 4), seed=1)
    (found,) = evaluate(g, [a, b], "trn3")
    np.testing.assert_array_equal(found, b - 2 * a)


def test_a_kernel_of_the_users_may_take_one_tensor_twice(random):
    g = Graph()
    x = g.input((8, 4), "float32")
    first, _ = g.apply_to_all(CustomCall(Swapped(), (x.type, x.type)), [x, x])
    g.outputs = [first]
    a = random((8, 4))
    np.testing.assert_array_equal(evaluate(g, [a], "trn3")[0], a)


def test_many_reshapes_of_one_tensor(random):
    g = Graph()
    value = g.input((4, 8), "float32")
    for number in range(2000):
        value = g.reshape(value, ((2, 16), (4, 8))[number % 2])
    g.outputs = [g.elementwise("negate", value)]
    (found,) = evaluate(g, [random((4, 8))])
    np.testing.assert_array_equal(found, -random((4, 8)))
