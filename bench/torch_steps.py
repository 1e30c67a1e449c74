"""`make bench`: the device against PyTorch's CPU, and how long timing a large model takes.

Operators and steps run alternately on both, on one thread; the figure is the ratio of the best
times, with the median of the pairwise ratios beside it. The models of the last table compute no
values: each is timed in a process of its own, first with an empty cache, then with a full one.
`bench/torch_steps.py MODEL` times one of them.

A lazy step is that of a program that imports `torch_xla`, whose calls are recorded and cut. It runs
in a process of its own, as the import renames the device, in turn with the eager one's, and is
compared by CPU time. PyTorch has no fused optimizer for the device "xla", so the same step of the
device "neuron" without one is beside it. `bench/torch_steps.py lazy` shows these rows alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import large_models
import torch
from torch import nn

from trnsim import disk_cache
from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording

CALLS, REPEATS, ROUNDS = 200, 9, 30
LAZY_SEQUENCES, LAZY_FIRST, LAZY_ROUNDS = 8, 5, 60
TARGETS = {"eager": 2.5, "compiled": 1.3, "lazy": 1.3}
OPERATORS = {
    "add": lambda x: x + x,
    "add_": lambda x: x.add_(1),
    "mm": lambda x: x @ x,
    "sum": lambda x: x.sum(),
    "softmax": lambda x: x.softmax(-1),
    "view": lambda x: x.view(16),
    "empty": lambda x: torch.empty(4, 4, device=x.device),
}


def best_us(call):
    """The best mean time of a call."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - start) / CALLS)
    return min(found) * 1e6


def operators():
    """What an eager call on the device takes above the CPU's."""
    print(f"{'4x4 float32':<12} {'CPU us':>8} {'neuron us':>10} {'above us':>9}   (at most 12)")
    for name, call in OPERATORS.items():
        host, device = torch.ones(4, 4), torch.ones(4, 4).to("neuron")
        cpu, ours = best_us(lambda: call(host)), best_us(lambda: call(device))  # noqa: B023
        print(f"{name:<12} {cpu:>8.2f} {ours:>10.2f} {ours - cpu:>9.2f}")


def training_step(device, sequences, *, is_compiled):
    """A function that makes a training step of a 2-layer transformer."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    forward = torch.compile(model, backend="neuron") if is_compiled else model
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(sequences, 32, 128).to(device)

    def step():
        optimizer.zero_grad()
        forward(x).square().mean().backward()
        optimizer.step()

    return step


def steps(sequences):
    """A 2-layer transformer's training step on the device, as a ratio to the CPU's."""
    made = {
        "CPU": training_step("cpu", sequences, is_compiled=False),
        "eager": training_step("neuron", sequences, is_compiled=False),
        "compiled": training_step("neuron", sequences, is_compiled=True),
    }
    taken = {name: [] for name in made}
    for number in range(ROUNDS + 2):
        for name, step in made.items():
            start = time.perf_counter()
            step()
            if number > 1:
                taken[name].append(time.perf_counter() - start)
    title = f"{32 * sequences} tokens"
    print(f"\n{title:<12} {'best ms':>8} {'ratio':>7} {'median':>7} {'at most':>8}")
    for name, times in taken.items():
        ratio = min(times) / min(taken["CPU"])
        median = statistics.median(a / b for a, b in zip(times, taken["CPU"], strict=True))
        limit = TARGETS.get(name, 1.0)
        print(f"{name:<12} {min(times) * 1e3:>8.2f} {ratio:>7.2f} {median:>7.2f} {limit:>8}")


def time_steps(kind):
    """Make a step for each line of the standard input, and print its CPU time."""
    is_lazy = kind == "xla"
    if is_lazy:
        import torch_xla  # noqa: PLC0415  it renames the device of this process
    if kind == "neuron, unfused":
        whole = torch.optim.AdamW
        torch.optim.AdamW = lambda parameters: whole(parameters, foreach=False)
    step = training_step("xla" if is_lazy else "neuron", LAZY_SEQUENCES, is_compiled=False)
    for _ in sys.stdin:
        start = time.process_time()
        step()
        if is_lazy:
            torch_xla.sync()
        print(time.process_time() - start, flush=True)


def lazy():
    """A training step that is recorded and cut, as ratios to the eager device's."""
    kinds = ("neuron", "neuron, unfused", "xla")
    processes = {
        kind: subprocess.Popen(  # noqa: S603  this file
            [sys.executable, __file__, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for kind in kinds
    }
    taken = {kind: [] for kind in kinds}
    for number in range(LAZY_ROUNDS + LAZY_FIRST):
        for kind, process in processes.items():
            process.stdin.write("\n")
            process.stdin.flush()
            spent = float(process.stdout.readline())
            if number >= LAZY_FIRST:
                taken[kind].append(spent)
    for process in processes.values():
        process.stdin.close()
        process.wait()
    title = f"{32 * LAZY_SEQUENCES} tokens, lazy"
    print(f"\n{title:<18} {'best CPU ms':>12} {'ratio':>7} {'median':>7} {'at most':>8}")
    for kind, times in taken.items():
        ratio = min(times) / min(taken["neuron"])
        median = statistics.median(a / b for a, b in zip(times, taken["neuron"], strict=True))
        limit = TARGETS["lazy"] if kind == "xla" else ""
        print(f"{kind:<18} {min(times) * 1e3:>12.2f} {ratio:>7.2f} {median:>7.2f} {limit:>8}")


def time_model(name):
    """Time one training step of a large model, without values; printed as a row."""
    begun, begun_cpu = time.perf_counter(), time.process_time()
    with numerics("shapes"), recording() as found:
        large_models.MODELS[name]()
    step = step_time(found, "trn2")
    print(
        f"{time.perf_counter() - begun:>8.1f} {time.process_time() - begun_cpu:>8.1f} "
        f"{step.device_time_s * 1e3:>10.1f} {sum(step.missing.values()):>8}",
        flush=True,
    )


def large():
    """GPT-2 small and a Llama of 1.2 B parameters, one sequence of 2,048 tokens."""
    head = ("wall s", "CPU s", "device ms", "untimed")
    print(f"\n{'timed step':<22} {head[0]:>8} {head[1]:>8} {head[2]:>10} {head[3]:>8}")
    for name in large_models.MODELS:
        with tempfile.TemporaryDirectory() as folder:
            for state, limit in (("cold", "60 s"), ("warm", "2 s")):
                print(f"{name + ', ' + state:<22}", end=" ", flush=True)
                environment = os.environ | {disk_cache.VARIABLE: folder}
                command = [sys.executable, __file__, name]
                subprocess.run(command, env=environment, check=True)  # noqa: S603  this file
                print(f"{'':<22} at most {limit}")


if __name__ == "__main__":
    if sys.argv[1:] == ["lazy"]:
        lazy()
    elif sys.argv[1:2] and sys.argv[1] not in large_models.MODELS:
        time_steps(sys.argv[1])
    elif len(sys.argv) > 1:
        time_model(sys.argv[1])
    else:
        operators()
        for sequences in (4, 16):
            steps(sequences)
        lazy()
        large()
