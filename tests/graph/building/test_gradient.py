import numpy as np
import pytest

from trnsim.errors import NotModelled
from trnsim.graph import Graph
from trnsim.graph.building.gradient import gradients
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.ops.contraction import Attention

SHAPE = (2, 3, 4)
STEP = 1e-2


def differences(graph, loss, arrays):
    """The gradient of a number by each input, by what it changes."""
    graph.outputs = [loss]
    found = []
    for place, array in enumerate(arrays):
        slope = np.zeros(array.shape)
        for at in np.ndindex(*array.shape):
            ends = []
            for sign in (1, -1):
                moved = [one.copy() for one in arrays]
                moved[place][at] += sign * STEP
                ends.append(float(np.asarray(graph.reference(moved)[0]).reshape(())))
            slope[at] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(slope)
    return found


def compared(build, *shapes):
    """Rules beside differences, of a sum of what an expression gives, weighed unevenly."""
    graph, rng = Graph(), np.random.default_rng(0)
    given = [graph.input(shape, "float32") for shape in shapes]
    y = build(graph, *given)
    flat = graph.reshape(y, (y.type.elements,))
    weights = graph.elementwise("convert", graph.iota(flat.shape, 0), dtype="float32")
    uneven = graph.elementwise("multiply", flat, graph.elementwise("sine", weights))
    loss = graph.reduce("add", uneven, (0,))
    arrays = [rng.uniform(0.5, 1.5, shape).astype(np.float32) for shape in shapes]
    wanted = differences(graph, loss, arrays)
    graph.outputs = gradients(graph, loss, given, {})
    for found, slope in zip(graph.reference(arrays), wanted, strict=True):
        np.testing.assert_allclose(found, slope, atol=2e-3, rtol=2e-2)


FUNCTIONS = ("negate", "square", "relu", "rsqrt", "exponential", "log", "tanh", "logistic")
FUNCTIONS += ("silu", "gelu", "gelu_tanh")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    compared(lambda g, x: g.elementwise(name, x), SHAPE)


def test_a_product_of_elements_has_no_gradient_in_silence():
    graph = Graph()
    x = graph.input((4,), "float32")
    with pytest.raises(NotModelled, match="gradient of a reduction by multiply"):
        gradients(graph, graph.reduce("multiply", x, (0,)), [x], {})


def test_a_gradient_passes_relu_at_nan_as_in_pytorch():
    graph = Graph()
    x = graph.input((4,), "float32")
    loss = graph.reduce("add", graph.elementwise("relu", x), (0,))
    graph.outputs = gradients(graph, loss, [x], {})
    (found,) = graph.reference([np.array([np.nan, -2.0, 0.0, 3.0], np.float32)])
    # torch.nn.functional.relu(x).sum().backward() of torch 2.13
    np.testing.assert_array_equal(found, [1, 0, 0, 1])


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic(name):
    compared(lambda g, x, y: g.elementwise(name, x, y), SHAPE, SHAPE)
    compared(lambda g, x: g.elementwise(name, x, 1.5), SHAPE)


def test_numbers_come_first_too():
    compared(lambda g, x: g.elementwise("subtract", 1.0, x), SHAPE)
    compared(lambda g, x: g.elementwise("multiply", 3.0, x), SHAPE)


def test_factors_that_cost_nothing_are_computed_again_and_not_kept():
    graph = Graph()
    rows, scale, label = (graph.input(shape, "float32") for shape in ((4, 8), (4,), (4,)))
    wide = graph.broadcast_in_dim(scale, (4, 8), (0,))
    scaled = graph.elementwise("multiply", rows, wide)
    places = graph.elementwise("convert", graph.iota((4, 8), 1), dtype="float32")
    labels = graph.broadcast_in_dim(label, (4, 8), (0,))
    is_label = graph.elementwise("compare", places, labels, direction="EQ")
    mask = graph.elementwise("convert", is_label, dtype="float32")
    weighed = graph.elementwise("multiply", scaled, graph.elementwise("exponential", scaled))
    loss = graph.reduce("add", graph.elementwise("multiply", weighed, mask), (0, 1))
    forward = len(graph.nodes)
    graph.outputs = gradients(graph, loss, [rows, scale], {})
    read = {value.number for node in graph.nodes[forward:] for value in node.values}
    assert not read & {value.number for value in (wide, scaled, places, labels, mask)}
    assert [node.name for node in graph.nodes].count("iota") == 1


def test_factors_that_are_computed_again_keep_their_gradients():
    def norm(g, x, weight):
        squares = g.reduce("add", g.elementwise("square", x), (2,))
        scale = g.broadcast_in_dim(g.elementwise("rsqrt", squares), SHAPE, (0, 1))
        scaled = g.elementwise("multiply", x, scale)
        wide = g.broadcast_in_dim(weight, SHAPE, (2,))
        return g.elementwise("multiply", g.elementwise("multiply", scaled, wide), scaled)

    compared(norm, SHAPE, (4,))


def test_movement():
    compared(lambda g, x: g.transpose(x, (2, 0, 1)), SHAPE)
    compared(lambda g, x: g.reshape(x, (6, 4)), SHAPE)
    compared(lambda g, x: g.slice(x, (0, 1, 0), (2, 2, 2), (1, 1, 2)), SHAPE)
    compared(lambda g, x, y: g.concatenate((x, y), 1), SHAPE, (2, 2, 4))
    compared(lambda g, x: g.broadcast_in_dim(x, (2, 3, 5, 4), (0, 1, 3)), SHAPE)
    compared(lambda g, x: g.broadcast_in_dim(x, (2, 3), (0, 1)), (2, 1))
    compared(lambda g, x: g.reduce("add", x, (1,)), SHAPE)


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("right", [1, 2])
def test_products(left, right):
    shapes = (2, 3, 4) if left == 2 else (2, 4, 3), (2, 4, 5) if right == 1 else (2, 5, 4)
    compared(lambda g, x, y: g.dot_general(x, y, (left, right)), *shapes)


def test_attention():
    mask = Attention(0.5, is_causal=True)
    compared(lambda g, q, k, v: g.apply(mask, q, k, v), (1, 3, 4), (1, 3, 4), (1, 3, 2))
    with pytest.raises(NotModelled, match=r"^the gradient of attention with capped scores"):
        compared(lambda g, q: g.apply(Attention(0.5, cap=3.0), q, q, q), (1, 3, 4))


def test_the_gradient_of_a_second_result_is_refused():
    graph = Graph()
    query, key, value = (graph.input((2, 3, 4), "float32") for _ in range(3))
    _, logs = graph.apply_to_all(Attention(0.5), [query, key, value])
    loss = graph.reduce("add", logs, (0, 1))
    with pytest.raises(NotModelled, match="attention by a result other than its first"):
        gradients(graph, loss, [query], {})


def test_elements_that_a_slice_leaves_out_have_no_gradient():
    graph = Graph()
    x = graph.input((4,), "float32")
    nothing = graph.slice(x, (1,), (0,), (2,))
    loss = graph.reduce("add", graph.concatenate([nothing, graph.slice(x, (0,), (2,))], 0), (0,))
    graph.outputs = gradients(graph, loss, [x], {})
    (slope,) = graph.reference([np.ones(4, np.float32)])
    assert slope.tolist() == [1, 1, 0, 0]


def test_rows_of_a_table_that_are_read_twice_are_added_up():
    graph = Graph()
    table, numbers = graph.input((4, 3), "float32"), graph.input((3,), "int32")
    loss = graph.reduce("add", graph.reshape(graph.gather(table, numbers), (9,)), (0,))
    graph.outputs = gradients(graph, loss, [table], {})
    (found,) = graph.reference([np.ones((4, 3), np.float32), np.array([2, 0, 2], np.int32)])
    assert found[:, 0].tolist() == [1, 0, 2, 0]


def test_what_depends_on_nothing_wanted_has_no_gradient():
    graph = Graph()
    x, y = (graph.input((3,), "float32") for _ in range(2))
    loss = graph.reduce("add", graph.elementwise("multiply", x, graph.elementwise("sine", y)), (0,))
    assert len(gradients(graph, loss, [x], {})) == 1
    with pytest.raises(
        NotModelled,
        match=r"^the gradient of sine has no rule yet; there are rules for add, .*multiply",
    ):
        gradients(graph, loss, [x, y], {})


def test_ranks_add_up_the_gradient_of_what_each_computes_a_part_of():
    graph, exchange = Graph(), AllReduce(((0, 1),))
    x, weight = graph.input((3, 4), "float32"), graph.input((4, 2), "float32")
    turned = graph.elementwise("tanh", x)
    made = graph.apply(exchange, graph.dot_general(turned, weight, (1, 0)))
    loss = graph.reduce("add", graph.reshape(made, (6,)), (0,))
    before = len(graph.nodes)
    gradients(graph, loss, [x, weight], {turned.number: exchange})
    kinds = [node.name for node in graph.nodes[before:]]
    assert kinds.count("all_reduce") == 1
    assert kinds.index("all_reduce") < kinds.index("square")


@pytest.mark.parametrize("count", [1, 2000])
def test_a_product_of_many_factors_is_longer_than_calls_are_deep(count):
    graph = Graph()
    value = x = graph.input((3,), "float32")
    for _ in range(count):
        value = graph.elementwise("multiply", value, 0.999)
    loss = graph.reduce("add", value, (0,))
    graph.outputs = gradients(graph, loss, [x], {})
    (slope,) = graph.reference([np.ones(3, np.float32)])
    np.testing.assert_allclose(slope, 0.999**count, rtol=1e-3)


def test_a_mask_whose_parts_are_read_twice_is_looked_at_once():
    graph = Graph()
    x = graph.input((3,), "float32")
    mask = graph.elementwise("convert", graph.iota((3,), 0), dtype="float32")
    for _ in range(60):  # 2 ** 60 ways from the mask to its places
        mask = graph.elementwise("multiply", graph.elementwise("add", mask, mask), 0.5)
    loss = graph.reduce("add", graph.elementwise("multiply", x, mask), (0,))
    forward = len(graph.nodes)
    graph.outputs = gradients(graph, loss, [x], {})
    assert len(graph.nodes) - forward < 2 * forward
    (slope,) = graph.reference([np.ones(3, np.float32)])
    assert slope.tolist() == [0, 1, 2]
