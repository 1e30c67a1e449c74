"""Programs: one device and many, and what JAX asks of them."""

import gc
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trnsim.jax.pjrt.executables import executables, sweep_executables

P = PartitionSpec


@pytest.fixture
def mesh(neuron):
    return Mesh(np.array(neuron).reshape(2, 4), ("x", "y"))


def test_no_results_one_and_several(neuron):
    x = jax.device_put(np.arange(3.0, dtype=np.float32), neuron[0])
    assert jax.jit(lambda _: ())(x) == ()
    several = jax.jit(lambda a: (a, a.sum(), a[:0]))(x)
    assert [one.shape for one in several] == [(3,), (), (0,)]
    assert jax.jit(lambda: jnp.zeros(()))() == 0


def test_a_program_runs_where_its_arguments_are(neuron):
    f = jax.jit(lambda a: a * 2)
    for device in neuron[:3]:
        found = f(jax.device_put(np.float32(4), device))
        assert (float(found), found.devices()) == (8, {device})


def test_pmap_and_its_collectives(neuron):
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    total = jax.pmap(lambda a: jax.lax.psum(a, "i"), "i", devices=neuron)(x)
    np.testing.assert_array_equal(np.asarray(total), np.tile(x.sum(0), (8, 1)))
    some = jax.pmap(lambda a: a - jax.lax.pmean(a, "i"), "i", devices=neuron[2:5])(x[:3])
    np.testing.assert_allclose(np.asarray(some), x[:3] - x[:3].mean(0), atol=1e-6)


@pytest.mark.parametrize("spec", [P("x"), P("y", "x"), P(None, "y"), P(("x", "y")), P()])
def test_a_sharded_program_computes_what_one_device_computes(mesh, spec):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    split = jax.device_put(x, NamedSharding(mesh, spec))
    found = jax.jit(lambda a: jnp.tanh(a / 64) @ a.T)(split)
    np.testing.assert_allclose(np.asarray(found), np.tanh(x / 64) @ x.T, rtol=1e-5)
    assert len(found.sharding.device_set) == 8


def test_collectives_of_shard_map(mesh):
    x = np.arange(32, dtype=np.float32).reshape(8, 4)

    def f(a):
        ring = [(at, (at + 1) % 4) for at in range(4)]
        gathered = jax.lax.all_gather(a, "y", tiled=True)
        return jax.lax.ppermute(jax.lax.psum(gathered.sum(0, keepdims=True), "x"), "y", ring)

    found = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P(("x", "y")), out_specs=P(("x", "y"))))(x)
    np.testing.assert_array_equal(np.asarray(found), np.tile(x.sum(0), (8, 1)))


def test_a_sharded_program_without_results(mesh):
    x = np.arange(8, dtype=np.float32)
    nothing = jax.shard_map(lambda _: None, mesh=mesh, in_specs=P(("x", "y")), out_specs=P())
    assert jax.jit(nothing)(x) is None


def test_bfloat16_is_rounded_at_each_operation(neuron):
    x = jax.device_put(np.array([1.0], jnp.bfloat16), neuron[0])
    found = jax.jit(lambda a: (a + jnp.bfloat16(2**-8)) + jnp.bfloat16(2**-8))(x)
    assert float(found[0]) == 1.0, "1 + 2**-8 rounds to 1, twice"


def test_a_compiled_program_tells_its_text_cost_and_memory(neuron):
    x = jax.device_put(np.ones((4, 8), np.float32), neuron[0])
    compiled = jax.jit(lambda a: a @ a.T).lower(x).compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] >= 256
    assert compiled.memory_analysis().argument_size_in_bytes == 128
    assert len(executables)


def test_a_program_is_written_and_read(neuron):
    from jax.experimental import serialize_executable  # noqa: PLC0415

    x = jax.device_put(np.ones(3, np.float32), neuron[0])
    compiled = jax.jit(lambda a: a * 3).lower(x).compile()
    written = serialize_executable.serialize(compiled)
    found = serialize_executable.deserialize_and_load(*written, execution_devices=[neuron[0]])(x)
    np.testing.assert_array_equal(np.asarray(found), [3, 3, 3])


@pytest.mark.slow
def test_programs_that_jax_has_forgotten_go(neuron):
    x = jax.device_put(np.float32(2), neuron[0])
    kept = jax.jit(lambda a: a * 3)
    kept(x)
    for at in range(10):
        jax.jit(lambda a, at=at: a * at)(x)
    gc.collect()
    before = len(executables)
    sweep_executables(latest_creation_s=0)
    assert len(executables) == before, "they are young"
    sweep_executables(time.monotonic())
    assert len(executables) <= before - 10
    assert float(kept(x)) == 6


def test_a_token_passes_through_programs(neuron):
    with jax.default_device(neuron[0]):
        token = jax.lax.create_token()
        array, after = jax.jit(lambda a, t: (a + 1, t))(np.float32(1), token)
    assert float(array) == 2
    assert type(after) is type(token)
    with pytest.raises(RuntimeError, match="token"):
        str(after._buf._value)
