"""A little of everything on the platform; each_version.py runs it with each tested JAX."""

import os

# Before JAX is imported, and before the device counts its cores.
os.environ.setdefault("JAX_PLATFORMS", "neuron,cpu")
os.environ["NEURON_RT_NUM_CORES"] = "8"

import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="pip install 'trnsim[jax]'")
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trnsim.device.call_log import Recording, recordings
from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time

RATE = 0.1
X = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32) / 8


def loss(w, x):
    with jax.named_scope("layer"):
        hidden = jnp.tanh(x @ w)
    return (hidden**2).mean()


@jax.jit
def step(w, x):
    return w - RATE * jax.grad(loss)(w, x)


def stepped(w, x):
    """The same step in numpy, in float64."""
    w, x = w.astype(np.float64), x.astype(np.float64)
    hidden = np.tanh(x @ w)
    return w - RATE * x.T @ (2 * hidden / hidden.size * (1 - hidden**2))


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


def test_the_platform_is_found_and_is_the_default():
    devices = jax.devices()
    assert jax.default_backend() == "neuron"
    assert [one.platform for one in devices] == ["neuron"] * 8


def test_a_step_with_gradients():
    np.testing.assert_allclose(step(W, X), stepped(W, X), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_random_numbers_are_those_of_the_cpu():
    with jax.default_device(jax.devices("cpu")[0]):
        wanted = np.asarray(jax.random.normal(jax.random.key(7), (3, 5)))
    np.testing.assert_array_equal(jax.random.normal(jax.random.key(7), (3, 5)), wanted)


def test_an_array_that_is_donated_is_gone():
    x = jnp.asarray(X)
    y = jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(y, X + 1)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_an_error_in_a_users_function_leaves_the_device_at_work():
    def raising(*arrays):
        raise TypeError(f"{len(arrays)} arrays")

    for function in (raising, jax.jit(raising), jax.vmap(raising)):
        with pytest.raises(TypeError, match="2 arrays"):
            function(jnp.ones(3), jnp.ones(3) + 1)
        assert float(jnp.ones(3).sum()) == 3


def test_pmap_over_all_cores():
    given = np.arange(24, dtype=np.float32).reshape(8, 3)
    found = jax.pmap(lambda a: a - jax.lax.pmean(a, "i"), axis_name="i")(given)
    np.testing.assert_allclose(found, given - given.mean(0))


def test_shard_map_over_a_mesh(mesh):
    split = PartitionSpec("x", "y")

    def scaled(part):
        return part / jax.lax.psum(part.sum(), ("x", "y"))

    found = jax.jit(jax.shard_map(scaled, mesh=mesh, in_specs=split, out_specs=split))(X)
    np.testing.assert_allclose(found, X / X.sum(), rtol=1e-4)


def test_a_step_that_xla_splits(mesh):
    w = jax.device_put(W, NamedSharding(mesh, PartitionSpec("x", "y")))
    np.testing.assert_allclose(step(w, X), stepped(W, X), rtol=1e-5, atol=1e-6)


def test_memory_in_use():
    device = jax.devices()[3]
    before = device.memory_stats()["bytes_in_use"]
    held = jax.device_put(np.ones(1 << 20, np.float32), device)
    assert device.memory_stats()["bytes_in_use"] == before + held.nbytes
    held.delete()
    assert device.memory_stats()["bytes_in_use"] == before


def test_the_time_of_a_step():
    given = jnp.asarray(W), jnp.asarray(X)
    recording = Recording()
    recordings.append(recording)
    try:
        step(*given).block_until_ready()
    finally:
        recordings.remove(recording)
    found = step_time(recording, "trn2")
    assert not found.missing
    assert found.flop == 2 * 2 * X.shape[0] * W.size
    assert "layer" in {name for name, _, _ in found.by("module")}
    assert 1e-6 < found.device_time_s < 1e-4


def test_exact_values_are_the_chips():
    with numerics("exact") as on_host:
        found = np.asarray(step(W, X))
    assert not on_host
    np.testing.assert_allclose(found, stepped(W, X), rtol=1e-5, atol=1e-6)


def ran(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.slow
def test_a_process_ends_well():
    done = ran("import jax.numpy as jnp; x = jnp.ones(3) + 1; print(x.sum(), x.device)")
    assert (done.returncode, done.stdout.split()[0]) == (0, "6.0")
    assert "neuron" in done.stdout.lower()
    assert "Error" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.7.2", "0.11.0"])
def test_a_version_that_is_not_tested_is_refused_and_named(version):
    done = ran(
        f"import jax; jax.__version__ = {version!r}\n"
        "try: jax.devices('neuron')\n"
        "except RuntimeError as error: print(error)"
    )
    assert f"JAX {version} is installed; the neuron device was tested with jax>=0.8,<0.11 only" in (
        done.stdout
    )
