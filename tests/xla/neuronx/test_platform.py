import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch_neuronx.utils import get_platform_target
from torch_neuronx.utils.utils import SUPPORTED_TYPES

from trnsim.device.device_core import target
from trnsim.errors import BadInput


def test_the_platform_is_the_devices_chip():
    assert get_platform_target() == target().name
    assert get_platform_target() in SUPPORTED_TYPES


def test_a_target_among_the_compilers_flags_is_the_platform():
    assert get_platform_target("--auto-cast=none --target=trn1 -O1") == "trn1"
    assert get_platform_target(["--auto-cast=none"]) == target().name
    with pytest.raises(BadInput, match="no-such-flag"):
        get_platform_target("--no-such-flag=1")
