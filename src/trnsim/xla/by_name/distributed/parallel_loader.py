"""`torch_xla.distributed.parallel_loader`: batches on the device, each of which ends a step.

A step ends before each batch, before the end and at it, so n batches end n + 2 steps, as measured
with torch_xla 2.9.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import torch

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.arenas import copy_to_device
from trnsim.xla.device_spelling import SPELLING
from trnsim.xla.steps import step_closures

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


class LoaderMisused(BadInput, TypeError):
    """Error of a loader without batches, or of devices that are not its own."""


class PerDeviceLoader:
    """The batches of one device, in one pass.

    Args:
        batches: the batches on the host.
        device: the device to which they go.
        count: function that returns the number of batches.
        batches_per_execution: batches in a step.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        device: torch.device,
        count: Callable[[], int],
        batches_per_execution: int,
    ) -> None:
        self._batches = batches
        self._device = device
        self._count = count
        self._batches_per_step = batches_per_execution
        self._batches_since_step = 0

    def __len__(self) -> int:
        return self._count()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._batches_since_step >= self._batches_per_step - 1:
            self._batches_since_step = 0
            step_closures.end_step()
        else:
            self._batches_since_step += 1
        try:
            batch = next(self._batches)
        except StopIteration:
            step_closures.end_step()
            raise
        return copy_to_device(batch, self._device)

    next = __next__


class ParallelLoader:
    """A loader whose batch i goes to device i modulo their number.

    Batches are sent when they are asked for: on this device a copy takes no time that a thread
    could hide. So the numbers of threads and of batches sent ahead have no effect.

    Raises:
        LoaderMisused: for devices that are not a list of at least one device.
    """

    def __init__(
        self,
        cpu_loader: Any,
        devices: Iterable[torch.device | str],
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8,
        host_to_device_transfer_threads: int = 1,
        input_sharding: object = None,
    ) -> None:
        del batchdim, loader_prefetch_size, device_prefetch_size
        del host_to_device_transfer_threads, input_sharding
        is_list = (
            isinstance(devices, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
            and not isinstance(devices, str)
        )
        self._devices = [_with_index(device) for device in devices] if is_list else []
        if not self._devices:
            raise LoaderMisused(
                f"ParallelLoader of devices {devices!r}; legal: a list of devices",
                fix="pl.ParallelLoader(loader, [device])",
                line=program_line(),
            )
        self._loader = cpu_loader
        self.batches_per_execution = batches_per_execution

    def per_device_loader(self, device: torch.device | str) -> PerDeviceLoader:
        """One pass over the batches of a device.

        Raises:
            LoaderMisused: for a loader that has no batches, or a device that is not among its own.
        """
        if not isinstance(self._loader, Iterable) and not hasattr(self._loader, "__getitem__"):
            raise LoaderMisused(
                f"a loader {self._loader!r}; legal: batches: a DataLoader, a list, a generator",
                fix="pl.MpDeviceLoader(torch.utils.data.DataLoader(dataset), device)",
                line=program_line(),
            )
        indexed_device = _with_index(device)
        if indexed_device not in self._devices:
            raise LoaderMisused(
                f"per_device_loader({str(device)!r}); legal: {', '.join(map(str, self._devices))}",
                fix="pl.ParallelLoader(loader, [device]).per_device_loader(device)",
                line=program_line(),
            )
        batches = islice(
            iter(self._loader), self._devices.index(indexed_device), None, len(self._devices)
        )
        return PerDeviceLoader(
            batches, indexed_device, self.per_device_samples, self.batches_per_execution
        )

    def per_device_samples(self) -> int:
        """The number of batches of each device."""
        return len(self._loader) // len(self._devices)

    def close(self) -> None:
        """Nothing: no thread runs."""


def _with_index(device: torch.device | str) -> torch.device:
    """A device with its number, as tensors have it: "xla" is "xla:0"."""
    torch_device = torch.device(device)
    return (
        torch.device(torch_device.type, torch_device.index or 0)
        if torch_device.type == SPELLING
        else torch_device
    )


class MpDeviceLoader:
    """The batches of a loader on the device; each pass begins anew."""

    def __init__(self, loader: Any, device: torch.device | str, **kwargs: Any) -> None:
        self._loader = loader
        self._device = device
        self._options = kwargs

    def __iter__(self) -> Iterator[Any]:
        loader = ParallelLoader(self._loader, [self._device], **self._options)
        return iter(loader.per_device_loader(self._device))

    def __len__(self) -> int:
        return len(self._loader)


__getattr__ = absence_getter("torch_xla.distributed.parallel_loader", __name__)
