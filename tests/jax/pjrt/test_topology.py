import jax
import numpy as np
import pytest

from trnsim.jax.pjrt.topology import topologies


def test_the_topology_of_devices_has_them_all(neuron):
    from jaxlib import xla_client  # noqa: PLC0415

    found = xla_client.get_topology_for_devices(list(neuron))
    assert found.platform == "neuron"
    assert len(found._make_compile_only_devices()) == len(neuron) == 8
    assert len(topologies) == 1


def test_a_program_is_lowered_for_the_platform(neuron):
    with jax.default_device(neuron[0]):
        lowered = jax.jit(lambda a: a + 1).lower(np.float32(1))
    assert lowered.compile()(np.float32(1)) == 2


def test_devices_that_no_client_has_are_refused_where_compiling_would_never_end():
    from jax.experimental import topologies as of_jax  # noqa: PLC0415

    with pytest.raises(
        NotImplementedError, match="devices that no client has is not modelled"
    ) as told:
        of_jax.get_topology_desc(platform="neuron")
    assert "TRNSIM_INSTANCE=trn2.48xlarge NEURON_RT_NUM_CORES=64" in str(told.value)


def test_devices_of_this_process_are_a_topology_that_is_compiled_for(neuron):
    from jax.experimental import topologies as of_jax  # noqa: PLC0415

    mesh = of_jax.make_mesh(of_jax.get_attached_topology("neuron"), (len(neuron),), ("x",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    shape = jax.ShapeDtypeStruct((2 * len(neuron), 3), "float32")
    compiled = jax.jit(lambda x: x * 2, in_shardings=split).lower(shape).compile()
    assert compiled.output_shardings.is_equivalent_to(split, 2)
