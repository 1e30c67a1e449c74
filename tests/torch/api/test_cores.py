import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import subprocess
import sys

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.profile.measures.metrics import peak_flop_per_s
from trnsim.torch.api import cores
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
    answers = (cores.visible_cores, cores.target, cores.logical_config)
    for answer in answers:
        answer.cache_clear()
    yield
    for answer in answers:
        answer.cache_clear()


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


GIB = 1024**3
CHIPS = [("trn1", 16, 2), ("inf2", 16, 2), ("trn2", 12, 8), ("trn3", 18, 8)]


@pytest.mark.parametrize(("name", "gib", "number"), CHIPS)
def test_a_device_is_one_core_of_its_chip(monkeypatch, name, gib, number):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    device = cores.device_core(arch.target(name))
    assert (device.physical_cores, device.hbm_bytes) == (1, gib * GIB)
    assert device.peak_flop_per_s == peak_flop_per_s(arch.target(name).core)
    assert str(device) == f"one of the {number} NeuronCores of {name}, {gib} GiB of HBM"


@pytest.mark.parametrize(("name", "gib", "number"), CHIPS)
def test_a_device_of_two_cores_has_two_shares_and_says_that_one_works(
    monkeypatch, name, gib, number
):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    device = cores.device_core(arch.target(name))
    degree = 2 if number == 8 else 1  # of a step on several chips; v2 has no logical cores
    assert (device.physical_cores, device.hbm_bytes) == (degree, degree * gib * GIB)
    assert device.peak_flop_per_s == degree * peak_flop_per_s(arch.target(name).core)
    assert ("the time of one, as graphs are not sharded" in str(device)) is (degree == 2)


@pytest.mark.parametrize(
    ("chip", "value", "legal"),
    [("trn1", "2", "1"), ("trn2", "3", "1 or 2")],
)
def test_another_number_of_cores_is_refused(monkeypatch, chip, value, legal):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", value)
    with pytest.raises(
        BadInput, match=f"NEURON_LOGICAL_NC_CONFIG={value!r} on {chip}; legal: {legal}\n"
    ):
        cores.device_core()


@pytest.mark.parametrize(
    ("chip", "config", "number", "instance"),
    [("trn2", "1", 128, "trn2"), ("trn2", "2", 64, "trn2"), ("trn1", "1", 32, "trn1"),
     ("inf2", "1", 24, "inf2.48xlarge")],
)  # fmt: skip
def test_a_process_has_no_more_cores_than_an_instance(monkeypatch, chip, config, number, instance):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", config)
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    monkeypatch.setenv("NEURON_RT_NUM_CORES", str(number))
    assert len(cores.visible_cores()) == number
    for variable, value in (
        ("NEURON_RT_NUM_CORES", str(number + 1)), ("NEURON_RT_VISIBLE_CORES", f"0,{number}")
    ):  # fmt: skip
        cores.visible_cores.cache_clear()
        monkeypatch.setenv(variable, value)
        with pytest.raises(
            BadInput, match=f"asks for {number + 1} cores; {instance}.* has {number}"
        ):
            cores.visible_cores()


LOGICAL = """
import torch
from trnsim.torch.device_time import step_time
from trnsim.torch.recording import recording
from trnsim.torch.report import mfu, step_text
x = torch.ones(256, 256).to("neuron")
with recording() as found:
    x @ x
step = step_time(found, "trn2")
found = torch.neuron.get_device_properties()
print(found.total_memory, found.multi_processor_count, torch.neuron.mem_get_info()[1])
print(step.device_time_s, mfu(step))
print(step_text([step]).splitlines()[0])
print(found.description)
"""


def test_two_cores_have_the_memory_and_the_peak_of_two_and_the_time_of_one(monkeypatch):
    said = []
    for config in ("1", "2"):
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", config)
        done = subprocess.run(
            [sys.executable, "-c", LOGICAL], capture_output=True, text=True, check=True
        )
        said.append(done.stdout.splitlines())
    assert [lines[0] for lines in said] == [f"{n * 12 * GIB} {n} {n * 12 * GIB}" for n in (1, 2)]
    (one_s, one_mfu), (two_s, two_mfu) = (map(float, lines[1].split()) for lines in said)
    assert one_s == two_s
    assert one_mfu == pytest.approx(2 * two_mfu)
    for lines in said:
        assert lines[2] == f"device: {lines[3]}"
    assert "the time of one" in said[1][3]
