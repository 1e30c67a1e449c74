import jax
import numpy as np

from trnsim.jax import private


def test_the_platforms_that_are_asked_for():
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


def test_a_module_of_hlo_is_read_as_stablehlo():
    module = jax.jit(lambda a: a + 1).lower(np.float32(1)).compiler_ir("hlo")
    code = private.stablehlo_of(module.as_serialized_hlo_module_proto())
    assert "stablehlo.add" in str(private.module_of(code))
