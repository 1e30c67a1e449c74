import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.device.fallback_policy import state
from trnsim.jax import private


def test_the_platforms_that_are_asked_for(neuron):
    assert neuron
    assert private.requested_platforms() == ["neuron", "cpu"]
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


def test_a_module_of_hlo_is_read_as_stablehlo():
    module = jax.jit(lambda a: a + 1).lower(np.float32(1)).compiler_ir("hlo")
    code = private.stablehlo_of(module.as_serialized_hlo_module_proto())
    assert "stablehlo.add" in str(private.module_of(code))


def test_the_lines_of_an_operation_are_those_of_its_tracing():
    from jax.extend.core import Primitive  # noqa: PLC0415
    from jax.interpreters import batching  # noqa: PLC0415

    seen, probe = [], Primitive("probe")
    probe.def_abstract_eval(lambda x: x)
    batching.primitive_batchers[probe] = lambda given, dims: (
        seen.extend(private.lines()) or (given[0], dims[0])
    )

    def called(x):
        return probe.bind(x)

    jax.make_jaxpr(jax.vmap(jax.jit(called)))(np.ones((2, 3)))
    assert any(file == __file__ for file, _ in seen)


def test_a_module_as_hlo_has_its_custom_calls_names_and_lines():
    def program(x):
        call = jax.ffi.ffi_call("somebody", jax.ShapeDtypeStruct((3,), np.float32))
        with jax.named_scope("here"):
            return call(x)

    lowered = jax.jit(program).lower(np.ones(3, np.float32))
    text = private.hlo_of(lowered.compiler_ir("stablehlo"))
    assert b"somebody" in text
    assert b"jit(program)/here/ffi_call" in text


def test_a_result_varies_over_the_mesh_as_its_operands_do(neuron):
    mesh = jax.sharding.Mesh(np.array(neuron), ("d",))
    spec, seen = jax.sharding.PartitionSpec("d"), []

    def each(split, whole):
        alike = private.insert_same_axes([split, whole])
        like = private.result_like(jax.typeof(alike[1]), (7, 2), np.dtype(np.int32))
        seen.extend([*map(jax.typeof, alike), like])
        return split

    whole = jax.sharding.PartitionSpec()
    program = jax.shard_map(each, mesh=mesh, in_specs=(spec, whole), out_specs=spec)
    jax.make_jaxpr(program)(np.ones((8, 2)), np.ones(3))
    varying = [one.mat.varying if hasattr(one, "mat") else one.vma for one in seen]
    assert varying == [{"d"}] * 3
    assert (seen[2].shape, seen[2].dtype, seen[2].weak_type) == ((7, 2), np.int32, False)


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_inverse_within_shard_map(neuron):
    mesh = jax.sharding.Mesh(np.array(neuron[:2]), "x")
    split = jax.sharding.PartitionSpec("x")
    given = np.random.default_rng(1).standard_normal((2, 4, 4)).astype(np.float32)
    inverse = jax.jit(jax.shard_map(jnp.linalg.inv, mesh=mesh, in_specs=split, out_specs=split))
    np.testing.assert_allclose(inverse(given), np.linalg.inv(given), rtol=1e-3, atol=1e-4)
