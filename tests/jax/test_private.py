import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.device.fallback_policy import state
from trnsim.jax import private


def test_the_platforms_that_are_asked_for(neuron):
    assert neuron
    assert private.asked_platforms() == ["neuron", "cpu"]
    assert private.is_registered()


def test_a_module_is_read_from_text_and_from_its_portable_form():
    from jaxlib.mlir.dialects import stablehlo  # noqa: PLC0415

    module = jax.jit(lambda a: a + 1).lower(np.float32(1)).compiler_ir("stablehlo")
    portable = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
    for code in (portable, str(module).encode()):
        assert private.name_of(private.module_of(code)) == "jit__lambda"


def test_an_array_over_several_devices_has_parts(neuron):
    mesh = jax.sharding.Mesh(np.array(neuron), ("x",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    array = jax.device_put(np.arange(8), split)
    assert len(private.shards(array)) == 8
    assert len(private.shards(jax.device_put(np.arange(8), neuron[0]))) == 1


def test_decompositions_of_a_host_are_the_hosts(neuron):
    given = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    square = given @ given.T
    x = jax.device_put(square, neuron[1])
    found = jnp.linalg.eigvalsh(x)
    assert found.devices() == {neuron[1]}
    np.testing.assert_allclose(found, np.linalg.eigvalsh(square), rtol=1e-3, atol=1e-5)
    sizes = np.linalg.svd(given, compute_uv=False)
    np.testing.assert_allclose(jnp.linalg.svd(given)[1], sizes, rtol=1e-4, atol=1e-5)
    roots = np.sort_complex(np.linalg.eigvals(given))
    np.testing.assert_allclose(np.sort_complex(jnp.linalg.eigvals(given)), roots, atol=1e-4)
    triangle, turned = jax.scipy.linalg.schur(given)
    np.testing.assert_allclose(turned @ triangle @ turned.T, given, atol=1e-5)


def test_a_chip_refuses_them_by_name(neuron, monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    x = jax.device_put(np.eye(3, dtype=np.float32), neuron[0])
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"custom_call of lapack_ssyevd_ffi: code"):
        jax.jit(lambda a: jax.lax.linalg.eigh(a)[1])(x)


def test_an_inverse_within_shard_map(neuron):
    mesh = jax.sharding.Mesh(np.array(neuron[:2]), "x")
    split = jax.sharding.PartitionSpec("x")
    given = np.random.default_rng(1).standard_normal((2, 4, 4)).astype(np.float32)
    inverse = jax.jit(jax.shard_map(jnp.linalg.inv, mesh=mesh, in_specs=split, out_specs=split))
    np.testing.assert_allclose(inverse(given), np.linalg.inv(given), rtol=1e-3, atol=1e-4)
