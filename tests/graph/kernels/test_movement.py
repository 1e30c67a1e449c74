import numpy as np
import pytest

from trnsim.graph import Graph, TensorType, evaluate


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_transposes_move_every_element(order, dtype):
    value = TensorType((3, 20, 5, 13), dtype)
    x = (np.arange(value.elements) % 100).reshape(value.shape).astype(value.numpy_dtype())
    g = Graph()
    g.outputs = [g.transpose(g.input(x.shape, dtype), order)]
    np.testing.assert_array_equal(evaluate(g, [x])[0], x.transpose(order))


def test_tensors_are_joined_along_any_dimension(random):
    a, b = random((3, 4, 5)), random((3, 2, 5), seed=1)
    g = Graph()
    x, y = g.input(a.shape, "float32"), g.input(b.shape, "float32")
    g.outputs = [g.add("concatenate", (x, y, x), TensorType((3, 10, 5), "float32"), dim=1)]
    np.testing.assert_array_equal(evaluate(g, [a, b])[0], np.concatenate([a, b, a], 1))


def test_slices_with_steps(random):
    x = random((6, 8))
    g = Graph()
    g.outputs = [
        g.add("slice", (g.input(x.shape, "float32"),), TensorType((4, 3), "float32"),
              starts=(1, 2), strides=(1, 2))
    ]  # fmt: skip
    np.testing.assert_array_equal(evaluate(g, [x])[0], x[1:5, 2:8:2])


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_rows_are_gathered_and_added_where_indices_repeat(random, target):
    table, places = random((50, 64)), np.random.default_rng(0).integers(0, 50, 210, np.int32)
    g = Graph()
    t, i = g.input(table.shape, "float32"), g.input(places.shape, "int32")
    g.outputs = [g.add("gather", (t, i), TensorType((210, 64), "float32"))]
    rows = evaluate(g, [table, places], target)[0]
    np.testing.assert_array_equal(rows, table[places])
    g = Graph()
    u, i = g.input(rows.shape, "bfloat16"), g.input(places.shape, "int32")
    g.outputs = [g.add("scatter", (u, i), TensorType((50, 64), "bfloat16"))]
    updates = rows.astype(u.type.numpy_dtype())
    expected = np.zeros((50, 64), np.float32)
    np.add.at(expected, places, updates.astype(np.float32))
    found = evaluate(g, [updates, places], target)[0].astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=2**-7, atol=1e-3)
