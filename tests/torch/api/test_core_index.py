import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import forked

from trnsim.device import device_core as module
from trnsim.device.device_core import NoSuchCore
from trnsim.errors import BadInput
from trnsim.torch.api.core_index import core_index

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
    answers = (module.visible_cores, module.target, module.logical_config)
    for answer in answers:
        answer.cache_clear()
    yield
    for answer in answers:
        answer.cache_clear()


def test_an_index_stands_for_a_core():
    assert [core_index(d) for d in (None, 0, "neuron", torch.device("neuron:0"))] == [0] * 4
    with pytest.raises(BadInput, match="cpu is not a neuron device"):
        core_index("cpu")


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
    with pytest.raises(NoSuchCore, match="neuron:7 does not exist: this process has 4") as caught:
        use()
    assert "NEURON_RT_VISIBLE_CORES" in caught.value.fix
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("device", [1.5, [0], b"neuron", object()])
def test_what_is_no_device_is_refused(device):
    with pytest.raises(BadInput, match="is no device\n  fix: pass 'neuron'"):
        core_index(device)


def test_a_launched_process_calls_its_one_core_by_its_rank(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    torch.neuron.set_device(3)
    found = torch.ones(2).to("neuron:3") + torch.ones(2, device=torch.device("neuron", 3))
    assert (found.device, found.tolist()) == (torch.device("neuron:0"), [2, 2])
    with pytest.raises(NoSuchCore, match="neuron:2 does not exist"):
        torch.empty(2, device="neuron:2")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    module.visible_cores.cache_clear()
    with pytest.raises(NoSuchCore, match="neuron:3 does not exist"):
        core_index(3)


@pytest.mark.slow
def test_two_cores_in_one_process(monkeypatch):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    done = forked.python(TWO_CORES, check=True)
    assert "MixedDevices Expected all tensors to be on the same device" in done.stdout
    assert "NotModelled neuron:1 cannot be made the current device" in done.stdout


GIB = 1024**3
LOGICAL = """
import torch
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording
from trnsim.device.step_document import mfu, step_document
from trnsim.document.text import text as text_of
x = torch.ones(2048, 2048).to("neuron")
with recording() as found:
    x @ x
step = step_time(found, "trn2")
found = torch.neuron.get_device_properties()
print(found.total_memory, found.multi_processor_count, torch.neuron.mem_get_info()[1])
print(step.device_time_s, mfu(step))
print(text_of(step_document([step])).splitlines()[0])
print(found.description)
"""


@pytest.mark.slow
def test_two_cores_have_the_memory_the_peak_and_the_time_of_two(monkeypatch):
    said = []
    for config in ("1", "2"):
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", config)
        done = forked.python(LOGICAL, check=True)
        said.append(done.stdout.splitlines())
    assert [lines[0] for lines in said] == [f"{n * 12 * GIB} {n} {n * 12 * GIB}" for n in (1, 2)]
    (one_s, one_mfu), (two_s, two_mfu) = (map(float, lines[1].split()) for lines in said)
    assert 0.45 < two_s / one_s < 0.6
    assert two_mfu == pytest.approx(one_mfu * one_s / (2 * two_s))
    for lines in said:
        assert lines[2] == f"device: {lines[3]}"
    assert said[1][3] == "a logical NeuronCore of trn2: two of its 8 NeuronCores, 24 GiB of HBM"
