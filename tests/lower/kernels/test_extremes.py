import ml_dtypes
import numpy as np
import pytest
import torch

from trnsim.graph import Graph
from trnsim.lower import costs, evaluate

LARGEST = np.finfo(np.float32).max
SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, LARGEST, -LARGEST)


def search(shape, dtype="float32"):
    g = Graph()
    g.outputs = [g.top_k(g.input(shape, dtype), 1)]
    return g


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "shape",
    [(1, 1), (3, 5), (131, 9), (64, 1024), (63, 1025), (50, 1031), (1, 9001), (129, 513)],
)
def test_the_index_is_that_of_pytorch_also_of_nan_and_of_ties(shape, dtype, chip):
    rng = np.random.default_rng(shape[1])
    x = rng.integers(-40, 40, shape).astype(np.float32)
    for number in SPECIAL:
        x.reshape(-1)[rng.integers(0, x.size, shape[0] // 8 + 1)] = number
    x[-1] = rng.choice(SPECIAL)
    x = x.astype(dtype)
    expected = torch.from_numpy(x.astype(np.float32)).argmax(-1, keepdim=True).numpy()
    np.testing.assert_array_equal(
        evaluate(search(shape, np.dtype(dtype).name), [x], chip)[0], expected
    )


@pytest.mark.parametrize("shape", [(1, 5000), (60, 1031)])
@pytest.mark.parametrize("number", SPECIAL)
def test_of_equal_elements_in_several_parts_the_first_is_chosen(number, shape):
    x = np.full(shape, number, np.float32)
    np.testing.assert_array_equal(evaluate(search(shape), [x])[0], np.zeros((shape[0], 1)))
    x[:, :1029] = 7 if np.isnan(number) or number > 7 else -np.inf
    if number != -np.inf:
        np.testing.assert_array_equal(evaluate(search(shape), [x])[0], np.full((shape[0], 1), 1029))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("length", [32_000, 50_257])
def test_few_rows_are_divided_among_the_partitions(dtype, length):
    few, many = (
        sum(cost.device_time_s for cost in costs(search((rows, length), dtype)))
        for rows in (4, 128)
    )
    assert 5 * few < many
