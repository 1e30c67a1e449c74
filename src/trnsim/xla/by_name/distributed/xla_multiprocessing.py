"""`torch_xla.distributed.xla_multiprocessing`, which programs call `xmp`: a process for each core.

Source: torch_xla 2.9.0, distributed/xla_multiprocessing.py, _internal/pjrt.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from torch import multiprocessing, nn

from trnsim.device import device_core
from trnsim.device.loopback import LOOPBACK, free_port
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.instance.cores import VISIBLE
from trnsim.xla import ranks
from trnsim.xla.absent_names import absence_getter

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


class ProcessesRefused(BadInput, ValueError):
    """Processes that cannot be started."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """`fn(index, *args)` in NEURONCORE_NUM_DEVICES processes; in this process if there is one.

    Raises:
        ProcessesRefused: for `nprocs` other than None and 1, and for an `fn` that is no function.
        BadInput: for a number of cores that is not the number of processes, and for a variable
            that is no number of processes.
    """
    if nprocs not in (None, 1):
        raise ProcessesRefused(
            f"Unsupported nprocs ({nprocs}); legal: None and 1, by {ranks.PROCESSES}",
            fix=f"leave nprocs out; {ranks.PROCESSES} in the environment is their number",
            line=program_line(),
        )
    if not callable(fn):
        raise ProcessesRefused(
            f"xmp.spawn of {fn!r}; legal: a function of the process's index",
            fix="xmp.spawn(main, args=(settings,)), for def main(index, settings)",
            line=program_line(),
        )
    count = nprocs or ranks.process_count(os.environ)
    if count == 1:
        return fn(0, *args)
    ranks.own_cores(os.environ, count - 1, count)  # refuses another number of cores
    process_arguments = (fn, args, count, free_port())
    start: Any = multiprocessing
    return start.start_processes(_run_rank, process_arguments, count, join, daemon, start_method)


def _run_rank(
    index: int, fn: Callable[..., Any], args: tuple[Any, ...], count: int, port: int
) -> None:
    """`fn` in a process of its own, with the variables that torchrun would set."""
    number, world = str(index), str(count)
    os.environ[VISIBLE] = ranks.own_cores(os.environ, index, count)
    os.environ.update(
        MASTER_ADDR=LOOPBACK, MASTER_PORT=str(port), RANK=number, LOCAL_RANK=number,
        WORLD_SIZE=world, LOCAL_WORLD_SIZE=world, NEURON_PJRT_PROCESS_INDEX=number,
        NEURON_PJRT_PROCESSES_NUM_DEVICES=",".join(["1"] * count),
    )  # fmt: skip
    device_core.visible_cores.cache_clear()
    fn(index, *args)
    ranks.leave()


class MpModelWrapper:
    """A model that forked processes share on the host; one process at a time moves it."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._lock = multiprocessing.Lock()  # pyright: ignore[reportPrivateImportUsage]

    def to(self, device: Any) -> nn.Module:
        """The model on a device."""
        with self._lock:
            return self._model.to(device)


class MpSerialExecutor:
    """A function that one process runs at a time."""

    def __init__(self) -> None:
        self._lock = multiprocessing.Lock()  # pyright: ignore[reportPrivateImportUsage]

    def run(self, fn: Callable[[], Any]) -> Any:
        """The result of `fn`."""
        with self._lock:
            return fn()


__getattr__ = absence_getter("torch_xla.distributed.xla_multiprocessing", __name__)
