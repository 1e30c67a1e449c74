import pytest
from typer.testing import CliRunner

from trnsim.cli import app

DEVICE_PLUGIN, NODE_PROBLEMS = ["k8s", "device-plugin"], ["k8s", "node-problems"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*DEVICE_PLUGIN, "--resource", "gpu"], "legal: neuron, neuroncore, neurondevice"),
        ([*DEVICE_PLUGIN, "--resource", "neuron,"], "'' is no resource of Neuron"),
        ([*DEVICE_PLUGIN, "--on", "p5.48xlarge"], "p5.48xlarge"),
        ([*DEVICE_PLUGIN, "--server", "x"], "is no address of an API"),
        ([*NODE_PROBLEMS], "no API of Kubernetes is named"),
        ([*NODE_PROBLEMS, "--server", "x"], "is no address of an API"),
    ],
)
def test_refusals(arguments, message, monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


def test_a_machine_without_device_files_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("pathlib.Path.is_char_device", lambda _: False)
    result = CliRunner().invoke(app, DEVICE_PLUGIN)
    assert str(result.exception).startswith("there is no device /dev/neuron0 for containers")
