import jax
import numpy as np
import pytest

from trnsim.device.device_core import device_core
from trnsim.jax.pjrt.devices import device_kind, devices, memory_at
from trnsim.jax.pjrt.memories import memories


def test_a_device_is_a_logical_core_of_the_chip(neuron):
    assert len(neuron) == 8
    assert [str(one) for one in neuron[:2]] == ["NeuronDevice(id=0)", "NeuronDevice(id=1)"]
    first = neuron[0]
    assert (first.platform, first.device_kind, first.id) == ("neuron", "NC_v3d", 0)
    assert (first.process_index, first.local_hardware_id) == (0, 0)
    assert (first.target, first.neuron_core, neuron[7].neuron_core) == ("trn2", 0, 7)
    assert first.physical_cores == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chip", "cores", "kind"),
    [
        ("trn1", "", "NC_v2"),
        ("trn2", "1", "NC_v3"),
        ("trn2", "2", "NC_v3d"),
        ("trn3", "", "NC_v4d"),
    ],
)
def test_the_kind_is_that_of_aws(ran, chip, cores, kind):
    program = "from trnsim.jax.pjrt.devices import device_kind; print(device_kind())"
    variables = {"NEURON_PLATFORM_TARGET_OVERRIDE": chip, "NEURON_LOGICAL_NC_CONFIG": cores}
    assert ran(program, **variables).stdout.strip() == kind
    assert device_kind() == "NC_v3d"


def test_memory_is_the_cores_part_of_the_chips_hbm(neuron):
    stats = neuron[6].memory_stats()
    assert stats["bytes_limit"] == device_core().hbm_bytes == 24 << 30
    assert stats["bytes_in_use"] <= stats["peak_bytes_in_use"]
    assert stats["pool_bytes"] == -1 if "pool_bytes" in stats else True
    assert neuron[6].default_memory().kind == "device"
    assert [one.kind for one in neuron[6].addressable_memories()] == ["device", "pinned_host"]


def test_the_largest_allocation_is_known(neuron):
    kept = jax.device_put(np.zeros(1 << 20, np.float32), neuron[6])
    assert neuron[6].memory_stats()["largest_alloc_size"] == kept.nbytes


def test_a_call_names_its_memory_or_a_device_whose_hbm_is_meant(neuron):
    device = list(devices.values())[len(neuron) - 1]
    assert memory_at(device.address, None) is device.memory
    assert memory_at(None, device.host_memory.address) is device.host_memory
    assert memory_at(None, None).core == 0
    assert memories[device.memory.address].owner is device
    assert [device.of_kind(kind).core for kind in ("device", "pinned_host")] == [7, 7]
