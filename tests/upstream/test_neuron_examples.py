"""D1: the kernels of aws-neuron-sdk's nki/examples run unmodified and give numpy's values."""

import os
import re
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.runs import collecting

EXAMPLES = "aws-neuron-sdk/nki/examples"
ADDITION = f"{EXAMPLES}/tensor_addition/tensor_addition_nki_kernels.py"
MATMUL = f"{EXAMPLES}/matrix_multiplication/matrix_multiplication_nki_kernels.py"
TRANSPOSE = f"{EXAMPLES}/transpose2d/transpose2d_nki_kernels.py"
POOL = f"{EXAMPLES}/average_pool2d/average_pool2d_nki_kernels.py"
MAMBA = f"{EXAMPLES}/fused_mamba/mamba_nki_kernels.py"


@pytest.fixture(autouse=True)
def _keep_environment(monkeypatch):
    """The addition example sets the target in the environment when it is imported."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


@pytest.fixture(autouse=True)
def _warns_of_nothing():
    """No loop of the examples depends on the order of its iterations."""
    with collecting() as runs:
        yield
    assert [text for run in runs for text in run.warnings] == []


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


@pytest.mark.parametrize(("P", "rows", "columns"), [(5, 3, 4), (128, 16, 32)])
def test_transpose2d_swaps_the_axes_of_each_row(load_upstream, P, rows, columns):
    kernel = load_upstream(TRANSPOSE).tensor_transpose2D_kernel_
    given = (np.arange(P * rows * columns) % 127).astype(np.int8).reshape(P, rows * columns)
    expected = given.reshape(P, rows, columns).transpose(0, 2, 1).reshape(P, -1)
    np.testing.assert_array_equal(trnsim.run(kernel, given, (rows, columns)).outputs, expected)


@pytest.mark.parametrize(
    ("shape", "pool", "dtype"), [((2, 6, 6), 2, np.float16), ((128, 24, 24), 3, np.float32)]
)
def test_average_pooling_is_the_files_own_reference(load_upstream, shape, pool, dtype):
    module = load_upstream(POOL)
    given = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    found = trnsim.run(module.tensor_avgpool_kernel, given, pool).outputs
    expected = module.np_average_pool_2D(given.astype(np.float64), pool)
    np.testing.assert_allclose(found, expected, rtol=1e-2 if dtype == np.float16 else 1e-4)


def mamba(delta, u, A, B, C):
    """The state-space model, one step after the other, in float64."""
    delta, u, A, B, C = (x.astype(np.float64) for x in (delta, u, A, B, C))
    decay = np.exp(delta[:, :, None] * A[None, :, :, None])
    inflow = delta[:, :, None] * B[:, None] * u[:, :, None]
    state, steps = np.zeros(decay.shape[:-1]), []
    for step in range(decay.shape[-1]):
        state = decay[..., step] * state + inflow[..., step]
        steps.append((C[:, None, :, step] * state).sum(-1))
    return np.stack(steps, axis=-1)


@pytest.mark.parametrize("name", ["mamba_v1", "mamba_v2", "mamba_v3"])
def test_mamba_gives_the_state_space_model(load_upstream, name):
    rng = np.random.default_rng(3)
    batch, channels, state, length = 1, 256, 4, 1024
    delta, u = (rng.random((batch, channels, length), np.float32) for _ in range(2))
    A = -rng.random((channels, state), np.float32)
    B, C = (rng.random((batch, state, length), np.float32) for _ in range(2))
    found = trnsim.run(getattr(load_upstream(MAMBA), name), delta, u, A, B, C).outputs
    expected = mamba(delta, u, A, B, C)
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["mamba_v2", "mamba_v3"])
def test_every_mamba_is_exactly_the_first(load_upstream, name):
    module = load_upstream(MAMBA)
    shapes = ((1, 256, 2048), (1, 256, 2048), (256, 16), (1, 16, 2048), (1, 16, 2048))
    given = [np.ones(shape, np.float32) for shape in shapes]
    given[2] *= -1
    first = trnsim.run(module.mamba_v1, *given).outputs
    np.testing.assert_array_equal(trnsim.run(getattr(module, name), *given).outputs, first)


def test_the_simulate_example_runs_and_checks_itself(load_upstream):
    module = load_upstream(f"{EXAMPLES}/simulate/nki_simulate_example.py")
    np.testing.assert_allclose(module.result, module.a + module.b, rtol=1e-5)


def test_the_layout_that_passes_gives_the_exponential(load_upstream):
    kernel = load_upstream(f"{EXAMPLES}/layout-pass.py").tensor_exp_kernel_
    given = random((128, 512))
    np.testing.assert_allclose(trnsim.run(kernel, given).outputs, np.exp(given), rtol=1e-5)


def test_the_layout_that_violates_the_partition_limit_is_refused(load_upstream):
    kernel = load_upstream(f"{EXAMPLES}/layout-violation.py").tensor_exp_kernel_
    with pytest.raises(IllegalInstruction, match=r"has 256 partitions; legal .* at most 128"):
        trnsim.run(kernel, random((256, 512)))


@pytest.mark.parametrize("name", ["baremetal", "torch", "jax"])
def test_getting_started_adds(load_upstream, name):
    kernel = load_upstream(f"{EXAMPLES}/getting_started_{name}.py").nki_tensor_add_kernel
    ones = np.ones((4, 3), np.float16)
    np.testing.assert_array_equal(kernel(ones, ones), 2 * ones)


def test_the_first_indexing_example_splits_even_and_odd_columns(load_upstream):
    kernel = load_upstream(f"{EXAMPLES}/index-case-1.py").tensor_split_kernel_
    given = random((4, 5))
    even, odd = trnsim.run(kernel, given).outputs
    np.testing.assert_array_equal(even, given[:, 0::2])
    np.testing.assert_array_equal(odd, given[:, 1::2])


def test_the_third_indexing_example_takes_the_maximum_of_each_window(load_upstream):
    kernel = load_upstream(f"{EXAMPLES}/index-case-3.py").tensor_maxpool_kernel_
    given = random((2, 6, 6))
    expected = given.reshape(2, 3, 2, 3, 2).max(axis=(2, 4))
    np.testing.assert_array_equal(trnsim.run(kernel, given, 2).outputs, expected)


@pytest.fixture
def jax_program(upstream, tmp_path):
    """Runs a program of JAX in a process of its own, beside the example's files."""
    pytest.importorskip("jax", reason="pip install 'trnsim[jax]'")

    def run(program, folder):
        place = upstream / EXAMPLES / folder
        path = os.pathsep.join([str(place), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "neuron"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[done.stderr.rfind("\ntrnsim.") + 1 :]
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("average_pool2d/average_pool2d_jax.py", "NKI and JAX match\n"),
        ("transpose2d/transpose2d_jax.py", "NKI and JAX match\n"),
        ("getting_started_jax.py", "[2. 2. 2.]]\n"),
    ],
)
def test_a_program_of_jax_runs_unedited(upstream, jax_program, name, said):
    file = upstream / EXAMPLES / name
    program = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    assert jax_program(program, name.rpartition("/")[0]).endswith(said)


PAGE = "aws-neuron-sdk/nki/guides/framework_custom_op.rst"


def test_the_guides_snippets_of_jax_run_unedited(upstream, jax_program):
    """Those with a kernel, its HLO and its gradient, after the import that the guide shows."""
    text = (upstream / PAGE).read_text(encoding="utf-8")
    found = re.findall(r"::\n\n((?:   .*\n|\n)+)", text)
    snippets = [textwrap.dedent(one) for one in found if "jax" in one and "torch" not in one]
    called, hlo, gradient = (
        next(one for one in snippets if word in one and apart not in one)
        for word, apart in (
            ("nki_tensor_add(a, b) #", "custom_vjp"),
            ("hlo_modules()", "custom-call"),
            ("custom_vjp", "hlo_modules"),
        )
    )
    head = "from tensor_addition_nki_kernels import nki_tensor_add\n"
    compared = """
expected = (a + b) * a * b
np.testing.assert_allclose(c, expected, rtol=1e-5)
np.testing.assert_allclose(grad_a, 2 * a * b + b * b, rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(grad_b, a * a + 2 * a * b, rtol=1e-4, atol=1e-5)
print("right")
"""
    parts = [head, called, hlo, gradient, "import numpy as np", compared]
    printed = jax_program("\n".join(parts), "tensor_addition")
    assert 'custom_call_target="AwsNeuronCustomNativeKernel"' in printed
    assert printed.endswith("right\n")
