"""`torch_xla.core.xla_model`, which programs call `xm`.

Source: torch_xla 2.9.0, core/xla_model.py; names that went before it, 2.1.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn
from torch.optim import Optimizer
from typing_extensions import deprecated

from trnsim.device.program_line import program_line
from trnsim.torch.api import device as device_module
from trnsim.torch.device_name import is_neuron
from trnsim.xla import ranks
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.arenas import ToXlaTensorArena, copy_to_device, copy_to_host
from trnsim.xla.collective_arguments import CollectiveMisused
from trnsim.xla.collectives import (
    Groups,
    all_gather,
    all_reduce,
    all_to_all,
    collective_broadcast,
    collective_permute,
    mesh_reduce,
    rank_lists,
    reduce_scatter,
    rendezvous,
)
from trnsim.xla.cuts.cutting import cuts
from trnsim.xla.device_spelling import SPELLING
from trnsim.xla.seeds import seeds
from trnsim.xla.steps import step_closures

__all__ = [
    "REDUCE_AND", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_MUL", "REDUCE_OR", "REDUCE_SUM",
    "RateTracker", "ToXlaTensorArena", "add_step_closure", "all_gather", "all_reduce",
    "all_reduce_bucketized_gradients", "all_to_all", "broadcast_master_param",
    "collective_broadcast", "collective_permute", "do_on_ordinals", "fork_rng", "get_local_ordinal",
    "get_memory_info", "get_ordinal", "get_rng_state", "get_xla_supported_devices",
    "is_master_ordinal", "is_xla_tensor", "mark_step", "master_print", "mesh_reduce",
    "optimization_barrier_", "optimizer_step", "reduce_gradients", "reduce_scatter", "rendezvous",
    "save", "send_cpu_data_to_device", "set_replication", "set_rng_state", "unlazy",
    "wait_device_ops", "xla_device", "xla_device_hw", "xla_device_kind", "xla_real_devices",
    "xla_rendezvous", "xrt_world_size",
]  # fmt: skip

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

REDUCE_SUM: Final = "sum"
REDUCE_MUL: Final = "mul"
REDUCE_AND: Final = "and"
REDUCE_OR: Final = "or"
REDUCE_MIN: Final = "min"
REDUCE_MAX: Final = "max"

DeviceLike = torch.device | str | None


@deprecated("Use torch_xla.device instead")
def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """The device of this process, or its core `n`."""
    del devkind
    return torch.device(SPELLING, n or 0)


@deprecated("Use torch_xla.sync instead")
def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """End the step, as `torch_xla.sync`."""
    del wait, reset_scope
    step_closures.end_step()


def add_step_closure(
    closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False
) -> None:
    """Run `closure(*args)` when the step ends; in this thread, `run_async` or not."""
    del run_async
    step_closures.add(closure, args)


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Nothing to wait for: every operator has run when it returns."""
    del devices


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Compute some tensors, which are data from then on.

    Raises:
        TensorsRefused: for anything but tensors.
    """
    cuts.sync(tensors, "unlazy")


def optimization_barrier_(tensors: Sequence[torch.Tensor]) -> None:
    """Nothing: operators run one by one, in the program's order."""
    del tensors


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """True if the tensor is on the device."""
    return is_neuron(tensor.device)


def get_xla_supported_devices(
    devkind: str | int | None = None, max_devices: int | None = None
) -> list[str]:
    """The names of this process's devices, at most `max_devices`.

    The number of devices is the first argument of later releases, the second of older releases.
    """
    most_devices = devkind if isinstance(devkind, int) else max_devices
    return [f"{SPELLING}:{core}" for core in range(device_module.device_count())][:most_devices]


def xla_real_devices(devices: Sequence[DeviceLike] | None = None) -> list[str]:
    """The runtime's names of devices."""
    places = get_xla_supported_devices() if devices is None else devices
    return [f"{xla_device_hw(x)}:{torch.device(x or SPELLING).index or 0}" for x in places]


def xla_device_hw(device: DeviceLike) -> str:
    """The hardware of a device: "NEURON", or "CPU" for the host."""
    return "NEURON" if is_neuron(torch.device(device or SPELLING)) else "CPU"


def xla_device_kind(device: DeviceLike = None) -> str:
    """The chip of a device ("trn2"); torch_xla has the runtime's name of it."""
    return device_module.get_device_properties(device).name


def set_replication(device: DeviceLike, devices: Sequence[DeviceLike] | None) -> None:
    """Nothing: a process has one replica, on its device."""
    del device, devices


def get_ordinal(defval: int = 0) -> int:
    """This process's rank in the program."""
    del defval
    return ranks.ordinal()


def get_local_ordinal(defval: int = 0) -> int:
    """This process's rank on its machine."""
    del defval
    return ranks.local_ordinal()


def xrt_world_size(defval: int = 1) -> int:
    """The number of ranks of the program."""
    del defval
    return ranks.world_size()


def is_master_ordinal(local: bool = True) -> bool:
    """True for the first rank of the machine, or of the program if `local` is false."""
    return (ranks.local_ordinal() if local else ranks.ordinal()) == 0


def master_print(*args: Any, fd: Any = None, local: bool = False, flush: bool = False) -> None:
    """Print in the first rank of the program, or of each machine if `local`."""
    if is_master_ordinal(local=local):
        print(*args, file=fd or sys.stdout, flush=flush)


def xla_rendezvous(
    payload: bytes = b"", ordinals: Sequence[int] | None = None, tag: str | None = None
) -> list[bytes]:
    """The payloads of all ranks by ordinal, once all have come."""
    if tag:
        logging.getLogger(__name__).info("Joining rendezvous %r", tag)
    return rendezvous(tag or "", payload, ordinals)


def _maybe_convert_to_cpu(  # pyright: ignore[reportUnusedFunction]  transformers calls it
    data: Any, convert: bool = True
) -> Any:
    """`data` with the host's copy of its tensors; with `convert=False` as it is."""
    return copy_to_host(data) if convert else data


def do_on_ordinals(
    target: Callable[..., Any], data: Any = (), ordinals: int | Collection[int] = (0,)
) -> Any:
    """`target(*data)` on the host's copy of `data` in some ranks, None in the others; all meet."""
    chosen_ordinals = (ordinals,) if isinstance(ordinals, int) else ordinals
    result = target(*copy_to_host(data)) if ranks.ordinal() in chosen_ordinals else None
    rendezvous("torch_xla.core.xla_model.do_on_ordinals")
    return result


def _fetch_gradients(optimizer: Optimizer) -> list[torch.Tensor]:
    """The gradients of an optimizer's parameters; accelerate 1.15 calls it (optimizer.py)."""
    return [
        parameter.grad
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.grad is not None
    ]


def reduce_gradients(optimizer: Optimizer, groups: Groups = None, pin_layout: bool = True) -> None:
    """Replace each gradient by its sum over the group's ranks, divided by the number of all ranks.

    The result is the mean only where one group has all ranks, as in torch_xla.
    """
    rank_lists(groups)  # refuses groups that are none
    count = ranks.world_size()
    if count > 1:
        all_reduce(REDUCE_SUM, _fetch_gradients(optimizer), 1.0 / count, groups, pin_layout)


def all_reduce_bucketized_gradients(
    gradients: Sequence[torch.Tensor],
    scale: float,
    groups: Groups = None,
    pin_layout: bool = True,
    bucket_cap_mb: int = 0,
) -> None:
    """Replace each gradient by its sum over the ranks times `scale`, one collective per gradient.

    `bucket_cap_mb` has no effect.
    """
    del bucket_cap_mb
    all_reduce(REDUCE_SUM, list(gradients), scale, groups, pin_layout)


def optimizer_step(
    optimizer: Optimizer,
    barrier: bool = False,
    optimizer_args: Mapping[str, Any] | None = None,
    groups: Groups = None,
    pin_layout: bool = True,
) -> Any:
    """Reduce the gradients, and return the result of the optimizer's step.

    With `barrier` the program's step ends after it.
    """
    if not hasattr(optimizer, "param_groups"):
        raise CollectiveMisused(
            f"xm.optimizer_step of a {type(optimizer).__name__}; legal: an optimizer",
            fix="xm.optimizer_step(optimizer), and scheduler.step() after it",
            line=program_line(),
        )
    reduce_gradients(optimizer, groups, pin_layout)
    loss: Any = optimizer.step(**(optimizer_args or {}))
    if barrier:
        step_closures.end_step()
    return loss


def broadcast_master_param(model: nn.Module) -> None:
    """Copy the first rank's parameters and buffers to the model of every rank.

    Raises:
        CollectiveMisused: for anything but a model.
    """
    if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        raise CollectiveMisused(
            f"xm.broadcast_master_param of a {type(model).__name__}; legal: a torch.nn.Module",
            fix="pass the model, or xm.collective_broadcast(tensors) for tensors",
            line=program_line(),
        )
    collective_broadcast([*model.parameters(), *model.buffers()])


def save(
    data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False
) -> None:
    """Write a copy of `data` on the host by `torch.save`; no rank waits for another.

    The first rank of each machine writes; with `global_master` only the first rank of the program
    does, and with `master_only=False` every rank does.
    """
    if not master_only or is_master_ordinal(local=not global_master):
        torch.save(copy_to_host(data), file_or_path)


def send_cpu_data_to_device(
    datas: Any,  # codespell:ignore datas
    device: DeviceLike,
    input_sharding: object = None,
) -> Any:
    """Nested data with each tensor of the host on the device; a single tensor becomes a list."""
    del input_sharding
    nested = datas  # codespell:ignore datas
    return copy_to_device(
        [nested] if isinstance(nested, torch.Tensor) else nested, device or SPELLING
    )


def set_rng_state(seed: int, device: DeviceLike = None) -> None:
    """Seed the device, or restore a state from `get_rng_state`."""
    seeds.set(seed, device)


def get_rng_state(device: DeviceLike = None) -> int:
    """The device's state as a number, which each draw and the end of each step moves."""
    return seeds.running_number(device)


@contextmanager
def fork_rng(device: DeviceLike = None, enabled: bool = True) -> Generator[None]:
    """A context that restores the device's state at its end."""
    state = seeds.running_number(device)
    try:
        yield
    finally:
        if enabled:
            seeds.set(state, device)


def get_memory_info(device: DeviceLike = None) -> dict[str, int]:
    """Bytes of HBM in use, their largest number so far, and the bytes of the device."""
    _, total_bytes = device_module.mem_get_info(device)
    return {
        "bytes_used": device_module.memory_allocated(device),
        "bytes_limit": total_bytes,
        "peak_bytes_used": device_module.max_memory_allocated(device),
    }


class RateTracker:
    """Events per second: the mean rate since the start, and a smoothed rate.

    Args:
        smooth_factor: weight of the former rate in the new rate; None is 0.4.
    """

    def __init__(self, smooth_factor: float | None = None) -> None:
        self._smooth_factor = 0.4 if smooth_factor is None else smooth_factor
        self._start_s = self._last_s = time.time()
        self._count = self._last_count = 0.0
        self._rate: float | None = None

    def add(self, count: float) -> None:
        """Count further events."""
        self._count += count

    def rate(self) -> float:
        """The smoothed rate, with the events since the last call."""
        now_s = time.time()
        elapsed_s = now_s - self._last_s
        current_rate = (self._count - self._last_count) / elapsed_s if elapsed_s > 0 else 0.0
        former_rate = current_rate if self._rate is None else self._rate
        self._rate = self._smooth_factor * former_rate + (1 - self._smooth_factor) * current_rate
        self._last_s, self._last_count = now_s, self._count
        return self._rate

    def global_rate(self) -> float:
        """The mean rate since the start."""
        elapsed_s = time.time() - self._start_s
        return self._count / elapsed_s if elapsed_s > 0 else 0.0


__getattr__ = absence_getter("torch_xla.core.xla_model", __name__)
