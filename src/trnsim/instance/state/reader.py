"""The processes on the instance, from the state files of this user.

A process that was killed leaves its file: no process has its number and start time, so the reader
leaves it out and removes it. A file that is no record (cut in half, of another version) is skipped.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from trnsim.arch import INSTANCE_VARIABLE
from trnsim.errors import BadInput
from trnsim.instance.model import InstanceModel, instance_model
from trnsim.instance.state.containers import container_records
from trnsim.instance.state.folder import listen
from trnsim.instance.state.identity import is_alive
from trnsim.instance.state.record import ProcessRecord, from_json

_FILE_NAME_PATTERN: Final = re.compile(r"(\d+)-(\w+)\.json")
_STALE_S: Final = 60.0
"""Minimum age of a temporary file that a killed writer left."""
LISTEN_S: Final = 10.0
"""Time for which processes go on writing after a read, unless the reader requests more."""


def read_all(folder: Path, listen_s: float = LISTEN_S) -> list[ProcessRecord]:
    """The records of all live processes, by pid; they are requested to go on writing.

    Processes in containers to which a device plugin has given devices are among them.

    Args:
        folder: the folder of the state, from `folder.state_folder`.
        listen_s: time for which they are to write; 0 for no request.

    Raises:
        BadInput: the folder cannot be written to.
    """
    if listen_s > 0:
        listen(folder, listen_s)
    _sweep(folder)
    records = []
    for path in folder.glob("*.json"):
        name = _FILE_NAME_PATTERN.fullmatch(path.name)
        if name is None:
            continue
        pid, start = int(name[1]), name[2]
        if not is_alive(pid, start):
            with suppress(OSError):
                path.unlink(missing_ok=True)
            continue
        record = _read_record(path)
        if record is not None and (record.pid, record.start_time) == (pid, start):
            records.append(record)
    records += container_records(folder)
    return sorted(records, key=lambda record: record.pid)


def _sweep(folder: Path) -> None:
    """Remove files of writers that were killed in the middle of a write."""
    for path in folder.glob(".trnsim-*.tmp"):
        with suppress(OSError):
            if abs(time.time() - path.stat().st_mtime) > _STALE_S:
                path.unlink()


def _read_record(path: Path) -> ProcessRecord | None:
    try:
        # Opening a pipe of this name would block.
        return from_json(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError, RecursionError):  # what JSON and UTF-8 raise are ValueErrors
        return None


def instance_of(records: list[ProcessRecord]) -> InstanceModel:
    """The instance that tools show: TRNSIM_INSTANCE, else the largest of a running process.

    If none runs, it is the smallest of the target chip.

    Raises:
        BadInput: TRNSIM_INSTANCE or NEURON_LOGICAL_NC_CONFIG is not legal.
    """
    default = instance_model()
    if os.environ.get(INSTANCE_VARIABLE):
        return default
    models = [default]
    for record in records:
        with suppress(BadInput):  # of a version with another catalogue
            models.append(instance_model(record.instance, record.lnc))
    return max(models, key=lambda model: model.cores)
