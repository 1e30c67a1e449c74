"""3 PyTorch: a training loop on torch.device("neuron"), beside the same loop on the CPU."""

from __future__ import annotations

from importlib.util import find_spec

_HOW = "pip install 'trnsim[torch]'"


def training_lines(seed: int = 0, steps: int = 20) -> list[str]:
    """One line of the demo: the losses, or without torch how to install it."""
    if find_spec("torch") is None:
        return [f"3 PyTorch   torch is not installed; to enable this: {_HOW}"]
    from trnsim.torch.spirals import train  # noqa: PLC0415  torch is optional

    result = train(seed=seed, steps=steps)
    losses = f"{result.first_loss:.4f} -> {result.last_loss:.4f}"
    difference = f"{result.largest_difference_from_cpu:.1e}"
    return [f"3 PyTorch   loss {losses}, difference from the CPU {difference}"]
