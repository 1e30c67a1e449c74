"""safetensors loaded straight to the device: `load_file(path, device="neuron")`.

safetensors refuses names of devices that it does not know, such as "neuron", and accelerate passes
that name when it loads a state in several processes. Source: safetensors 0.8.0 torch.py; accelerate
1.15.0 checkpointing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final, Self

import torch

from trnsim.torch.api.core_index import core_index
from trnsim.torch.clients.plugin import Plugin, replace
from trnsim.torch.device_name import DEVICE_TYPE


def apply(module: ModuleType) -> None:
    """Replace `safetensors.safe_open`, which all of its readers use."""
    replace(module, "safe_open", _safe_open_class(vars(module)["safe_open"]))


def _safe_open_class(library_class: Callable[..., Any]) -> Callable[..., Any]:
    """`safetensors.safe_open` that also takes a neuron device."""

    @wraps(library_class, updated=())
    def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if str(device).partition(":")[0] != DEVICE_TYPE:
            return library_class(filename, framework=framework, device=device, **options)
        file = library_class(filename, framework=framework, device="cpu", **options)
        return DeviceFile(file, torch.device(DEVICE_TYPE, core_index(str(device))))

    return safe_open


class DeviceFile:
    """An open safetensors file whose tensors are copied to a neuron device when they are read."""

    def __init__(self, file: Any, device: torch.device) -> None:
        self._file = file
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    def get_tensor(self, name: str) -> torch.Tensor:
        """A tensor by its name."""
        tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor.to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All tensors by name."""
        return {name: self.get_tensor(name) for name in self._file.keys()}  # noqa: SIM118  no dict

    def get_slice(self, name: str) -> TensorSlice:
        """A tensor in the file, read in part when it is indexed."""
        return TensorSlice(self._file.get_slice(name), self._device)


class TensorSlice:
    """A tensor in a file; indexing reads a part onto the device."""

    def __init__(self, host_slice: Any, device: torch.device) -> None:
        self._slice = host_slice
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slice, name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        part: torch.Tensor = self._slice[index]
        return part.to(self._device)


PLUGIN: Final = Plugin(
    package="safetensors",
    tested_releases=("0.8",),
    module="safetensors",
    replaced_names=("safe_open",),
    reason='it refuses device="neuron"',
    source="safetensors 0.8.0 torch.py, load_file",
    apply=apply,
)
