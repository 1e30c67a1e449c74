import pytest
import torch

from trnsim.torch.device_name import DEVICE_TYPE, is_neuron


@pytest.mark.parametrize(
    ("device", "is_ours"),
    [("neuron", True), ("neuron:1", True), ("cpu", False), ("meta", False), ("xla", False)],
)
def test_a_device_is_ours_by_its_type(device, is_ours):
    assert is_neuron(torch.device(device)) is is_ours


def test_the_device_has_its_name():
    assert torch.device(DEVICE_TYPE).type == torch._C._get_privateuse1_backend_name()
