import ml_dtypes
import numpy as np
import pytest
import torch

from trnsim.errors import Unspecified
from trnsim.graph import Graph
from trnsim.lower import costs, evaluate

SPECIAL = (np.inf, -np.inf, 0.0, -0.0)


def order(shape, k, dtype="float32"):
    g = Graph()
    g.outputs = [g.top_k(g.input(shape, dtype), k)]
    return g


def expected_of(x, k):
    rows = torch.from_numpy(x.astype(np.float32))
    return torch.sort(rows, dim=-1, descending=True, stable=True)[1][..., :k].numpy()


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("shape", "k"), [((64, 1024), 1024), ((3, 1201), 1201), ((5, 5000), 2600), ((2, 3, 1111), 1111)]
)
def test_the_order_is_the_stable_one_of_pytorch(shape, k, dtype, chip):
    rng = np.random.default_rng(k)
    x = rng.standard_normal(shape).astype(np.float32)
    x[0] = rng.integers(-9, 9, shape[1:])  # ties, within parts and across them
    for number in SPECIAL:
        x.reshape(-1)[rng.integers(0, x.size, 20)] = number
    x = x.astype(dtype)
    g = order(shape, k, np.dtype(dtype).name)
    np.testing.assert_array_equal(evaluate(g, [x], chip)[0], expected_of(x, k))


@pytest.mark.parametrize("number", [*SPECIAL, 7.0])
def test_equal_elements_stay_in_order(number):
    x = np.full((3, 1030), number, np.float32)
    np.testing.assert_array_equal(evaluate(order(x.shape, 1030), [x])[0], expected_of(x, 1030))


def test_rows_of_the_last_tile_are_merged_like_others():
    x = np.random.default_rng(0).integers(-99, 99, (131, 1024)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(order(x.shape, 1024), [x])[0], expected_of(x, 1024))


def test_nan_has_no_order():
    x = np.zeros((2, 1024), np.float32)
    x[1, 700] = np.nan
    with pytest.raises(
        Unspecified, match="top_k: the operand holds NaN, whose order AWS does not document"
    ):
        evaluate(order(x.shape, 1024), [x])


def test_few_long_rows_take_less_than_many():
    few, many = (
        sum(cost.device_time_s for cost in costs(order((rows, 4096), 4096))) for rows in (8, 128)
    )
    assert 10 * few < many


def test_few_results_are_searched():
    few, all_of_them = (
        sum(cost.device_time_s for cost in costs(order((64, 8192), k))) for k in (128, 8192)
    )
    assert 20 * few < all_of_them
