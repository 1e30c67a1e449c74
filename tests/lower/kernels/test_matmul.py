from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.lower import bound, costs, evaluate
from trnsim.lower.kernels.matmul import _Side


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("is_last", [(True, False), (True, True), (False, False), (False, True)])
def test_either_side_may_lie_either_way(random, is_last, target):
    M, K, N = 150, 200, 600
    a, b = random((M, K)), random((K, N), seed=1)
    left = a if is_last[0] else np.ascontiguousarray(a.T)
    right = np.ascontiguousarray(b.T) if is_last[1] else b
    g = Graph()
    x, y = g.input(left.shape, "float32"), g.input(right.shape, "float32")
    g.outputs = [g.dot_general(x, y, (int(is_last[0]), int(is_last[1])))]
    np.testing.assert_allclose(evaluate(g, [left, right], target)[0], a @ b, atol=1e-3)


@pytest.mark.parametrize("rows", [1, 7, 129])
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_rows_pass_while_blocks_of_the_other_side_stay(random, rows, is_last, dtype):
    K, N = 300, 700
    g = Graph()
    x = g.input((rows, K), dtype)
    y = g.input((N, K) if is_last else (K, N), dtype)
    g.outputs = [g.dot_general(x, y, (1, int(is_last)))]
    a, b = (
        random(one.shape, seed=n).astype(one.type.numpy_dtype()) for n, one in enumerate((x, y))
    )
    wide = b.astype(np.float64).T if is_last else b.astype(np.float64)
    found = evaluate(g, [a, b], "trn1")[0].astype(np.float64)
    near = 2e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(found, a.astype(np.float64) @ wide, atol=near * abs(found).max())


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("rows", [1, 128])
def test_few_rows_take_little_more_than_the_weights_over_hbm(rows, is_last):
    g = Graph()
    y = g.input((2048, 1024) if is_last else (1024, 2048), "bfloat16")
    g.outputs = [g.dot_general(g.input((rows, 1024), "bfloat16"), y, (1, int(is_last)))]
    (cost,) = costs(g)
    assert cost.device_time_s < 2 * bound(g, "trn2").seconds + 5e-6  # what the first and last wait


def test_batches(random):
    a, b = random((3, 2, 20, 30)), random((3, 2, 30, 40), seed=1)
    g = Graph()
    x, y = g.input(a.shape, "float32"), g.input(b.shape, "float32")
    g.outputs = [g.dot_general(x, y, (3, 2))]
    np.testing.assert_allclose(evaluate(g, [a, b])[0], a @ b, atol=1e-4)


def test_a_matrix_times_itself(random):
    a, g = random((2, 20, 20)), Graph()
    x = g.input(a.shape, "float32")
    g.outputs = [g.dot_general(x, x, (2, 1))]
    np.testing.assert_allclose(evaluate(g, [a])[0], a @ a, atol=1e-4)


@pytest.mark.slow
def test_long_contractions_are_cut_to_what_fits():
    g = Graph()
    x, y = g.input((256, 32768), "bfloat16"), g.input((32768, 1024), "bfloat16")
    g.outputs = [g.dot_general(x, y, (1, 0))]
    (cost,) = costs(g)
    assert cost.device_time_s > cost.flop / 95e12  # no faster than the array's peak in bfloat16


@pytest.mark.parametrize(
    ("K", "itemsize", "unit", "columns"),
    [
        (1, 4, 512, 12288),
        (640, 4, 128, 2432),  # 2457 would fit
        (640, 4, 512, 2048),
        (641, 4, 128, 2048),
        (640, 2, 128, 4864),
        (96 * 128, 4, 128, 128),
        (96 * 128 + 1, 4, 128, 0),
        (96 * 128, 4, 512, 0),
    ],
)
def test_a_side_keeps_the_whole_tiles_that_fit_in_48_kib_of_a_partition(K, itemsize, unit, columns):
    tensor = SimpleNamespace(dtype=SimpleNamespace(itemsize=itemsize))
    found = _Side(tensor, 0, K, 4096, is_k_last=False).block_columns(unit)
    assert found == columns
    assert ceil(K / 128) * itemsize * (found + unit) > 48 * 1024 >= ceil(K / 128) * itemsize * found


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((300, 600), (0,)), ((3, 140, 80), (1,)), ((2, 5, 30, 40), (1, 2)), ((2, 3, 20, 4, 5), (2,))],
)
def test_reductions_over_dimensions_before_the_last(random, op, shape, dims):
    x = random(shape)
    g = Graph()
    g.outputs = [g.reduce(op, g.input(x.shape, "float32"), dims)]
    reduced = {"add": np.sum, "maximum": np.max, "minimum": np.min}[op]
    expected = reduced(x, axis=dims)
    np.testing.assert_allclose(evaluate(g, [x])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_sums_of_columns_of_short_integers_wrap_around(dtype):
    x = np.full((5, 7), np.iinfo(dtype).max, dtype)
    g = Graph()
    g.outputs = [g.reduce("add", g.input((5, 7), dtype), (0,))]
    expected = np.add.reduce(x.astype(np.int64), 0).astype(dtype)
    np.testing.assert_array_equal(evaluate(g, [x])[0], expected)
