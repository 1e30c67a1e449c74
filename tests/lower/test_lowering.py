import numpy as np
import pytest

from trnsim.errors import NotModelled
from trnsim.graph import (
    Graph,
)
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.ops.reductions import Sort
from trnsim.lower import (
    costs,
    evaluate,
    groups,
    launch,
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


def test_an_operation_without_a_kernel_says_so():
    g = Graph()
    x = g.input((4,), "float32")
    g.outputs = [g.apply(AllReduce(((0, 1),)), x)]
    message = "all_reduce has no kernel yet: it exchanges values between cores, and a graph is"
    with pytest.raises(NotModelled, match=message):
        costs(g)


def test_a_group_that_was_not_made_legal_names_what_has_kernels():
    g = Graph()
    g.outputs = list(g.apply_to_all(Sort(0), [g.input((4,), "float32")]))
    with pytest.raises(NotModelled, match="sort has no kernel yet; there are kernels for chains"):
        launch(groups(g)[0], [np.zeros(4, np.float32)], "trn2")
