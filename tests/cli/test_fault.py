import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from itertools import islice

import pytest
from typer.testing import CliRunner

from trnsim.cli.fault import app
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.shell import sysfs
from trnsim.instance.shell.cover import Cover
from trnsim.instance.shell.keeper import Keeper
from trnsim.instance.state import folder, hardware
from trnsim.tools.monitor.config import all_groups
from trnsim.tools.monitor.prometheus import Exporter
from trnsim.tools.monitor.series import CollectedSeries
from trnsim.tools.monitor.user_monitor import user_monitor, user_reports


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    return folder.state_folder()


def call(*words):
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_a_fault_is_injected_and_ended(place):
    done = call("hbm-ecc", "--device", "3", "--core", "1", "--for", "30s")
    assert done.exit_code == 0
    assert "emulated: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR" in done.output
    (one,) = hardware.injected_faults(place)
    assert (one.kind, one.device, one.core, one.for_s) == ("hbm-ecc", 3, 1, 30.0)
    assert call("clear").output == "1 fault ended (emulated)\n"
    assert call("clear", "--device", "3").output == "0 faults ended (emulated)\n"
    assert call("reset").output == "1 fault forgotten, counters are at 0 (emulated)\n"
    assert hardware.injected_faults(place) == []


def test_the_log_names_the_device_by_the_serial_number_that_sysfs_has(place):
    """aws-neuron-sdk nrt-troubleshoot.rst, serial-num; the sysfs page, info/serial_number."""
    call("dma", "--device", "5")
    model = instance_model("trn2.48xlarge")
    shown = sysfs.device_files(model, model.devices[5])["neuron5/info/serial_number"].strip()
    assert re.fullmatch("[0-9a-f]{16}", shown)
    assert f" nd-id=5 serial-num={shown}\n" in (place / hardware.LOG).read_text()


@pytest.mark.parametrize(
    ("text", "for_s"), [("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("3", 3)]
)
def test_durations(place, text, for_s):
    call("dma", "--device", "0", "--for", text)
    assert hardware.injected_faults(place)[0].for_s == for_s


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["fire", "--device", "3"],
            "fault 'fire' is not known; legal: hbm-ecc, hang, .*\n  fix: for example trnsim fault",
        ),
        (["fire", "--device", "99"], "fault 'fire' is not known"),
        (["hagn", "--device", "3"], "fault 'hagn' is not known; .*\n  fix: perhaps hang"),
        (["hang"], "trnsim fault hang needs a device"),
        (
            ["hang", "--device", "16"],
            r"device 16; legal on trn2\.48xlarge: 0 to 15",
        ),
        (["clear", "--device", "16"], "device 16; legal on"),
        (["hang", "--device", "3", "--core", "4"], "--core 4; legal on .* 0 to 3"),
        (["hang", "--device", "3", "--for", "0s"], "--for is 0; legal: above 0 seconds"),
        (["hang", "--device", "3", "--for", "-1s"], "--for is -1; legal: above 0 seconds"),
        (["clear", "--core", "0"], "trnsim fault clear takes no --core"),
        (["clear", "--for", "3s"], "trnsim fault clear takes no --for"),
        (["reset", "--device", "3"], "trnsim fault reset takes no --device"),
        (["reset", "--core", "0"], "trnsim fault reset takes no --core"),
        (["reset", "--for", "3s"], "trnsim fault reset takes no --for"),
    ],
)
def test_what_cannot_be_injected_is_refused(place, words, message):
    with pytest.raises(BadInput, match=message):
        call(*words)
    assert hardware.injected_faults(place) == []


MEETS = """
import sys, torch
from trnsim.device.faults import HardwareFault
try:
    torch.ones(4, device="neuron") + 1
except HardwareFault as error:
    print(str(error).replace("\\n", " "), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def struck(place):  # noqa: ARG001  the state that they share
    """What a PyTorch program on device 3 says of a fault there; it has met it and still runs."""
    call("hbm-ecc", "--device", "3", "--core", "1")
    with subprocess.Popen(
        [sys.executable, "-c", MEETS], env=os.environ | {"NEURON_RT_VISIBLE_CORES": "13"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process.pid, process.stdout.readline()
        process.stdin.close()


def scraped(report):
    """What Prometheus reads of a report, by the series' name and labels but the instance's."""
    client = import_module("prometheus_client")
    registry = client.CollectorRegistry()
    collected = CollectedSeries()
    collected.add(report)
    registry.register(Exporter(replace(collected, instance={})))
    return client.generate_latest(registry).decode()


@pytest.fixture
def sysfs_of_device_3(tmp_path):
    """The keeper of a running shell, and the files of device 3 that it refreshes."""
    model = instance_model("trn2.48xlarge", 2)
    root = tmp_path / "sysfs"
    root.mkdir()
    Cover.write(str(root), sysfs.device_files(model, model.devices[3]))
    keeper = Keeper(model, str(root))
    yield keeper, root / "neuron3"
    os.close(keeper.files.descriptor)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counters of Linux's sysfs")
def test_a_memory_that_fails_is_the_same_to_everybody(place, struck, sysfs_of_device_3):
    """The program's error, neuron-monitor, Prometheus, sysfs and the log tell of one fault."""
    pytest.importorskip("prometheus_client", reason="pip install 'trnsim[platform]'")
    pid, said = struck
    assert "NRT_EXEC_HW_ERR_HBM_UE (1201) on device 3, core 1 (neuron:0)" in said

    (report,) = islice(user_reports(), 1)
    devices = report["system_data"]["neuron_hw_counters"]["neuron_devices"]
    assert [one["mem_ecc_uncorrected"] for one in devices] == [0, 0, 0, 1, *[0] * 12]
    (program,) = report["neuron_runtime_data"]
    stats = program["report"]["execution_stats"]
    assert program["pid"] == pid
    assert stats["execution_summary"]["completed_with_err"] == 1
    assert stats["error_summary"]["hardware"] == 1

    text = scraped(report)
    events = re.findall(
        r'hardware_ecc_events_total{event_type="mem_ecc_unc.*index="(\d+)"} (.*)', text
    )
    assert [at for at, count in events if float(count)] == ["3"]
    assert re.search(r'execution_errors_total{error_type="hardware",.*} 1\.0', text)

    keeper, device = sysfs_of_device_3
    keeper.refresh()
    stats = device / "neuron_core2" / "stats"  # the first of the logical core's two
    assert (device / "stats/hardware/mem_ecc_uncorrected").read_text() == "1\n"
    assert (stats / "status/infer_completed_with_error/total").read_text() == "1\n"
    assert (stats / "status/hw_error/total").read_text() == "1\n"

    (line,) = (place / hardware.LOG).read_text().splitlines()
    assert "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR" in line
    assert " nd-id=3 nc-id=1 " in line


@pytest.mark.skipif(sys.platform != "linux", reason="counters of Linux's sysfs")
def test_after_a_reset_all_that_runs_on_begins_at_0(place, sysfs_of_device_3):
    """neuron-monitor, what its exporters have, and sysfs."""
    keeper, device = sysfs_of_device_3
    ecc = device / "stats/hardware/mem_ecc_uncorrected"
    monitor, collected = user_monitor(all_groups(period_s=1e-6)), CollectedSeries()

    def seen():
        keeper.refresh()
        collected.add(monitor.report())
        (events,) = [
            one
            for one in collected.series
            if one.metric.name == "hardware_ecc_events"
            and one.labels == {"event_type": "mem_ecc_uncorrected", "neuron_device_index": "3"}
        ]
        return int(ecc.read_text()), events.value, events.since_s

    for _ in range(2):
        call("hbm-ecc", "--device", "3")
    assert seen()[:2] == (2, 2)
    began_s = seen()[2]
    call("reset")
    after = seen()
    assert after[:2] == (0, 0)
    assert after[2] > began_s  # a counter that began anew
    call("hbm-ecc", "--device", "3")
    assert seen() == (1, 1, after[2])
    assert len((place / hardware.LOG).read_text().splitlines()) == 1
