"""3 PyTorch: a compiled training loop on torch.device("neuron"), and on the CPU."""

from __future__ import annotations

from importlib.util import find_spec

from trnsim.document.answer import Block, Note
from trnsim.profile.units import time_text

_INSTALL_COMMAND = "pip install 'trnsim[torch]'"


def training_blocks(seed: int = 0, steps: int = 20, target: str = "trn2") -> list[Block]:
    """The losses, and the time of the compiled graphs on a chip.

    Without torch, the line gives the command to install it.
    """
    if find_spec("torch") is None:
        return [
            Note(
                f"3 PyTorch   torch is not installed; to enable this: {_INSTALL_COMMAND}",
                hanging=12,
            )
        ]
    from trnsim.torch.spirals import train  # noqa: PLC0415  torch is optional

    result = train(seed=seed, steps=steps, target=target)
    losses = f"{result.first_loss:.4f} -> {result.last_loss:.4f}"
    difference = f"{result.largest_difference_from_cpu:.1e}"
    graphs = f"{result.graphs} compiled graphs take {time_text(result.compiled_s)} of a step"
    text = f"loss {losses}, difference from the CPU {difference}; {graphs}"
    return [Note(f"3 PyTorch   {text}", hanging=12)]
