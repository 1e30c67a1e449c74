"""Released TRL on the device: steps of supervised and of preference training, as on the CPU."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
trl = pytest.importorskip("trl", reason="make clients installs trl")
datasets = pytest.importorskip("datasets", reason="make clients installs trl, which needs datasets")

import accelerate
from known import MODELS
from launched import free_port, run, torchrun
from words import tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")

OPTIONS = {
    "max_steps": 2,
    "per_device_train_batch_size": 2,
    "logging_steps": 1,
    "report_to": [],
    "save_strategy": "no",
    "learning_rate": 1e-2,
    "bf16": False,
    "gradient_checkpointing": False,
    "seed": 1,
}


def losses(trainer, device):
    assert trainer.accelerator.device.type == device
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def fresh(device):
    """No memory of the accelerator of another device."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    return {"use_cpu": device == "cpu"} | OPTIONS


def supervised(folder, device):
    rows = datasets.Dataset.from_dict({"text": ["w1 w2 w3 w4 w5", "w9 w8 w7", "w4 w4", "w5 w6"]})
    arguments = trl.SFTConfig(output_dir=str(folder), max_length=16, **fresh(device))
    model = MODELS["Llama"].build()
    return losses(
        trl.SFTTrainer(model, arguments, train_dataset=rows, processing_class=tokenizer()), device
    )


def preferred(folder, device):
    rows = datasets.Dataset.from_dict(
        {
            "prompt": ["w1 w2", "w3", "w4 w5 w6", "w7"],
            "chosen": [" w10 w11", " w12", " w13 w14", " w15"],
            "rejected": [" w20", " w21 w22", " w23", " w24 w25"],
        }
    )
    arguments = trl.DPOConfig(output_dir=str(folder), max_length=16, beta=0.5, **fresh(device))
    model, reference = MODELS["Llama"].build(), MODELS["Llama"].build()
    return losses(
        trl.DPOTrainer(
            model, reference, arguments, train_dataset=rows, processing_class=tokenizer()
        ),
        device,
    )


@pytest.mark.parametrize("train", [supervised, preferred])
def test_two_steps_lose_what_they_lose_on_the_cpu(tmp_path, train):
    found, expected = (train(tmp_path / device, device) for device in ("neuron", "cpu"))
    assert len(found) == 2
    assert found == pytest.approx(expected, rel=1e-4)
    assert found[0] != found[1]


PROGRAM = Path(__file__).parent / "trl_program.py"


def answer(said):
    (line,) = [line for line in said.splitlines() if line.startswith("ANSWER")]
    return json.loads(line.removeprefix("ANSWER"))


def test_two_launched_processes_lose_what_two_on_the_cpu_lose(tmp_path):
    launch = ["-m", "accelerate.commands.launch", "--num_processes=2", "--multi_gpu"]
    port = f"--main_process_port={free_port()}"
    mine = answer(run([sys.executable, *launch, port, str(PROGRAM), "mine"], tmp_path))
    without = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "ACCELERATE_USE_CPU": "true"}
    theirs = answer(torchrun(2, PROGRAM, "theirs", folder=tmp_path, **without))
    assert (mine["device"], theirs["device"]) == ("neuron", "cpu")
    assert mine["processes"] == theirs["processes"] == 2
    assert mine["losses"] == pytest.approx(theirs["losses"], rel=1e-3)
    assert mine["losses"][-1] < mine["losses"][0]
