"""A task that is not the first of its step: its ranks, which the first task's launcher watches."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from trnsim.cluster.slurm.announcement import await_announcement
from trnsim.cluster.slurm.job import SlurmJob
from trnsim.device.faults import RESTART_VARIABLE

_CONNECT_TIMEOUT_S: Final = 5.0
_ENDED_BY_LAUNCHER: Final = (0, 128 + signal.SIGTERM, 128 + 9)
"""Statuses of ranks that succeeded, or that the launcher ended because another rank was lost."""


def follow(job: SlurmJob, say: Callable[[str], object]) -> int:
    """Start this task's ranks and wait for their end; returns the task's exit status.

    The first task reports a lost rank, and its status is the step's. So a task whose ranks the
    launcher ended has status 0.

    Raises:
        BadInput: the first task has not announced itself.
    """
    launch = await_announcement(job.announcement, job.step, job.start_s)
    launched_job = replace(job, master_port=int(launch["master_port"]))
    launch["first_core"] = launched_job.cores.start
    environment = launched_job.variables() | {
        RESTART_VARIABLE: str(launch["restart"]),
        "TRNSIM_LAUNCH": json.dumps(launch),
    }
    processes = [
        subprocess.Popen(  # noqa: S603  what was asked for
            command, env=environment | rank_variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        for _, command, rank_variables in launched_job.agents()
    ]  # fmt: skip
    _pass_on_signals(processes)
    statuses = [process.wait() for process in processes]
    if any(statuses) and job.announcement.exists() and not _is_reachable(launch):
        ranks = ", ".join(map(str, launched_job.local_ranks))
        say(
            f"the launcher of rank 0 on {job.hosts[0]} is lost; the ranks here on {job.step.host} "
            f"ended with it: {ranks}"
        )
        return 1
    return max((status for status in statuses if status not in _ENDED_BY_LAUNCHER), default=0)


def _pass_on_signals(processes: list[subprocess.Popen[bytes]]) -> None:
    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        for process in processes:
            process.send_signal(number)  # unless it has ended: its id may be another process's now

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)


def _is_reachable(launch: dict[str, Any]) -> bool:
    """True if the first task's launcher still listens."""
    try:
        with socket.create_connection((launch["host"], launch["port"]), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False
