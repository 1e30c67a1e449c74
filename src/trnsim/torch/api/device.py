"""The module `torch.neuron`, with the functions that `torch.cuda` has for its devices.

PyTorch, accelerate, transformers, diffusers, TRL and torchtitan call the functions by these names.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

import torch

from trnsim.device.device_core import device_core, target, visible_cores
from trnsim.device.fallback_policy import host_fallbacks, set_policy
from trnsim.device.hbm import device_memory
from trnsim.device.program_line import program_line
from trnsim.device.steps import steps
from trnsim.errors import NotModelled
from trnsim.torch.api.core_index import Device, core_index
from trnsim.torch.api.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from trnsim.torch.api.rng import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from trnsim.torch.api.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from trnsim.torch.device_name import DEVICE_TYPE

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "host_fallbacks",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_policy",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

# torch.utils.checkpoint saves a device's random state only where it finds this attribute; without
# it a recomputed dropout would draw another mask, and gradients would be silently wrong.
_initialized: Final = True

__path__: Final[list[str]] = []  # `import torch.neuron` works only for packages


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of one device.

    Attributes:
        name: the chip's name ("trn2"), by which torchtitan and TRL look it up.
        total_memory: bytes of HBM.
        major: the NeuronCore's generation (3 is v3).
        minor: 0.
        multi_processor_count: number of physical NeuronCores.
        target: the platform name ("trn2").
        description: the properties as text.
    """

    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int
    target: str
    description: str


def is_available() -> bool:
    """True: the device needs no hardware."""
    return True


def is_initialized() -> bool:
    """True: there is nothing to start."""
    return True


def init() -> None:
    """Do nothing: there is nothing to start."""


def _lazy_init() -> None:  # pyright: ignore[reportUnusedFunction]  PyTorch calls it
    """`init` under the name that PyTorch calls."""


def _is_in_bad_fork() -> bool:  # pyright: ignore[reportUnusedFunction]  PyTorch calls it
    """False: a forked process can use the device."""
    return False


def device_count() -> int:
    """The number of devices of this process."""
    return len(visible_cores())


def _get_device_index(location: Device, optional: bool = False) -> int:
    """The core on which `torch.load` puts a storage."""
    del optional  # without an index it is neuron:0
    return core_index(location)


_utils: Final = SimpleNamespace(_get_device_index=_get_device_index)
"""torch.serialization takes the function from here, and then skips its check of `device_count`."""


def current_device() -> int:
    """0: the index of "neuron" without an index."""
    return 0


def set_device(device: Device) -> None:
    """Accept neuron:0, which is always the current device.

    Raises:
        NoSuchCore: if there is no such core.
        NotModelled: for any other core. For backends in Python, PyTorch's C++ resolves "neuron" to
        index 0, so tensors would silently go to neuron:0 anyway.
    """
    index = core_index(device)
    if index:
        raise NotModelled(
            f"neuron:{index} cannot be made the current device; it stays neuron:0",
            fix="name the device (x.to('neuron:1')), or give each process its own core with "
            "NEURON_RT_VISIBLE_CORES",
            line=program_line(),
        )


class device:  # noqa: N801  torch.cuda's name
    """Context in which `device` is current; like `set_device` it accepts only neuron:0."""

    def __init__(self, device: Device) -> None:
        self.idx = core_index(device)

    def __enter__(self) -> None:
        set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        """Do nothing: neuron:0 stays current."""


class device_of(device):  # noqa: N801  torch.cuda's name
    """Context in which the device of a tensor is current; a CPU tensor changes nothing."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(max(obj.get_device(), 0))


def synchronize(device: Device = None) -> None:
    """Return at once: every call has finished when it returns."""
    core_index(device)
    steps.note_synchronization()


def get_device_properties(device: Device = None) -> DeviceProperties:
    """The properties of a device."""
    memory = device_memory(core_index(device))
    chip, core = target(), device_core()
    return DeviceProperties(
        name=chip.name,
        total_memory=memory.capacity_bytes,
        major=chip.core.generation,
        minor=0,
        multi_processor_count=core.physical_cores,
        target=chip.name,
        description=str(core),
    )


def get_device_name(device: Device = None) -> str:
    """The device's own name ("neuron:0"); clients read the chip from its properties.

    Source: torchtitan 0.3.0 tools/utils.py; trl 1.16.0 scripts/env.py.
    """
    return f"{DEVICE_TYPE}:{core_index(device)}"


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The NeuronCore's generation, and 0."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may be entered with."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every NeuronCore has bfloat16."""
    del including_emulation
    return True
