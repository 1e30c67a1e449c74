import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")

    def call(*arguments):
        result = CliRunner().invoke(app, ["neuron-ls", *arguments], catch_exceptions=False)
        assert result.exit_code == 0
        assert result.stderr == "emulated by trnsim\n"
        return result.stdout

    return call


def test_the_instance_is_named_above_each_table(run):
    for option in ((), ("-w",), ("-a",), ("-t",)):
        assert run(*option).startswith(
            "instance-type: trn2.48xlarge\ninstance-id: i-00000000emulated\n"
            "logical-neuroncore-config: 2\n+--------+"
        )
    assert "CORE IDS" in run()
    assert "Neuron Device Topology" in run("--topology")


def test_all_processes_are_programs_tools_and_itself(run, monkeypatch):
    """aws-neuron-sdk neuron-ls.rst: such as neuron-monitor or neuron-ls itself."""
    monkeypatch.setattr(sys, "argv", ["trnsim", "neuron-ls", "--show-all-procs"])
    command = [sys.executable, "-m", "trnsim", "neuron-monitor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        rows = [line.split("|") for line in run("-a").splitlines() if "NA" in line]
        process.kill()
    listed = [(row[-4].strip(), row[-3].strip(), row[-2].strip()) for row in rows]
    monitor = (str(process.pid), "neuron-monitor", "NA")
    itself = (str(os.getpid()), "neuron-ls --show-all-procs", "NA")
    assert listed == [monitor, itself] * 16
    assert "neuron-monitor" not in run("-a")


def test_json_has_nothing_besides(run, monkeypatch):
    assert len(json.loads(run("--json-output"))) == 16
    monkeypatch.setenv("TRNSIM_INSTANCE", "inf1.6xlarge")
    assert "logical_neuroncore_config" not in json.loads(run("-j"))[0]


def test_an_unknown_instance_is_refused(run, monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarg")
    with pytest.raises(BadInput, match=r"(?s)instance 'trn2\.48xlarg' is not known"):
        run()
