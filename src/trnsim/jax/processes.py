"""The processes of a program: one, or those that `jax.distributed.initialize` has joined.

Each process has a private client, which exchanges devices and arrays with the other private clients
(XLA's collectives on gloo). They meet through a service of their own, which process 0 starts, and
whose address it puts into JAX's store. In JAX's store itself, their keys would collide with the
keys of JAX's CPU client.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from trnsim.device.device_core import visible_cores
from trnsim.errors import BadInput
from trnsim.instance.cores import (
    PROCESS_CORES,
    PROCESS_INDEX,
    PROCESS_SOURCE,
    process_cores,
    process_index,
)
from trnsim.jax import private


@dataclass(frozen=True)
class Processes:
    """The number of this process, and of all processes of its program.

    Attributes:
        index: the number of this process.
    """

    index: int
    count: int


@cache
def processes() -> Processes:
    """The processes of this program, fixed when its first device is asked for.

    Raises:
        BadInput: where AWS's variables contradict `jax.distributed.initialize`.
    """
    group = Processes(*private.joined_processes())
    count = len(process_cores())
    setting = f"{PROCESS_CORES}={os.environ.get(PROCESS_CORES)}"
    if count > 1 and group.count == 1:
        raise BadInput(
            f"{setting}: {count} processes, and this one has joined no others",
            fix="jax.distributed.initialize(address, num_processes, process_id), before all else",
            source=PROCESS_SOURCE,
        )
    if count not in (0, group.count):
        raise BadInput(
            f"{setting}: {count} processes; jax.distributed.initialize has joined {group.count}",
            fix="a number of cores for each process",
            source=PROCESS_SOURCE,
        )
    if count and process_index() != group.index:
        raise BadInput(
            f"{PROCESS_INDEX}={process_index()}; jax.distributed.initialize was told "
            f"process_id={group.index}",
            fix="give both the same number",
            source=PROCESS_SOURCE,
        )
    return group


@cache
def cores() -> tuple[int, ...]:
    """The numbers of the NeuronCores that are devices of this process.

    Raises:
        BadInput: for more cores than the process may use.
    """
    process, visible, shares = processes(), visible_cores(), process_cores()
    if not shares:
        return visible
    count = shares[process.index]
    if count > len(visible):
        raise BadInput(
            f"{PROCESS_CORES}={os.environ[PROCESS_CORES]}: {count} cores for process "
            f"{process.index}, of {len(visible)} that it may use",
            fix="name as many in NEURON_RT_VISIBLE_CORES",
            source=PROCESS_SOURCE,
        )
    return visible[:count]


_meetings: Final[list[Any]] = []


def host_client() -> Any:
    """XLA's CPU client with a device for each core of this process and of the other processes."""
    group = processes()
    if group.count > 1:
        _meetings.append(private.Meeting(group.index, group.count))
    return private.cpu_client(len(cores()), *_meetings)


def leave_processes() -> None:
    """Leave the other processes when all of them leave."""
    while _meetings:
        _meetings.pop().end()
