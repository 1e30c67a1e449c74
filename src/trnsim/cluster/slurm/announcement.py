"""The file with the address of a step's launcher, which the first task writes for the others.

The file lies in the folder of the report, which all nodes share; only its user can read it. The
first task removes it at its end: where the file is left, that task was killed.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trnsim.cluster.slurm.step import SlurmStep
from trnsim.document.values import json_line
from trnsim.errors import BadInput

_POLL_S: Final = 0.1
"""Time between two looks for the announcement."""
_OWNER_FILE_MODE: Final = 0o600
_REFUSAL: Final = "refusal"
_REFUSAL_S: Final = 60.0
"""Time in which a task that starts no ranks looks for the first task, to say so."""


def path_of(folder: Path, step: SlurmStep) -> Path:
    """The file of a step in the folder of its report."""
    return folder / f".step-{step.name}.{step.restart}.json"


def announce(path: Path, launch: dict[str, Any]) -> None:
    """Write the file atomically.

    Raises:
        BadInput: the folder cannot be written.
    """
    draft_path = path.with_suffix(".new")
    try:
        descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json_line(launch))
        draft_path.replace(path)
    except OSError as error:
        raise BadInput(
            f"cannot write {path}: {error.strerror}", fix="name another folder: --report DIR"
        ) from error


def await_announcement(path: Path, step: SlurmStep, wait_s: float) -> dict[str, Any]:
    """The announcement of the first task.

    Raises:
        BadInput: the first task announced nothing in `wait_s` seconds, or that it starts no ranks.
    """
    until_s = time.monotonic() + wait_s
    while True:
        with suppress(OSError, ValueError):
            launch: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            break
        if time.monotonic() > until_s:
            raise BadInput(
                f"task {step.task} on {step.host} has seen nothing of the first task of step "
                f"{step.name}, on {step.hosts[0]}, in {wait_s:g} s: no {path}",
                fix="name a folder that all nodes share: --report DIR",
            )
        time.sleep(_POLL_S)
    if _REFUSAL in launch:
        raise BadInput(
            f"the first task of step {step.name}, on {step.hosts[0]}, starts no ranks: "
            f"{launch[_REFUSAL]}",
            fix="look at its output: srun --label",
        )
    return launch


def refuse(path: Path, step: SlurmStep, reason: str, wait_s: float = _REFUSAL_S) -> None:
    """Tell the other tasks of a step that this task starts no ranks, so that they do not wait.

    Args:
        path: the step's file.
        step: the step, and this task of it.
        reason: why the task starts no ranks.
        wait_s: seconds in which the first task must have announced itself.
    """
    if len(step.hosts) == sum(step.tasks_per_node) == 1:
        return
    with suppress(BadInput, OSError):
        if step.is_first:
            path.parent.mkdir(parents=True, exist_ok=True)
            announce(path, {_REFUSAL: reason})
            return
        launch = await_announcement(path, step, wait_s)
        refusal = f"task {step.task} on {step.host} starts no ranks: {reason}"
        message = json_line({"token": launch["token"], _REFUSAL: refusal})
        with socket.create_connection(
            (launch["host"], launch["port"]), timeout=wait_s
        ) as connection:
            connection.sendall(f"{message.strip()}\n".encode())
