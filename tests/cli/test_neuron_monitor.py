import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput


@pytest.fixture
def stream(tmp_path):
    """The command running, its output a pipe."""
    config = tmp_path / "monitor.conf"
    config.write_text(
        json.dumps({"period": "50ms", "system_metrics": [{"type": "neuron_hw_counters"}]})
    )
    environment = os.environ | {
        "TRNSIM_STATE": str(tmp_path / "state"),
        "TRNSIM_INSTANCE": "trn1.32xlarge",
    }
    command = [sys.executable, "-m", "trnsim", "neuron-monitor", "-c", str(config)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_line_is_a_report_and_interrupting_ends_it_quietly(stream):
    reports = [json.loads(stream.stdout.readline()) for _ in range(3)]
    assert {one["instance_info"]["instance_type"] for one in reports} == {"trn1.32xlarge"}
    assert len(reports[0]["system_data"]["neuron_hw_counters"]["neuron_devices"]) == 16
    stream.send_signal(signal.SIGINT)
    _, said = stream.communicate(timeout=30)
    assert (stream.returncode, said) == (0, "emulated by trnsim\n")


def test_a_reader_that_leaves_ends_it_quietly(stream):
    json.loads(stream.stdout.readline())
    stream.stdout.close()
    assert stream.wait(timeout=30) == 0
    assert stream.stderr.read() == "emulated by trnsim\n"


def test_a_configuration_that_is_not_legal_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"system_metrics": [{"type": "vcpu_usage", "period": "0s"}]}')
    with pytest.raises(BadInput, match=r"system_metrics\[0\]\.period is '0s'"):
        CliRunner().invoke(app, ["neuron-monitor", "-c", str(path)], catch_exceptions=False)


def test_how_much_it_says_of_its_work_is_asked_for(tmp_path):
    """--verbose, 0 to 4: neuron-monitor-user-guide.rst."""
    command = [sys.executable, "-m", "trnsim", "neuron-monitor", "--verbose", "3"]
    environment = os.environ | {
        "TRNSIM_STATE": str(tmp_path / "state"),
        "TRNSIM_INSTANCE": "trn1.32xlarge",
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert said == "emulated by trnsim\nreport of 0 programs, 3 groups\n"
    refused = CliRunner().invoke(app, ["neuron-monitor", "--verbose", "5"])
    assert refused.exit_code == 2
