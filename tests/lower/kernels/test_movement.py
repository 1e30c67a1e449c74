import numpy as np
import pytest

from trnsim.graph import (
    Graph,
    TensorType,
)
from trnsim.graph.ops.layout import BroadcastInDim, Reverse
from trnsim.lower import (
    costs,
    evaluate,
)


@pytest.mark.slow_but_every(3)
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
    g.outputs = [g.concatenate((x, y, x), 1)]
    np.testing.assert_array_equal(evaluate(g, [a, b])[0], np.concatenate([a, b, a], 1))


def test_slices_with_steps(random):
    x = random((6, 8))
    g = Graph()
    g.outputs = [
        g.slice(g.input(x.shape, "float32"), (1, 2), (4, 3), (1, 2))
    ]  # fmt: skip
    np.testing.assert_array_equal(evaluate(g, [x])[0], x[1:5, 2:8:2])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize(
    ("low", "high", "interior"),
    [((1, 0), (0, 2), (0, 0)), ((0, 3), (1, 0), (2, 1)), ((-2, 1), (-1, -3), (0, 1))],
)
def test_padding_goes_around_and_between_elements_and_takes_away_below_zero(
    dtype, low, high, interior
):
    x = np.arange(1, 29).reshape(4, 7).astype(dtype)
    g = Graph()
    g.outputs = [g.pad(g.input(x.shape, dtype), low, high, interior, 9.0)]
    size = [n + (n - 1) * gap for n, gap in zip(x.shape, interior, strict=True)]
    wide = np.full(size, 9, dtype)
    wide[:: interior[0] + 1, :: interior[1] + 1] = x
    expected = np.pad(wide, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)],
                      constant_values=9)  # fmt: skip
    cut = tuple(slice(max(-a, 0), n + max(a, 0) + b if b < 0 else None)
                for a, b, n in zip(low, high, size, strict=True))  # fmt: skip
    np.testing.assert_array_equal(evaluate(g, [x])[0], expected[cut])


def joined(dtype, *shapes, dim):
    g = Graph()
    values = [g.input(shape, dtype) for shape in shapes]
    g.outputs = [g.concatenate(values, dim)]
    return g


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 1), (1, 1)],
        [(127, 1), (127, 1)],
        [(128, 3), (128, 2), (128, 1)],
        [(129, 1), (129, 127)],
        [(300_001, 1), (300_001, 1)],
    ],
)
def test_short_rows_are_joined_in_the_time_of_their_bytes(dtype, shapes):
    g = joined(dtype, *shapes, dim=1)
    kind = g.inputs[0].type.numpy_dtype()
    found = [(np.arange(r * c).reshape(r, c) + 2**24 + 1).astype(kind) for r, c in shapes]
    np.testing.assert_array_equal(evaluate(g, found)[0], np.concatenate(found, 1))
    (cost,) = costs(g)
    assert cost.device_time_s < 10e-6 + 8 * cost.hbm_bytes / 368e9


def test_a_long_run_is_shared_among_the_dma_engines():
    (cost,) = costs(joined("float32", (1 << 20,), (1 << 20,), dim=0))
    assert cost.device_time_s < 10e-6 + cost.hbm_bytes / 368e9


@pytest.mark.parametrize("number", [0.5, -1.0, 256.0, 2.0**31, np.nan, np.inf, 0.0])
def test_truth_values_are_padded_with_true_for_any_number_but_0(number):
    x = np.array([False, True])
    g = Graph()
    g.outputs = [g.pad(g.input((2,), "bool"), (1,), (2,), (1,), number)]
    expected = np.full(6, number != 0)
    expected[[1, 3]] = x
    np.testing.assert_array_equal(evaluate(g, [x])[0], expected)


def test_the_reverse_of_a_scalar_is_the_scalar():
    g = Graph()
    g.outputs = [g.apply(Reverse(()), g.input((), "float32"))]
    np.testing.assert_array_equal(evaluate(g, [np.float32(3)])[0], np.float32(3))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize(
    ("shape", "dims", "result"),
    [
        ((5, 7), (0, 1), (5, 7, 2)),
        ((5, 7), (0, 1), (5, 7, 3, 2)),
        ((130, 7), (0, 2), (130, 3, 7, 2)),
        ((5, 1), (0, 1), (5, 9)),
        ((7, 5), (1, 0), (5, 7, 2)),
        ((1, 7), (0, 1), (4, 7, 2)),
        ((3,), (0,), (3, 127)),
        ((3,), (0,), (3, 600)),
        ((1,), (0,), (3, 2)),
    ],
)
def test_copies_of_each_element_lie_side_by_side(shape, dims, result, dtype):
    value = TensorType(shape, dtype)
    x = (np.arange(value.elements) % 100 + 1).reshape(shape).astype(value.numpy_dtype())
    g = Graph()
    copies = g.broadcast_in_dim(g.elementwise("add", g.input(shape, dtype), 1), result, dims)
    g.outputs = [g.reshape(copies, (copies.type.elements,))]
    wide = BroadcastInDim(result, dims).reference(x + x.dtype.type(1))
    np.testing.assert_array_equal(evaluate(g, [x])[0], wide.reshape(-1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_copies_of_special_numbers_are_equal(value):
    x = np.array([1, value, 3], np.float32)
    g = Graph()
    g.outputs = [g.broadcast_in_dim(g.input((3,), "float32"), (3, 2), (0,))]
    (found,) = evaluate(g, [x])
    assert found.tobytes() == np.repeat(x, 2).tobytes()


def test_copies_of_each_element_take_the_time_of_their_bytes():
    g = Graph()
    copies = g.broadcast_in_dim(g.input((64, 64, 64), "float32"), (64, 64, 64, 2), (0, 1, 2))
    g.outputs = [g.reshape(copies, (64, 64, 128))]
    (cost,) = costs(g)
    assert cost.device_time_s < 10e-6 + 8 * cost.hbm_bytes / 368e9
