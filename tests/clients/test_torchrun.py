"""PyTorch's own parallel training, started by torchrun without naming a device or a backend."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from launched import torchrun

PROGRAM = Path(__file__).parent / "torchrun_program.py"


def answer(way, folder, **environment):
    folder.mkdir()
    said = torchrun(2, PROGRAM, way, str(folder / "saved"), folder=folder, **environment)
    (line,) = [line for line in said.splitlines() if line.startswith("ANSWER")]
    return json.loads(line.removeprefix("ANSWER"))


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_a_program_of_two_processes_trains_and_resumes_as_on_the_cpu(tmp_path, way):
    mine = answer(way, tmp_path / "mine")
    # On the CPU the sharded model is compared with the one that is whole in each process.
    expected = answer("ddp", tmp_path / "theirs", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (mine["device"], expected["device"]) == ("neuron", "cpu")
    assert mine["losses"] == pytest.approx(expected["losses"], rel=1e-4)
    assert mine["losses"][-1] < mine["losses"][0]
    assert mine["resumed"] == mine["losses"][3:]
