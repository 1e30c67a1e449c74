"""The Neuron devices of a step on each of its nodes, as scontrol tells them.

Slurm sets no variable for a resource that it has no plugin for (gres.conf(5), CountOnly), so the
devices of a job are read from `scontrol show job --details`: ``GRES=neuron:4(IDX:0-3)``. For a step
scontrol prints only the number of its devices.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

from trnsim.cluster.slurm.hostlist import hosts, numbers
from trnsim.cluster.slurm.step import SlurmStep
from trnsim.errors import BadInput

RESOURCE: Final = "neuron"
"""Name of the resource in GresTypes and --gres."""
_SCONTROL_TIMEOUT_S: Final = 60.0
_NAMED_CORES: Final = "NEURON_RT_VISIBLE_CORES=0-7"
_NODES: Final = re.compile(r"^\s+Nodes=(\S+) .*\bGRES=(\S*)", re.MULTILINE)
_NUMBERS: Final = re.compile(rf"(?:^|,)(?:gres:)?{RESOURCE}(?::[^:(),]+)?:\d+\(IDX:([\d,-]+)\)")
_DEVICE_COUNT: Final = re.compile(rf"(?:^|,)(?:gres:)?{RESOURCE}(?::[^:(),]+)?:\d+\((?!IDX:\d)")
_NODE_RESOURCE: Final = re.compile(rf"^\s+Gres=(?:\S*,)?{RESOURCE}[:(,\s]", re.MULTILINE)
_STEP_RESOURCE: Final = re.compile(
    rf"Tres(PerNode|PerTask)=(?:\S*,)?(?:gres[:/])?{RESOURCE}(?::[^:,=\s\d][^:,=\s]*)?(?:[:=](\d+))?(?=[,\s])"
)

Scontrol = Callable[[Sequence[str]], str]
"""A function that returns what scontrol prints for its arguments."""


def scontrol(arguments: Sequence[str]) -> str:
    """The output of Slurm's scontrol.

    Raises:
        BadInput: scontrol is not installed, or fails.
    """
    command = f"scontrol {' '.join(arguments)}"
    program = shutil.which("scontrol")
    if program is None:
        raise _no_answer(command, "there is no scontrol on PATH")
    try:
        answer = subprocess.run(  # noqa: S603  Slurm's own program
            [program, *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # names and comments of jobs may be of any bytes
            timeout=_SCONTROL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_answer(command, str(error)) from error
    if answer.returncode:
        raise _no_answer(command, (answer.stderr or answer.stdout).strip())
    return answer.stdout


def _no_answer(command: str, reason: str) -> BadInput:
    return BadInput(
        f"{command}: {reason}; without it the devices of this job are not known",
        fix=f"put Slurm's programs on PATH, or name the cores: {_NAMED_CORES}",
    )


def job_devices(step: SlurmStep, run: Scontrol = scontrol) -> dict[str, tuple[int, ...]]:
    """The devices of the step's job on each host; () on hosts that declare none to Slurm.

    Raises:
        BadInput: Slurm does not number the devices, or the job requested no devices of a node.
    """
    record = _record(run(["show", "job", "--details", str(step.job)]), step.job)
    devices: dict[str, tuple[int, ...]] = {}
    for names, resources in _NODES.findall(record):
        numbered = _NUMBERS.search(resources)
        if numbered is None and _DEVICE_COUNT.search(resources):
            raise BadInput(
                f"job {step.job} has {resources} on {names}: Slurm counts the devices and does not "
                "number them",
                fix=f"declare {RESOURCE} with File= in gres.conf: trnsim slurm gres",
                source="gres.conf(5), File",
            )
        for host in hosts(names, "Nodes"):
            devices[host] = numbers(numbered[1]) if numbered else ()
    missing = [host for host in step.hosts if host not in devices]
    if missing:
        raise BadInput(
            f"scontrol show job --details {step.job} has no line on {missing[0]}",
            fix=f"name the cores: {_NAMED_CORES}",
        )
    for host in step.hosts:
        if not devices[host] and _NODE_RESOURCE.search(run(["show", "node", host])):
            raise BadInput(
                f"job {step.job} requests none of the Neuron devices of {host}",
                fix=f"sbatch --gres={RESOURCE}:16",
                source="sbatch(1), --gres",
            )
    return {host: devices[host] for host in step.hosts}


def _record(text: str, job: int) -> str:
    """The record of `job` in the text; scontrol prints all jobs of an array for its last task."""
    records = re.split(r"\n\s*\n(?=JobId=)", text)
    job_records = (record for record in records if record.startswith(f"JobId={job} "))
    return next(job_records, text)


def step_device_count(step: SlurmStep, run: Scontrol = scontrol) -> int | None:
    """Number of devices of the step on its node; None where the step requests none of its own."""
    match = _STEP_RESOURCE.search(run(["show", "step", step.name]) + "\n")
    if match is None:
        return None
    number = int(match[2] or 1)
    return number if match[1] == "PerNode" else number * step.tasks_per_node[step.node]
