"""accelerate: it uses the device only where PyTorch has no accelerator of its own.

accelerate 1.15 knows the device and checks only that it exists: beside a GPU, its launcher would
take GPU numbers for NeuronCores, and a program would not be told that it gets the emulator. With
this patch the device exists for accelerate where it is the device of `torch.accelerator`.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any, Final

from trnsim.torch.api import accelerator
from trnsim.torch.clients.plugin import Plugin, replace
from trnsim.torch.device_name import is_neuron


def apply(module: ModuleType) -> None:
    """Make `is_neuron_available` true only where the device is the program's accelerator."""
    original: Any = vars(module)["is_neuron_available"]

    @wraps(original)
    def is_neuron_available(*args: Any, **options: Any) -> bool:
        is_available: bool = original(*args, **options)
        return is_available and is_neuron(accelerator.current())

    replace(module, "is_neuron_available", is_neuron_available)


PLUGIN: Final = Plugin(
    package="accelerate",
    tested_releases=("1.15",),
    module="accelerate.utils.imports",
    replaced_names=("is_neuron_available",),
    reason="beside a GPU its launcher would choose emulated NeuronCores, not GPUs",
    source="accelerate 1.15.0 utils/launch.py, state.py",
    apply=apply,
)
