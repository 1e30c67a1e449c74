"""`make bench`: a step of DistributedDataParallel in two ranks, as a ratio to gloo's on the CPU.

The ranks of both kinds are processes that make their steps in turn. A step ends when both ranks
have made it; the figure is the ratio of the least times by the clock, with the median of the ratios
of each round beside it, and the CPU time of both ranks. The step of one process without a group is
below: what remains is what agreement and exchange cost.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trnsim.device.loopback import free_port

RANKS, ROUNDS, FIRST = 2, 20, 3
AT_MOST = 1.3
SIZES = {"2 layers of 128": (2, 128, 32, 8), "4 layers of 256": (4, 256, 64, 8)}
"""Layers, width, tokens of a sequence, and sequences."""
GROUPS = {"cpu": "gloo", "neuron": "neuron"}


def training_step(device, size, *, has_group):
    """A function that makes a training step of a transformer."""
    layers, width, tokens, sequences = SIZES[size]
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)
    wrapped = DistributedDataParallel(model) if has_group else model
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(sequences, tokens, width).to(device)

    def step():
        optimizer.zero_grad()
        wrapped(x).square().mean().backward()
        optimizer.step()

    return step


def time_steps(device, size, has_group):
    """Make a step for each line of the standard input, and print its wall and CPU time."""
    if has_group:
        dist.init_process_group(GROUPS[device])
    step = training_step(device, size, has_group=has_group)
    for _ in sys.stdin:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        step()
        print(time.perf_counter() - wall_s, time.process_time() - cpu_s, flush=True)
    if has_group:
        dist.destroy_process_group()


def started(device, size, ranks):
    """The processes of the ranks; of one process without a group for one rank."""
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    return [
        subprocess.Popen(  # noqa: S603  this file
            [sys.executable, __file__, device, size, str(ranks)],
            env=os.environ | group | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def step_of(processes):
    """Make a step in all ranks: the time of the latest, and the CPU time of all."""
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    times = [[*map(float, process.stdout.readline().split())] for process in processes]
    return max(wall_s for wall_s, _ in times), sum(cpu_s for _, cpu_s in times)


def compare(size, ranks):
    """Print the steps of both kinds."""
    processes = {device: started(device, size, ranks) for device in GROUPS}
    taken = {device: [] for device in GROUPS}
    for number in range(ROUNDS + FIRST):
        for device, members in processes.items():
            spent = step_of(members)
            if number >= FIRST:
                taken[device].append(spent)
    for process in [member for members in processes.values() for member in members]:
        process.stdin.close()
        process.wait()
    for device, times in taken.items():
        line = f"{size}, {ranks} ranks, {device:<8}"
        for column in (0, 1):
            ours = [spent[column] for spent in times]
            theirs = [spent[column] for spent in taken["cpu"]]
            middle = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            line += f" {min(ours) * 1e3:8.1f} ms {min(ours) / min(theirs):5.2f} {middle:5.2f}"
        print(line, f"  (at most {AT_MOST})" if device != "cpu" and ranks > 1 else "", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        time_steps(sys.argv[1], sys.argv[2], int(sys.argv[3]) > 1)
    else:
        print("step, and its ratio to the CPU's by the least and median: by the clock, of CPU time")
        for size in SIZES:
            for ranks in (RANKS, 1):
                compare(size, ranks)
