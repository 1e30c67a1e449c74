import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.torch import device_errors


def test_each_error_is_trnsims_and_pytorchs():
    assert issubclass(device_errors.OutOfDeviceMemory, (OutOfMemory))
    assert issubclass(device_errors.OutOfDeviceMemory, torch.OutOfMemoryError)
    assert issubclass(device_errors.PeerLost, BadInput)
    assert issubclass(device_errors.MixedDevices, RuntimeError)
    assert issubclass(device_errors.OperatorNotModelled, NotModelled)
    assert issubclass(device_errors.OperatorNotModelled, NotImplementedError)


def test_the_line_is_the_programs():
    line = program_line()
    assert line is not None
    assert line.file == __file__
