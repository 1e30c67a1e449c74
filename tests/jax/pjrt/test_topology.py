import jax
import numpy as np

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
