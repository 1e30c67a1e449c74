"""Released Lightning trains on the device, asked by name or left to choose."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
lightning = pytest.importorskip("lightning.pytorch", reason="make clients installs lightning")

pytestmark = pytest.mark.filterwarnings("ignore")

QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
SCRIPT = """
import json, sys, torch
sys.path.insert(0, {folder!r})
from test_lightning import Regression, batches, QUIET, lightning

if __name__ == "__main__":
    module = Regression()
    trainer = lightning.Trainer(devices=2, max_epochs=2, use_distributed_sampler=True, **QUIET,
                                accelerator={accelerator!r}, strategy={strategy!r})
    trainer.fit(module, batches(4), batches(4))
    if trainer.is_global_zero:
        answer = {{"kind": type(trainer.strategy).__name__, "world": trainer.world_size,
                   "checked": {{name: value.item() for name, value
                               in trainer.callback_metrics.items()}},
                   "total": sum(p.double().sum().item() for p in module.parameters())}}
        open({answer!r}, "w").write(json.dumps(answer))
"""


class Regression(lightning.LightningModule):
    """A small network that is to say zero."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1)
        )
        self.losses, self.seen = [], set()

    def training_step(self, batch, index):
        del index
        output = self.net(batch)
        self.seen.add((batch.device.type, output.dtype))
        loss = output.pow(2).mean()
        self.log("loss", loss, sync_dist=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        del index
        self.log("checked", self.net(batch).pow(2).mean(), sync_dist=True)
        self.log("rows", len(batch), sync_dist=True, reduce_fx="sum")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def batches(size=8):
    data = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(data, batch_size=size)


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


def run(folder, accelerator, strategy):
    answer = folder / f"{accelerator}.json"
    script = folder / f"{accelerator}.py"
    script.write_text(
        SCRIPT.format(
            folder=str(Path(__file__).parent),
            accelerator=accelerator,
            strategy=strategy,
            answer=str(answer),
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300,
        cwd=folder, env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(answer.read_text())


@pytest.mark.parametrize("strategy", ["auto", "ddp_spawn"])
def test_two_processes_train_as_two_on_the_cpu(tmp_path, strategy):
    mine, theirs = run(tmp_path, "neuron", strategy), run(tmp_path, "cpu", strategy)
    assert mine["kind"] == "NeuronDDPStrategy"
    assert mine["world"] == theirs["world"] == 2
    assert mine["total"] == pytest.approx(theirs["total"], rel=1e-4)
    assert mine["checked"] == pytest.approx(theirs["checked"], rel=1e-4)
    assert mine["checked"]["rows"] == 32
