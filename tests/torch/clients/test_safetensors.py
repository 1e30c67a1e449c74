from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.clients import safetensors


class File:
    """What safetensors opens: tensors on the device that it was told."""

    def __init__(self, filename, framework, device="cpu"):
        if torch.device(device).type != "cpu":
            raise ValueError(device)
        self.filename, self.framework = filename, framework
        self.content = {"x": torch.arange(4.0), "y": torch.ones(2)}
        self.is_open = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_open = False

    def keys(self):
        return list(self.content)

    def get_tensor(self, name):
        return self.content[name]

    def get_slice(self, name):
        return self.content[name]


@pytest.fixture
def safe_open():
    module = SimpleNamespace(safe_open=File)
    safetensors.apply(module)
    return module.safe_open


@pytest.mark.parametrize("device", ["neuron", "neuron:0", torch.device("neuron")])
def test_tensors_are_read_to_the_device(safe_open, device):
    with safe_open("a.safetensors", framework="pt", device=device) as opened:
        assert opened.get_tensor("x").device == torch.device("neuron:0")
        assert {name: t.tolist() for name, t in opened.get_tensors().items()} == {
            "x": [0, 1, 2, 3],
            "y": [1, 1],
        }
        part = opened.get_slice("x")
        assert (part[1:3].device.type, part[1:3].tolist()) == ("neuron", [1, 2])
        assert part.shape == (4,)
        assert (opened.filename, opened.keys()) == ("a.safetensors", ["x", "y"])
    assert not opened.is_open


def test_other_devices_go_to_safetensors_itself(safe_open):
    assert isinstance(safe_open("a.safetensors", "pt"), File)
    with pytest.raises(ValueError, match="meta"):
        safe_open("a.safetensors", framework="pt", device="meta")


def test_a_core_that_does_not_exist_is_named(safe_open):
    with pytest.raises(RuntimeError, match="neuron:7 does not exist"):
        safe_open("a.safetensors", framework="pt", device="neuron:7")
