import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a pipe of a POSIX shell")
def test_reports_that_are_piped_in_are_scraped(tmp_path):
    port = free_port()
    environment = os.environ | {
        "TRNSIM_STATE": str(tmp_path / "state"),
        "TRNSIM_INSTANCE": "trn1.32xlarge",
    }
    run = [sys.executable, "-m", "trnsim"]
    monitor = subprocess.Popen(
        [*run, "neuron-monitor"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    exporter = subprocess.Popen(
        [*run, "neuron-monitor-prometheus", "--port", str(port)],
        env=environment, stdin=monitor.stdout, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    monitor.stdout.close()
    try:
        assert exporter.stderr.readline() == (
            f"emulated by trnsim; listening on 127.0.0.1 port {port}\n"
        )
        deadline, text = time.monotonic() + 30, ""
        while "instance_info{" not in text and time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            time.sleep(0.05)
        assert re.search(r'instance_info{.*instance_type="trn1.32xlarge".*} 1.0', text)
        exporter.send_signal(signal.SIGINT)
        assert exporter.wait(timeout=30) == 0
    finally:
        for one in (exporter, monitor):
            one.kill()
            one.wait()
        exporter.stderr.close()


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_error_of_the_command(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = subprocess.run(
            [sys.executable, "-m", "trnsim", "neuron-monitor-prometheus", "--port",
             str(other.getsockname()[1])],
            capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
            env=os.environ | {"TRNSIM_STATE": str(tmp_path / "state")},
        )  # fmt: skip
    assert ran.returncode == 2
    assert "another program has it" in ran.stderr


def test_a_page_for_grafana_and_alerts_are_written_without_an_exporter(tmp_path):
    page, rules = tmp_path / "page.json", tmp_path / "rules.yml"
    command = ["neuron-monitor-prometheus", "--dashboard", str(page), "--rules", str(rules)]
    ran = CliRunner().invoke(app, command, catch_exceptions=False)
    assert (ran.exit_code, ran.stdout) == (0, f"wrote {page}\nwrote {rules}\n")
    assert json.loads(page.read_text())["title"] == "Neuron instances"
    assert "alert: NeuronUncorrectedEcc" in rules.read_text()


def test_a_page_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot write"):
        CliRunner().invoke(
            app,
            ["neuron-monitor-prometheus", "--dashboard", str(tmp_path / "no" / "page.json")],
            catch_exceptions=False,
        )
