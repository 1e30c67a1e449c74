"""A small classifier of points on spirals, trained on the device and on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from trnsim.device.call_log import recording
from trnsim.device.compiled_graph import CompiledGraph
from trnsim.torch.device_name import DEVICE_TYPE

_POINTS: Final = 256
_CLASSES: Final = 3
_HIDDEN: Final = 32
_TURN: Final = 4.0
_NOISE: Final = 0.1
_LEARNING_RATE: Final = 1e-2


@dataclass(frozen=True)
class TrainingResult:
    """Losses of a training run on the neuron device, and their distance from the CPU's.

    Attributes:
        model: the model, its data and its optimizer, in words.
        first_loss: the loss before the first step, on the device.
        last_loss: the loss before the last step, on the device.
        largest_difference_from_cpu: the largest absolute difference of a step's losses.
        graphs: the number of graphs that a step runs on the device: forward and backward.
        compiled_s: their time per step on the chip, launches included.
    """

    model: str
    steps: int
    first_loss: float
    last_loss: float
    largest_difference_from_cpu: float
    graphs: int
    compiled_s: float


def train(seed: int = 0, steps: int = 20, target: str = "trn2") -> TrainingResult:
    """Train a small classifier of points on spirals, once on the device and once on the CPU.

    Both runs start from the same model and use AdamW. On the device, torch.compile compiles the
    model, and the result has the time of its graphs on a chip.

    Args:
        seed: seed of the points and of the initial model.
        steps: number of training steps.
        target: the chip whose time is given, such as "trn2".
    """
    with recording() as calls_log:
        device_losses = _losses(torch.device(DEVICE_TYPE), seed, steps)
    losses = {"neuron": device_losses, "cpu": _losses(torch.device("cpu"), seed, steps)}
    calls = [event.call for event in calls_log.events if isinstance(event.call, CompiledGraph)]
    times = [call.time(target) for call in dict.fromkeys(calls)]
    pairs = zip(losses["neuron"], losses["cpu"], strict=True)
    return TrainingResult(
        model=f"MLP 2-{_HIDDEN}-{_HIDDEN}-{_CLASSES} on {_POINTS} points of spirals, AdamW",
        steps=steps,
        first_loss=losses["neuron"][0],
        last_loss=losses["neuron"][-1],
        largest_difference_from_cpu=max(abs(ours - cpu) for ours, cpu in pairs),
        graphs=len(times),
        compiled_s=sum(time.launch_s + time.device_time_s for time in times),
    )


def _losses(device: torch.device, seed: int, steps: int) -> list[float]:
    """The loss of each step; equal seeds give equal initial models on every device."""
    points, classes = _spirals(torch.Generator().manual_seed(seed))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(2, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, _CLASSES),
        )
    model = model.to(device)
    inputs, targets = points.to(device), classes.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
    call: Any = torch.compile(model, backend=DEVICE_TYPE) if not inputs.is_cpu else model
    losses: list[float] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(inputs), targets)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def _spirals(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points [N, 2] on interleaved spirals, and the spiral number of each point [N]."""
    classes = torch.arange(_POINTS, device="cpu") % _CLASSES
    radius = torch.rand(_POINTS, generator=generator, device="cpu")
    angle = _TURN * radius + classes * (2 * torch.pi / _CLASSES)
    angle = angle + _NOISE * torch.randn(_POINTS, generator=generator, device="cpu")
    return radius[:, None] * torch.stack((angle.sin(), angle.cos()), dim=1), classes
