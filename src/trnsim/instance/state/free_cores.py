"""Cores that no process uses, for a process that needs a number of them.

AWS's runtime selects free cores where NEURON_RT_NUM_CORES counts them; source: aws-neuron-sdk
neuron-runtime/guides/configuration-guide.rst, Using NEURON_RT_NUM_CORES.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trnsim.instance.model import InstanceModel
from trnsim.instance.state.record import ProcessRecord

_LONGEST_WAIT_S: Final = 2.0
"""Time for which a process waits for another one that is choosing."""
_RETRY_S: Final = 0.01
"""Time between two attempts to lock the folder."""


def free_cores(
    records: Iterable[ProcessRecord], number: int, instance: InstanceModel
) -> tuple[int, ...] | None:
    """The first `number` cores in a row that no process uses; None where there are none.

    Args:
        records: records of the running processes, on any instance.
        number: number of cores that are needed.
        instance: the instance.
    """
    records_here = (
        record
        for record in records
        if (record.instance, record.lnc) == (instance.name, instance.lnc)
    )
    used_cores = {core for record in records_here for core in record.cores}
    for first in range(instance.cores - number + 1):
        candidates = range(first, first + number)
        if used_cores.isdisjoint(candidates):
            return tuple(candidates)
    return None


@contextmanager
def core_choice(folder: Path) -> Generator[None]:
    """Context of a process's choice of cores, one process at a time; others wait up to 2 s.

    Systems without flock(2), such as Windows, do without.
    """
    if sys.platform == "win32":
        yield
        return
    from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415  not on Windows

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until_s = time.monotonic() + _LONGEST_WAIT_S
        while time.monotonic() < until_s:
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
                break
            except OSError:
                time.sleep(_RETRY_S)
        yield
    finally:
        os.close(descriptor)
