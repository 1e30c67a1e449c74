"""Released Lightning trains on the device, asked by name or left to choose."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
lightning = pytest.importorskip("lightning.pytorch", reason="make clients installs lightning")

import launched
from lightning_program import DATA, QUIET, Regression, batches, trained
from torch.utils.data import DistributedSampler

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAM = Path(__file__).parent / "lightning_program.py"
PAIR = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1"}
"""The smallest instance of this chip has two cores."""


def fitted(**options):
    module = Regression()
    trainer = lightning.Trainer(max_epochs=2, devices=1, **QUIET, **options)
    trainer.fit(module, batches())
    return trainer, module


@pytest.mark.parametrize("asked", ["neuron", "auto"])
def test_one_device_trains_as_the_cpu_does(asked):
    trainer, mine = fitted(accelerator=asked)
    _, other = fitted(accelerator="cpu")
    assert trainer.strategy.root_device == torch.device("neuron:0")
    assert (mine.seen, other.seen) == ({("neuron", torch.float32)}, {("cpu", torch.float32)})
    assert mine.losses == pytest.approx(other.losses, rel=1e-4)
    assert mine.losses[-1] < mine.losses[0]


def test_the_device_is_chosen_where_nothing_is_asked():
    trainer = lightning.Trainer(**QUIET)
    assert trainer.strategy.root_device == torch.device("neuron:0")
    assert type(trainer.accelerator).__name__ == "NeuronAccelerator"


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)]
)
def test_mixed_precision_casts_on_the_device(precision, dtype):
    _, mine = fitted(accelerator="neuron", precision=precision)
    _, whole = fitted(accelerator="neuron")
    assert mine.seen == {("neuron", dtype)}
    assert mine.losses == pytest.approx(whole.losses, rel=3e-2)


def test_validation_and_a_checkpoint(tmp_path):
    trainer, module = fitted(accelerator="neuron")
    (checked,) = trainer.validate(module, batches(), verbose=False)
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    again = Regression.load_from_checkpoint(tmp_path / "one.ckpt")
    cpu = lightning.Trainer(accelerator="cpu", **QUIET)
    (expected,) = cpu.validate(again, batches(), verbose=False)
    assert checked["checked"] == pytest.approx(expected["checked"], rel=1e-4)


def agree(answer):
    """Check two processes beside one on the CPU that has the batches of both at once."""
    shuffled = DistributedSampler(DATA, num_replicas=1, rank=0)  # in Lightning's order for ranks
    _, numbers = trained(batches(8, shuffled), batches(8), accelerator="cpu", devices=1)
    found = json.loads(answer.read_text())
    assert (found["kind"], found["world"]) == ("NeuronDDPStrategy", 2)
    assert found["numbers"] == pytest.approx(numbers, rel=1e-4)
    assert numbers["rows"] == 32


@pytest.mark.parametrize(
    ("devices", "strategy", "environment"), [("auto", "auto", PAIR), ("2", "ddp_spawn", {})]
)
def test_two_processes_train_as_one_does_on_the_cpu(tmp_path, devices, strategy, environment):
    answer = tmp_path / "answer.json"
    asked = ["auto", devices, strategy, str(answer)]
    launched.run([sys.executable, str(PROGRAM), *asked], tmp_path, **environment)
    agree(answer)


def test_processes_of_torchrun_are_counted_by_it(tmp_path):
    answer = tmp_path / "answer.json"
    asked = ["auto", "auto", "auto", str(answer)]
    launched.torchrun(2, PROGRAM, *asked, folder=tmp_path)
    agree(answer)
