"""The devices of a job that one of its steps takes, if the job has more than the step needs.

Slurm counts the devices of a step, and does not say which they are. So the first task of a step on
a node takes a set that no other step of the job has: a file for each device is locked for as long
as the task lives, however it ends. The other tasks of the step read which set it took.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trnsim.cluster.slurm.hostlist import numbers
from trnsim.cluster.slurm.step import SlurmStep
from trnsim.errors import BadInput
from trnsim.files import write
from trnsim.formatting import counted
from trnsim.instance import device_sets

_MAX_WAIT_S: Final = 30.0
"""Longest wait for the first task of a node."""
_POLL_S: Final = 0.05
"""Time between two looks for the devices that the first task took."""
_OWNER_FOLDER_MODE: Final = 0o700
_OWNER_FILE_MODE: Final = 0o600
_lock_files: Final[list[int]] = []
"""Open files whose locks this process holds until it ends."""


def claimed_devices(
    step: SlurmStep,
    instance: str,
    count: int,
    devices: tuple[int, ...],
    lock_root: Path | None = None,
    wait_s: float = _MAX_WAIT_S,
) -> tuple[int, ...]:
    """A set of `count` of the job's devices for this step on its node.

    Args:
        step: the step, and a task of it.
        instance: the node's instance type.
        count: devices that the step has.
        devices: devices that its job has on this node.
        lock_root: folder for locks; the machine's folder for temporary files.
        wait_s: seconds that other tasks wait for the first task of their node.

    Raises:
        BadInput: no such set is free, or the first task of the node took none.
    """
    folder = _folder(step, lock_root)
    claim_file = folder / f"step-{step.step}"
    if step.local_task:
        return _read_claim(claim_file, step, wait_s)
    choice_lock = _lock(folder / "choosing", is_waiting=True)
    locks = {device: _lock(folder / f"device-{device}") for device in devices}
    free_devices = [device for device, lock in locks.items() if lock is not None]
    chosen_devices = device_sets.choose(instance, count, free_devices) or ()
    for device, lock in [*locks.items(), (None, choice_lock)]:
        if lock is not None and device in chosen_devices:
            _lock_files.append(lock)
        elif lock is not None:
            os.close(lock)
    if not chosen_devices:
        raise BadInput(
            f"step {step.name} has {counted(count, 'device')} on {step.host}; no legal set of as "
            "many is among the free ones of its job: "
            f"{', '.join(map(str, free_devices)) or 'none'}",
            fix="let each step request a number of devices that divides those of the job",
            source=device_sets.rule(instance).provenance.source,
        )
    write(claim_file, ",".join(map(str, chosen_devices)))
    return chosen_devices


def _folder(step: SlurmStep, lock_root: Path | None) -> Path:
    """The folder of the job's locks on this node, which only its user can use.

    Raises:
        BadInput: the folder cannot be made, or is another user's.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = f"trnsim-slurm-{user}-{step.job}.{step.restart}-{step.host}"
    folder = (lock_root or Path(tempfile.gettempdir())) / name
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=_OWNER_FOLDER_MODE)
        owner = folder.lstat().st_uid
    except OSError as error:
        raise BadInput(
            f"cannot make the folder {folder}: {error.strerror}", fix="set TMPDIR to another folder"
        ) from error
    if folder.is_symlink() or owner != user:
        raise BadInput(f"{folder} is a link or another user's", fix="set TMPDIR to another folder")
    return folder


def _read_claim(claim_file: Path, step: SlurmStep, wait_s: float) -> tuple[int, ...]:
    """The set that the first task of this node took.

    Raises:
        BadInput: the first task took none in `wait_s` seconds.
    """
    until_s = time.monotonic() + wait_s
    while True:
        with suppress(OSError, ValueError):
            return numbers(claim_file.read_text(encoding="utf-8"))
        if time.monotonic() > until_s:
            raise BadInput(
                f"the first task of step {step.name} on {step.host} has taken no devices in "
                f"{wait_s:g} s",
                fix="look at the output of that task: srun --label",
            )
        time.sleep(_POLL_S)


def _lock(path: Path, *, is_waiting: bool = False) -> int | None:
    """The descriptor of a file that this process has locked; None if another process has."""
    fcntl: Any = import_module("fcntl")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_waiting else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
