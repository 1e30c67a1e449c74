import json
import os
import subprocess
import sys
import threading
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app, neuron_monitor_k8s_info

COMMAND = [sys.executable, "-P", "-m", "trnsim", "neuron-monitor-k8s-info"]


@pytest.mark.parametrize("period", ["0", "3601s"])
def test_a_period_that_is_not_legal_is_refused(period, monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    result = CliRunner().invoke(app, ["neuron-monitor-k8s-info", "--period", period])
    assert "legal: above 0, up to 3600 seconds" in str(result.exception)


def test_the_end_of_a_pipe_is_seen_behind_bytes_that_are_no_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\xff\n"), encoding="utf-8"))
    ended = threading.Event()
    neuron_monitor_k8s_info._drain(ended)
    assert ended.is_set()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kubelet's socket is on Linux")
def test_reports_have_the_pods_until_the_pipe_ends(tmp_path):
    kubelet = subprocess.Popen(
        [
            sys.executable,
            Path(__file__).parents[1] / "cluster" / "kubernetes" / "fake_kubelet.py",
            tmp_path,
            tmp_path / "pods.sock",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    state = tmp_path / "state"
    environment = {**os.environ, "TRNSIM_STATE": str(state), "TRNSIM_INSTANCE": "trn1.32xlarge"}
    words = [*COMMAND, "--period", "100ms", "--pod-resources", tmp_path / "pods.sock"]
    reader = None
    try:
        for command in (
            ["start"],
            ["hold", [["team", "train-0", "main", "aws.amazon.com/neuron", ["3"]]]],
        ):
            kubelet.stdin.write(json.dumps(command) + "\n")
            kubelet.stdin.flush()
            kubelet.stdout.readline()
        reader = subprocess.Popen(
            words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        assert reader.stderr.readline() == b"emulated by trnsim\n"
        while not (state / "pods.json").exists():
            assert reader.poll() is None
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "trnsim", "neuron-monitor"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as monitor:
            report = json.loads(monitor.stdout.readline())
            monitor.kill()
        use = {"pod_name": "train-0", "namespace": "team", "container_name": ["main"]}
        info = report["neuron_k8s_info"]
        assert info["neuroncores_k8s_info"] == {"6": use, "7": use}
        assert info["neurondevices_k8s_info"] == {"3": use}
        assert info["error"] == ""
        reader.stdin.close()
        assert reader.wait(10) == 0
        assert not (state / "pods.json").exists()
    finally:
        for process in filter(None, (kubelet, reader)):
            process.kill()
            process.wait()
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                stream.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kubelet's socket is on Linux")
def test_a_kubelet_that_does_not_answer_is_the_reports_error(tmp_path):
    environment = {**os.environ, "TRNSIM_STATE": str(tmp_path / "state")}
    words = [*COMMAND, "--pod-resources", tmp_path / "none.sock"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as reader:
        reader.stderr.readline()
        assert b"kubelet does not say what containers hold" in reader.stderr.readline()
        stored = json.loads((tmp_path / "state" / "pods.json").read_text())
        assert stored["error"].startswith("kubelet does not say")
        reader.stdin.close()
        assert reader.wait(10) == 0
