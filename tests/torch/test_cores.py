import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import subprocess
import sys

from trnsim.errors import BadInput
from trnsim.torch import cores
from trnsim.torch.faults import NoSuchCore

TWO_CORES = """
import threading, torch
assert torch.neuron.device_count() == 2
model = torch.nn.Linear(3, 3).to("neuron:1")
inputs = torch.ones(2, 3, device="neuron:1")
model(inputs).sum().backward()
thread = threading.Thread(target=lambda: model(inputs).sum().backward())
thread.start(); thread.join()
assert model.weight.grad.device == torch.device("neuron:1")
assert model.weight.grad.sum() == 36
assert torch.neuron.memory_allocated(1) > torch.neuron.memory_allocated(0)
assert torch.equal(inputs.to("neuron:0").cpu(), inputs.cpu())
for wrong in (lambda: inputs + inputs.to("neuron:0"), lambda: torch.neuron.set_device(1)):
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.fixture(autouse=True)
def fresh_answers():
    cores.visible_cores.cache_clear()
    cores.target.cache_clear()
    yield
    cores.visible_cores.cache_clear()
    cores.target.cache_clear()


@pytest.mark.parametrize(
    ("named", "expected"),
    [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0,2", (0, 2)), ("4, 8-9", (4, 8, 9))],
)
def test_visible_cores_are_read(monkeypatch, named, expected):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", named)
    assert cores.visible_cores() == expected


@pytest.mark.parametrize("named", ["", "x", "1-", "3-1", "0,0", "-1"])
def test_what_names_no_cores_is_refused(monkeypatch, named):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", named)
    with pytest.raises(BadInput, match="NEURON_RT_VISIBLE_CORES"):
        cores.visible_cores()


def test_cores_can_be_counted(monkeypatch):
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    assert cores.visible_cores() == (0,)
    cores.visible_cores.cache_clear()
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "2")
    assert cores.visible_cores() == (0, 1)
    cores.visible_cores.cache_clear()
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "none")
    with pytest.raises(BadInput, match="NEURON_RT_NUM_CORES"):
        cores.visible_cores()


def test_the_target_is_trn2_unless_named(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    assert cores.target().name == "trn2"
    cores.target.cache_clear()
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert cores.target().name == "trn1"


def test_an_index_stands_for_a_core():
    assert [cores.core_index(d) for d in (None, 0, "neuron", torch.device("neuron:0"))] == [0] * 4
    with pytest.raises(BadInput, match="cpu is not a neuron device"):
        cores.core_index("cpu")


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.empty(2, device="neuron:7"),
        lambda: torch.ones(2).to("neuron:7"),
        lambda: torch.neuron.set_device(7),
        lambda: torch.neuron.memory_allocated("neuron:7"),
        lambda: torch.UntypedStorage(4, device="neuron:7"),
    ],
)
def test_a_core_that_does_not_exist_is_named(use):
    with pytest.raises(NoSuchCore, match="neuron:7 does not exist: this process has 1") as caught:
        use()
    assert "NEURON_RT_VISIBLE_CORES" in caught.value.fix
    assert isinstance(caught.value, RuntimeError)


def test_a_launched_process_calls_its_one_core_by_its_rank(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    torch.neuron.set_device(3)
    found = torch.ones(2).to("neuron:3") + torch.ones(2, device=torch.device("neuron", 3))
    assert (found.device, found.tolist()) == (torch.device("neuron:0"), [2, 2])
    with pytest.raises(NoSuchCore, match="neuron:2 does not exist"):
        torch.empty(2, device="neuron:2")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    cores.visible_cores.cache_clear()
    with pytest.raises(NoSuchCore, match="neuron:3 does not exist"):
        cores.core_index(3)


def test_two_cores_in_one_process(monkeypatch):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    done = subprocess.run(
        [sys.executable, "-c", TWO_CORES], capture_output=True, text=True, check=True
    )
    assert "MixedDevices Expected all tensors to be on the same device" in done.stdout
    assert "NotModelled neuron:1 cannot be made the current device" in done.stdout
