import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from trnsim.device import faults
from trnsim.device.faults import HardwareFault, Injector, LaunchFault, parse
from trnsim.errors import BadInput
from trnsim.instance.state.hardware import StoredFault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rank=3,step=5", LaunchFault("rank", 3, 5)),
        ("rank=0,step=1", LaunchFault("rank", 0, 1)),
        ("hbm-ecc=rank:3,step=5", LaunchFault("hbm-ecc", 3, 5)),
        ("link=chip 0 to chip 1", LaunchFault("link", link="chip 0 to chip 1")),
        (
            "link=chip 0 to chip 1,factor=0.5",
            LaunchFault("link", link="chip 0 to chip 1", factor=0.5),
        ),
        (
            "link=chip 0 to chip 1,factor=1",
            LaunchFault("link", link="chip 0 to chip 1", factor=1.0),
        ),
        ("link=instance 1, EFA 0, out", LaunchFault("link", link="instance 1, EFA 0, out")),
        ("link=EFA 0,in,factor=0.5", LaunchFault("link", link="EFA 0, in", factor=0.5)),
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


def test_the_variable_carries_them_to_the_ranks(monkeypatch):
    texts = ["rank=3,step=5", "link=chip 0 to chip 1,factor=0.5"]
    assert faults.requested_faults() == []
    monkeypatch.setenv(faults.FAULTS_VARIABLE, faults.variable_value(texts))
    found = faults.requested_faults()
    assert found == [parse(text) for text in texts]
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


@pytest.mark.parametrize(
    ("rank", "is_struck"), [("", True), ("none", True), ("0", True), ("1", False)]
)
def test_a_process_without_the_number_of_a_rank_is_rank_0(monkeypatch, rank, is_struck):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv(faults.FAULTS_VARIABLE, "hbm-ecc=rank:0,step=1")
    with pytest.raises(HardwareFault) if is_struck else nullcontext():
        faults.injector().before_step(1)


def test_a_killed_rank_has_no_time_to_say_anything():
    code = "from trnsim.device.steps import steps\nfor _ in range(3): steps.note_optimizer_step()"
    given = os.environ | {faults.FAULTS_VARIABLE: "rank=1,step=2", "RANK": "1"}
    for restart, status in (("0", -signal.SIGKILL), ("1", 0)):
        given[faults.RESTART_VARIABLE] = restart
        assert subprocess.run([sys.executable, "-c", code], env=given, check=False).returncode == (
            status
        )


@pytest.mark.parametrize("kind", ["hbm-ecc", "hang", "dma", "thermal"])
def test_launch_takes_the_kinds_of_trnsim_fault(kind):
    assert parse(f"{kind}=rank:1,step=2") == LaunchFault(kind, 1, 2)


STATUSES = {
    "hbm-ecc": r"NRT_EXEC_HW_ERR_HBM_UE \(1201\) on device 3, core 1 \(neuron:0\): Uncorrectable",
    "hang": r"NRT_TIMEOUT \(5\) on device 3, core 1 \(neuron:0\): execution timeout",
    "dma": r"NRT_EXEC_HW_ERR_DMA_ABORT \(1203\) on device 3, core 1 \(neuron:0\): DMA TX engine 0",
}


@pytest.fixture
def pending():
    yield faults.pending_faults
    faults.pending_faults.clear()


@pytest.mark.parametrize("kind", list(STATUSES))
def test_a_request_strikes_the_core_that_it_is_for(pending, kind):
    pending[0] = StoredFault(kind, 3, 1, time.time(), 30.0)
    faults.strike_fault(1)
    with pytest.raises(HardwareFault, match=STATUSES[kind]):
        faults.strike_fault(0)
    pending[0] = StoredFault(kind, 3, 1, time.time() - 31.0, 30.0)
    faults.strike_fault(0)


def test_a_throttled_device_goes_on(pending):
    pending[0] = StoredFault("thermal", 3, None, time.time(), None)
    faults.strike_fault(0)
