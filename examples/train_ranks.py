"""Data-parallel training that goes on from its last checkpoint, for `trnsim launch` or torchrun.

Every rank has its own rows of each batch. Rank 0 saves after each step; a program that is started
again finds the file and goes on after the step that it holds.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

STEPS = 8
ROWS = 64  # of a batch, over all ranks

checkpoint = Path(sys.argv[1])
dist.init_process_group("neuron")
rank, world = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
features = torch.randn(STEPS, ROWS, 16)
targets = features.sum(-1, keepdim=True).sin()
network = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1)).to("neuron")
model = nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

first = 0
if checkpoint.exists():
    saved = torch.load(checkpoint, map_location="cpu")
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"] + 1
    print(f"goes on after step {first}")

for step in range(first, STEPS):
    optimizer.zero_grad()
    mine = slice(rank * ROWS // world, (rank + 1) * ROWS // world)
    outputs = model(features[step, mine].to("neuron"))
    loss = nn.functional.mse_loss(outputs, targets[step, mine].to("neuron"))
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    print(f"step {step + 1}: loss {mean.item():.4f}")
    if rank == 0:
        unfinished = checkpoint.with_suffix(".new")
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"step": step}, unfinished)
        unfinished.replace(checkpoint)  # at once: a rank that is lost leaves the old one or this

dist.destroy_process_group()
