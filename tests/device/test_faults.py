import os
import signal
import subprocess
import sys
import time

import pytest

from trnsim.device import faults
from trnsim.device.faults import Fault, HardwareFault, Injector, parse
from trnsim.errors import BadInput
from trnsim.instance.state.hardware import Injected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rank=3,step=5", Fault("rank", 3, 5)),
        ("rank=0,step=1", Fault("rank", 0, 1)),
        ("hbm-ecc=rank:3,step=5", Fault("hbm-ecc", 3, 5)),
        ("link=chip 0 to chip 1", Fault("link", link="chip 0 to chip 1")),
        ("link=chip 0 to chip 1,factor=0.5", Fault("link", link="chip 0 to chip 1", factor=0.5)),
        ("link=chip 0 to chip 1,factor=1", Fault("link", link="chip 0 to chip 1", factor=1.0)),
        ("link=instance 1, EFA 0, out", Fault("link", link="instance 1, EFA 0, out")),
        ("link=EFA 0,in,factor=0.5", Fault("link", link="EFA 0, in", factor=0.5)),
    ],
)
def test_faults_in_the_words_of_the_command_line(text, fault):
    assert parse(text) == fault


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rank=3", "is no fault"),
        ("rank=3,step=0", "'0' is no whole number of at least 1"),
        ("rank=-1,step=1", "'-1' is no whole number of at least 0"),
        ("rank=3,step=1.5", "'1.5' is no whole number"),
        ("rank=3,step=5,factor=1", "is no fault"),
        ("hbm-ecc=3,step=5", "is no fault"),
        ("link=", "is no fault"),
        ("link=a,factor=1.5", "factor 1.5 is not between 0 and 1"),
        ("link=a,factor=nan", "factor nan is not between 0 and 1"),
        ("link=a,step=5", "is no fault"),
        ("link=a, b,step=5", "is no fault"),
        ("rank=3, EFA 0,step=5", "is no whole number"),
        ("", "is no fault"),
    ],
)
def test_what_is_no_fault_is_refused_with_what_is_one(text, reason):
    with pytest.raises(BadInput) as refused:
        parse(text)
    assert reason in str(refused.value)
    assert "fix: --fault rank=3,step=5 (killed)" in str(refused.value)


def test_the_variable_carries_them_to_the_ranks():
    texts = ["rank=3,step=5", "link=chip 0 to chip 1,factor=0.5"]
    found = faults.asked({faults.FAULTS_VARIABLE: faults.as_variable(texts)})
    assert found == [parse(text) for text in texts]
    assert faults.asked({}) == []
    assert faults.link_factors(found) == {"chip 0 to chip 1": 0.5}


def test_a_memory_fails_on_its_rank_before_its_step_alone():
    one = parse("hbm-ecc=rank:3,step=5")
    Injector([one], 2).before_step(5)
    mine = Injector([one], 3)
    mine.before_step(4)
    with pytest.raises(HardwareFault, match="on rank 3 before step 5: Uncorrectable HBM") as failed:
        mine.before_step(5)
    assert isinstance(failed.value, RuntimeError)  # what programs catch
    assert "NRT_EXEC_HW_ERR_HBM_UE (1201)" in str(failed.value)
    mine.before_step(6)


def test_a_killed_rank_has_no_time_to_say_anything():
    code = "from trnsim.device.steps import steps\nfor _ in range(3): steps.optimizer_begins()"
    given = os.environ | {faults.FAULTS_VARIABLE: "rank=1,step=2", "RANK": "1"}
    for restart, status in (("0", -signal.SIGKILL), ("1", 0)):
        given[faults.RESTART_VARIABLE] = restart
        assert subprocess.run([sys.executable, "-c", code], env=given, check=False).returncode == (
            status
        )


@pytest.mark.parametrize("kind", ["hbm-ecc", "hang", "dma", "thermal"])
def test_launch_takes_the_kinds_of_trnsim_fault(kind):
    assert parse(f"{kind}=rank:1,step=2") == Fault(kind, 1, 2)


STATUSES = {
    "hbm-ecc": r"NRT_EXEC_HW_ERR_HBM_UE \(1201\) on device 3, core 1 \(neuron:0\): Uncorrectable",
    "hang": r"NRT_TIMEOUT \(5\) on device 3, core 1 \(neuron:0\): execution timeout",
    "dma": r"NRT_EXEC_HW_ERR_DMA_ABORT \(1203\) on device 3, core 1 \(neuron:0\): DMA TX engine 0",
}


@pytest.fixture
def pending():
    yield faults.pending
    faults.pending.clear()


@pytest.mark.parametrize("kind", list(STATUSES))
def test_a_request_strikes_the_core_that_it_is_for(pending, kind):
    pending[0] = Injected(kind, 3, 1, time.time(), 30.0)
    faults.strike(1)
    with pytest.raises(HardwareFault, match=STATUSES[kind]):
        faults.strike(0)
    pending[0] = Injected(kind, 3, 1, time.time() - 31.0, 30.0)
    faults.strike(0)


def test_a_throttled_device_goes_on(pending):
    pending[0] = Injected("thermal", 3, None, time.time(), None)
    faults.strike(0)


MEETS = """
import time
import torch, torch.distributed as dist
import nki, nki.language as nl, nki.isa as nisa
from trnsim.device import watch
from trnsim.device.faults import HardwareFault
from trnsim.instance.state import hardware
from trnsim.instance.state.folder import opened
from trnsim.instance.state.reader import read_all

@nki.jit
def copied(a):
    result = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=a)
    return result

dist.init_process_group("neuron", store=dist.HashStore(), rank=0, world_size=1)
compiled = torch.compile(lambda x: x + 1, backend="neuron")
kept = torch.ones(4, 4, device="neuron")
uses = {
    "operator": lambda: kept + kept,
    "to host": lambda: kept.cpu(),
    "to device": lambda: torch.ones(2).to("neuron"),
    "collective": lambda: dist.all_reduce(kept),
    "graph": lambda: compiled(kept),
    "kernel": lambda: copied(kept),
}
def meets(use):
    try:
        use()
    except HardwareFault as error:
        return "1201" in str(error) and "device 0, core 0 (neuron:0)" in str(error)
    return False
print([name for name, use in uses.items() if meets(use)])
place = opened()
hardware.inject(place, hardware.Injected("hbm-ecc", 0, 0, time.time(), None))
watch.present().writer.look()
print([name for name, use in uses.items() if meets(use)])
(record,) = read_all(place)
print(record.executions["completed_with_err"], record.errors["hardware"])
print(hardware.counters(hardware.injected(place), 1)[0]["mem_ecc_uncorrected"])
print((place / hardware.LOG).read_text().count("NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR"))
hardware.clear(place)
time.sleep(0.01)
watch.present().writer.look()
print([name for name, use in uses.items() if meets(use)])
dist.destroy_process_group()
"""


def test_all_that_a_program_does_meets_a_request_and_the_state_agrees(tmp_path):
    """Errors, executions, counter and log of one fault say the same, until it is cleared."""
    path = tmp_path / "meets.py"  # a file, as PyTorch's compiler reads the source
    path.write_text(MEETS)
    done = subprocess.run(
        [sys.executable, str(path)],
        env=os.environ | {"TRNSIM_STATE": str(tmp_path / "state")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    all_of_it = ["operator", "to host", "to device", "collective", "graph", "kernel"]
    assert done.stdout.splitlines() == ["[]", str(all_of_it), "6 6", "1", "1", "[]"]
