import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.torch import faults


def test_each_error_is_trnsims_and_pytorchs():
    assert issubclass(faults.OutOfDeviceMemory, (OutOfMemory))
    assert issubclass(faults.OutOfDeviceMemory, torch.OutOfMemoryError)
    assert issubclass(faults.PeerLost, BadInput)
    assert issubclass(faults.MixedDevices, RuntimeError)
    assert issubclass(faults.OperatorNotModelled, NotModelled)
    assert issubclass(faults.OperatorNotModelled, NotImplementedError)


def test_the_line_is_the_programs():
    line = program_line()
    assert line is not None
    assert line.file == __file__
