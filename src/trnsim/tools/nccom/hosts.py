"""The nodes of a benchmark: hosts of MPI, or an allocation of Slurm.

An estimate starts no process on any host. What it can check, it checks: that there are as many
hosts, or nodes of a job, as ``--nnodes``, and no more vCPUs than the instance has.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, MPI Execution, Slurm Execution,
Additional Flags.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from trnsim import files
from trnsim.errors import BadInput
from trnsim.formatting import counted

ALLOCATED: Final = "alloc"
"""``--slurm-job-id`` of a new allocation."""
DEFAULT_SETUP: Final = "default"
"""``--slurm-setup-script`` of AWS's own script."""
ROOT_VARIABLE: Final = "NEURON_RT_ROOT_COMM_ID"
DEFAULT_PORT: Final = 60006
MOST_PORT: Final = 65535
_ROOT: Final = re.compile(r"[^\s:]+:(\d{1,5})|\[[0-9a-fA-F:]+\]:(\d{1,5})")
_TIMEOUT_S: Final = 30
_JOB: Final = re.compile(r"\d{1,12}([_+]\d{1,9})?")
_FIELD: Final = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """The options of nodes, as the command line states them.

    Attributes:
        nnodes: number of instances.
        hosts_file: file of hosts, one per line.
        slurm_mode: whether srun would run the benchmark.
        slurm_vcpus_per_node: vCPUs of each node; None for the fewest that a node has.
        slurm_setup_script: script for each node, or "default"; "" for none.
        slurm_use_head_node_neuron_bench: whether the head node's binary is copied.
    """

    nnodes: int = 1
    hosts: tuple[str, ...] = ()
    hosts_file: Path | None = None
    slurm_mode: bool = False
    slurm_vcpus_per_node: int | None = None
    slurm_setup_script: str = ""
    slurm_job_id: str = ALLOCATED
    slurm_use_head_node_neuron_bench: bool = False


class JobNodes(NamedTuple):
    """The nodes of a job of Slurm.

    Attributes:
        names: names of the nodes, as Slurm lists them.
        state: state of the job; "" inside the job, whose variables do not state it.
    """

    nodes: int
    names: str
    state: str = ""


def node_notes(options: NodeOptions, vcpus: int) -> list[str]:
    """Notes about the nodes, a line each.

    Raises:
        BadInput: options that exclude each other, or another number of nodes than ``--nnodes``.
    """
    if options.slurm_mode:
        return _slurm_notes(options, vcpus)
    slurm_options = {
        "--slurm-vcpus-per-node": options.slurm_vcpus_per_node is not None,
        "--slurm-setup-script": bool(options.slurm_setup_script),
        "--slurm-job-id": options.slurm_job_id != ALLOCATED,
        "--slurm-use-head-node-neuron-bench": options.slurm_use_head_node_neuron_bench,
    }
    name = next((name for name, is_stated in slurm_options.items() if is_stated), "")
    if name:
        raise BadInput(f"{name}; legal: with --slurm-mode", fix="add --slurm-mode")
    return _mpi_notes(options)


def _mpi_notes(options: NodeOptions) -> list[str]:
    hosts, origin = _hosts(options)
    if not hosts:
        if options.nnodes == 1:
            return []
        host_options = "--hosts, --hosts-file, ~/hosts or --slurm-mode"
        return [
            f"--nnodes {options.nnodes}: AWS's tool needs {host_options}; the estimate needs none"
        ]
    if len(hosts) != options.nnodes:
        raise BadInput(
            f"{origin} names {len(hosts)} hosts with --nnodes {options.nnodes}; legal: as many",
            fix=f"--nnodes {len(hosts)}, or name every host once",
        )
    repeated_hosts = [host for host in hosts if hosts.count(host) > 1]
    if repeated_hosts:
        raise BadInput(
            f"{origin} names {repeated_hosts[0]!r} twice; legal: once", fix="leave one out"
        )
    note = _root_note()
    return [note] if note else []


def _hosts(options: NodeOptions) -> tuple[list[str], str]:
    """The hosts, and the option or file that names them: --hosts, --hosts-file, else ~/hosts."""
    if options.hosts and options.hosts_file is not None:
        raise BadInput("--hosts and --hosts-file; legal: one of them", fix="leave one out")
    if options.hosts:
        if not all(map(str.strip, options.hosts)):
            raise BadInput("--hosts names a host ''; legal: names or addresses")
        return list(options.hosts), "--hosts"
    path = options.hosts_file
    if path is None:
        with suppress(RuntimeError):  # of a user without a home, as in a container
            path = Path.home() / "hosts"
        if path is None or options.nnodes == 1 or not path.is_file():
            return [], ""
    lines = (line.partition("#")[0].strip() for line in files.read_text(path).splitlines())
    hosts = [line for line in lines if line]
    for number, host in enumerate(hosts, 1):
        if len(host.split()) > 1:
            raise BadInput(f"{path}: host {number} is {host!r}; legal: one host a line")
    if not hosts:
        raise BadInput(f"{path} names no host; legal: one a line", fix="name --nnodes hosts")
    return hosts, str(path)


def _root_note() -> str:
    """The note that NEURON_RT_ROOT_COMM_ID is not set; "" if it is set.

    Raises:
        BadInput: the variable has another value than HOST:PORT.
    """
    root = os.environ.get(ROOT_VARIABLE, "")
    if not root:
        return (
            f"{ROOT_VARIABLE} is not set: AWS's tool needs the address of the first host and a "
            "free port there; the estimate does not"
        )
    match = _ROOT.fullmatch(root)
    port = int(match[1] or match[2]) if match else 0
    if not 0 < port <= MOST_PORT:
        raise BadInput(
            f"{ROOT_VARIABLE}={root!r}; legal: HOST:PORT, with a port up to {MOST_PORT}",
            fix=f"for example {ROOT_VARIABLE}=10.1.4.145:45654",
            source="nccom-test.rst, MPI Execution",
        )
    return ""


def _slurm_notes(options: NodeOptions, vcpus: int) -> list[str]:
    if options.hosts or options.hosts_file is not None:
        raise BadInput("--slurm-mode and hosts of MPI; legal: one of them", fix="leave one out")
    count = options.slurm_vcpus_per_node
    if count is not None and count > vcpus:
        raise BadInput(
            f"--slurm-vcpus-per-node {count}; legal: up to {vcpus}, those of the instance"
        )
    script = options.slurm_setup_script
    if script not in ("", DEFAULT_SETUP):
        files.check_readable(script)
    notes = [f"--slurm-setup-script {script}: not run"] if script else []
    if options.slurm_job_id == ALLOCATED:
        nodes = counted(options.nnodes, "node")
        note = f"AWS's tool would allocate {nodes}; the estimate allocates none"
        return [f"--slurm-mode: {note}", *notes]
    job = job_nodes(options.slurm_job_id)
    if job.nodes < options.nnodes:
        raise BadInput(
            f"job {options.slurm_job_id} has {counted(job.nodes, 'node')} ({job.names}) with "
            f"--nnodes {options.nnodes}; legal: at most as many as the job has",
            fix=f"--nnodes {job.nodes}, or a larger allocation",
        )
    if job.state not in ("", "RUNNING"):
        raise BadInput(
            f"job {options.slurm_job_id} is {job.state}; legal: a running one",
            fix="allocate nodes with salloc, or leave --slurm-job-id out",
        )
    note = f"job {options.slurm_job_id} has {counted(job.nodes, 'node')}: {job.names}"
    return [f"--slurm-job-id: {note}; nothing runs on them", *notes]


def job_nodes(job: str) -> JobNodes:
    """The nodes of a job: from Slurm's variables inside it, else from scontrol.

    Raises:
        BadInput: `job` is no number of a job, or Slurm does not know it or is not installed.
    """
    if not _JOB.fullmatch(job):
        raise BadInput(
            f"--slurm-job-id {job!r}; legal: {ALLOCATED}, or the number of a job",
            fix="squeue lists the jobs",
        )
    own_job = os.environ.get("SLURM_JOB_ID", "")
    count = os.environ.get("SLURM_JOB_NUM_NODES", "")
    if own_job == job and count.isascii() and count.isdigit():
        return JobNodes(int(count), os.environ.get("SLURM_JOB_NODELIST", ""))
    return _scontrol_nodes(job)


def _scontrol_nodes(job: str) -> JobNodes:
    """The nodes of a Slurm job, as `scontrol show` prints them.

    Raises:
        BadInput: scontrol is not installed, or does not know the job.
    """
    program = shutil.which("scontrol")
    if program is None:
        raise BadInput(
            f"--slurm-job-id {job}: there is no scontrol on PATH to ask for its nodes",
            fix="run this on the cluster's head node, or inside the job, or leave the option out",
        )
    command = [program, "--oneliner", "show", "job", job]
    try:
        completed = subprocess.run(  # noqa: S603  Slurm's own program, and a checked number
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"--slurm-job-id {job}: scontrol does not answer: {error}") from error
    fields = dict(_FIELD.findall(completed.stdout))
    count = fields.get("NumNodes", "").partition("-")[0]
    if completed.returncode or not count.isdigit():
        reason = " ".join((completed.stderr or completed.stdout).split())
        raise BadInput(
            f"--slurm-job-id {job}: scontrol does not know its nodes: {reason}; legal: a job of "
            "this cluster",
            fix="squeue lists the jobs",
        )
    return JobNodes(int(count), fields.get("NodeList", ""), fields.get("JobState", ""))
