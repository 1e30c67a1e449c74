"""The kernels of aws-neuron-sdk's nki/examples run unmodified and give numpy's values."""

import ml_dtypes
import numpy as np
import pytest

import trnsim

ADDITION = "aws-neuron-sdk/nki/examples/tensor_addition/tensor_addition_nki_kernels.py"
MATMUL = "aws-neuron-sdk/nki/examples/matrix_multiplication/matrix_multiplication_nki_kernels.py"


@pytest.fixture(autouse=True)
def _keep_environment(monkeypatch):
    """The addition example sets the target in the environment when it is imported."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", [(128, 512), (512, 2048)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_tensor_addition_gives_numpys_sum(load_upstream, shape, dtype):
    kernel = load_upstream(ADDITION).nki_tensor_add
    a, b = random(shape, dtype, 1), random(shape, dtype, 2)
    run = trnsim.run(kernel, a, b)
    expected = (a.astype(np.float32) + b.astype(np.float32)).astype(dtype)
    np.testing.assert_array_equal(run.outputs, expected)
    assert run.total_time_s > 0


@pytest.mark.parametrize(
    ("name", "K", "M", "N"),
    [
        ("nki_matmul_basic_", 128, 64, 512),
        ("nki_matmul_tiled_", 256, 128, 512),
        ("nki_matmul_tiled_", 512, 256, 1024),
        ("nki_matmul_hoist_load_", 256, 128, 512),
        ("nki_matmul_hoist_load_", 512, 256, 1024),
        ("nki_matmul_block_free_dimension_", 256, 256, 1024),
        ("nki_matmul_block_free_dimension_", 512, 512, 2048),
        ("nki_matmul_fully_optimized_", 1024, 2048, 1024),
        ("nki_matmul_fully_optimized_", 2048, 4096, 2048),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_matmul_gives_numpys_product(load_upstream, name, K, M, N, dtype):
    kernel = getattr(load_upstream(MATMUL), name)
    left, right = random((K, M), dtype, 1), random((K, N), dtype, 2)
    result = trnsim.run(kernel, left, right).outputs
    expected = left.astype(np.float64).T @ right.astype(np.float64)
    tolerance = 1e-4 if dtype is np.float32 else 1e-2
    assert result.dtype == dtype
    error = np.abs(result.astype(np.float64) - expected).max()
    assert error <= tolerance * np.abs(expected).max()


def test_basic_matmul_has_one_legal_shape(load_upstream):
    kernel = load_upstream(MATMUL).nki_matmul_basic_
    with pytest.raises(AssertionError, match="Expected lhsT matrix to have dimension M of 64"):
        trnsim.run(kernel, random((128, 32)), random((128, 512)))
