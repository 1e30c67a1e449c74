import jax
from jax.extend.backend import get_backend

from trnsim.jax.pjrt.devices import devices


def test_a_device_reaches_its_hbm_and_memory_of_its_host(neuron):
    hbm, host = neuron[2].addressable_memories()
    assert [hbm.kind, host.kind] == ["device", "pinned_host"]
    assert neuron[2].default_memory() is hbm
    assert neuron[2].memory("pinned_host") is host
    assert str(host) == "host memory that NeuronDevice(id=2) reaches"
    assert list(host.addressable_by_devices()) == [neuron[2]]


def test_memories_have_numbers_of_their_own(neuron):
    numbers = [one.number for made in devices.values() for one in (made.memory, made.host_memory)]
    assert sorted(numbers) == list(range(2 * len(neuron)))
    assert get_backend("neuron").platform == jax.default_backend()
