import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import importlib

from trnsim.torch.api import device


def test_the_module_is_torch_neuron():
    assert torch.neuron is device
    assert importlib.import_module("torch.neuron") is device
    for name in device.__all__:
        assert getattr(torch.neuron, name).__doc__, name


def test_what_programs_ask_first():
    assert torch.neuron.is_available()
    assert torch.neuron.is_initialized()
    assert torch.neuron.is_bf16_supported()
    assert (torch.neuron.device_count(), torch.neuron.current_device()) == (1, 0)
    torch.neuron.init()
    torch.neuron._lazy_init()
    torch.neuron.set_device(0)
    torch.neuron.synchronize()
    assert not torch.neuron._is_in_bad_fork()
    assert torch.bfloat16 in torch.neuron.get_amp_supported_dtype()


def test_the_properties_are_those_of_a_trn2_core():
    properties = torch.neuron.get_device_properties("neuron:0")
    assert properties.name == "trn2"
    assert properties.total_memory == 12 * 1024**3
    assert torch.neuron.get_device_capability() == (3, 0)


def test_the_name_is_the_devices_and_the_properties_name_the_chip():
    assert torch.neuron.get_device_name() == torch.neuron.get_device_name("neuron:0") == "neuron:0"


def test_the_current_device_in_a_context():
    with torch.neuron.device(0), torch.neuron.device_of(torch.ones(1)):
        assert torch.neuron.current_device() == 0


def test_tensors_and_modules_have_the_devices_methods():
    tensor = torch.ones(2).neuron()
    assert tensor.is_neuron
    assert tensor.type() == "torch.neuron.FloatTensor"
    assert torch.nn.Linear(2, 2).neuron().weight.is_neuron


def test_no_numpy_array_shares_device_memory():
    with pytest.raises(TypeError, match="copy the tensor to host memory"):
        torch.ones(2, device="neuron").numpy()
