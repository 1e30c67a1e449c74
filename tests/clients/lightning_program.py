"""A small network trained by Lightning, in processes that Lightning or torchrun starts.

The first process writes what it found as JSON to a file.
"""

import json
import sys
from pathlib import Path

import torch
from lightning import pytorch as lightning

QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


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


DATA = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))


def batches(size=8, sampler=None):
    return torch.utils.data.DataLoader(DATA, batch_size=size, sampler=sampler)


def trained(batch, check, **options):
    """A trainer that has trained and checked, and what it found."""
    module = Regression()
    trainer = lightning.Trainer(max_epochs=2, **QUIET, **options)
    trainer.fit(module, batch, check)
    numbers = {name: value.item() for name, value in trainer.callback_metrics.items()}
    numbers["total"] = sum(one.double().sum().item() for one in module.parameters())
    return trainer, numbers


def main(accelerator, devices, strategy, path):
    asked = {"accelerator": accelerator, "devices": devices, "strategy": strategy}
    trainer, numbers = trained(batches(4), batches(4), **asked)
    if trainer.is_global_zero:
        found = {"kind": type(trainer.strategy).__name__, "world": trainer.world_size}
        Path(path).write_text(json.dumps({**found, "numbers": numbers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
