import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch_neuronx.utils import get_platform_target
from torch_neuronx.utils.utils import SUPPORTED_TYPES

from trnsim.device.device_core import target


def test_the_platform_is_the_devices_chip():
    assert get_platform_target() == target().name
    assert get_platform_target() in SUPPORTED_TYPES
