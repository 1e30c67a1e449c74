"""PyTorch's own parallel training, started by torchrun without naming a device or a backend."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from launched import torchrun
from torch import nn

PROGRAM = Path(__file__).parent / "torchrun_program.py"
RANKS = 2


def alone():
    """The losses of one process on the CPU that has the batches of all ranks at once."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    seeds = (torch.Generator().manual_seed(rank) for rank in range(RANKS))
    found = []
    for batch in torch.cat([torch.randn(6, 4, 8, generator=seed) for seed in seeds], 1):
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.slow
def test_a_program_of_two_processes_trains_and_resumes_as_one_does_on_the_cpu(tmp_path):
    said = torchrun(RANKS, PROGRAM, str(tmp_path / "saved"), folder=tmp_path)
    (line,) = [line for line in said.splitlines() if line.startswith("ANSWER")]
    answer = json.loads(line.removeprefix("ANSWER"))
    assert answer["device"] == "neuron"
    for way in ("ddp", "fsdp"):
        losses = answer[way]["losses"]
        assert losses == pytest.approx(alone(), rel=1e-4)
        assert losses[-1] < losses[0]
        assert answer[way]["resumed"] == losses[3:]
