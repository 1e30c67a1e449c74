"""`trnsim launch`: a program's ranks as processes, and one report of their world."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim import files
from trnsim.cli.error_text import message
from trnsim.cli.on import on_option, one_platform
from trnsim.cli.options import parser
from trnsim.cli.parsing import ENDS_AT_PROGRAM
from trnsim.cli.quantity_options import whole
from trnsim.cli.terminal import complain, echo, width
from trnsim.document.text import text
from trnsim.errors import BadInput
from trnsim.launch import launcher, report
from trnsim.launch.job import LaunchJob, job

_DEFAULT_FOLDER: Final = Path("trnsim-launch")
_RANK_FILE: Final = re.compile(r"(?:rank|node)-\d+\.(?:log|json)")
"""Names of the files that a launch writes into its folders of logs and of figures."""

app = parser()


Fault = Annotated[
    list[str] | None,
    typer.Option(
        help="Inject a fault: rank=3,step=5 (killed), hbm-ecc=rank:3,step=5 (or hang, dma, "
        "thermal), or link=NAME with factor=0.5 (0, or no factor: dead).",
        metavar="FAULT",
    ),
]
RanksPerNode = Annotated[
    int,
    whole(
        "Ranks on each instance; default: as many as its logical cores have room for.",
        default=False,
        minimum=0,
    ),
]
CoresPerRank = Annotated[
    int,
    whole(
        "Logical cores of each rank, the first of which is its device 0: 4 puts a rank on each "
        "device of a trn2 instance.",
        minimum=1,
    ),
]


@app.command(context_settings=ENDS_AT_PROGRAM)
def launch(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]..."),
    ] = None,
    on: Annotated[list[str] | None, on_option("required", "--instance", is_single=True)] = None,
    nodes: Annotated[int, whole("Number of instances.", minimum=1)] = 1,
    ranks_per_node: RanksPerNode = 0,
    cores_per_rank: CoresPerRank = 1,
    fault: Fault = None,
    max_restarts: Annotated[
        int, whole("Times that all ranks are started again after one was lost.", minimum=0)
    ] = 0,
    folder: Annotated[
        Path,
        typer.Option(
            "--report",
            help="The folder of the report, with the output of each rank in logs.",
            metavar="DIR",
        ),
    ] = _DEFAULT_FOLDER,
) -> None:
    """Run a program as ranks of emulated instances, one process per rank.

    Each process has the variables that torchrun sets, AWS's NEURON_RT_VISIBLE_CORES and
    NEURON_PJRT_*, and its logical cores. Output of rank 0 is shown. A rank that is lost is named,
    and the others end with it. The report has the time of each rank's last step, and the
    collectives with the links that they used.

    Example: trnsim launch --on trn2.48xlarge --nodes 2 --ranks-per-node 4 -- python train.py
    """
    launch_job = job(
        tuple(command or ()),
        one_platform(on).instance,
        folder,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        cores_per_rank=cores_per_rank,
        fault_texts=tuple(fault or ()),
        max_restarts=max_restarts,
    )
    raise SystemExit(run_to_end(launch_job))


def run_to_end(launch_job: LaunchJob) -> int:
    """Run a job, print and write its report; returns the exit status."""
    _prepare(launch_job)
    echo(report.title(launch_job.fabric))
    job_end = launcher.launch(launch_job, launcher.stderr_line, _show)
    write_error = _report(launch_job, job_end)
    if write_error is not None:
        complain(message(write_error))
    return job_end.status or (2 if write_error else 0)


def _prepare(launch_job: LaunchJob) -> None:
    """Make the folders, and remove the files that an earlier launch wrote there.

    Raises:
        BadInput: the folders cannot be written, or the disk is full.
    """
    files.check_folder(launch_job.folder)
    for folder in (launch_job.logs, launch_job.figures):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in folder.iterdir():
                if _RANK_FILE.fullmatch(file.name):
                    file.unlink()
        except OSError as error:
            raise BadInput(
                f"cannot write to the folder {folder}: {error.strerror}", fix="name another folder"
            ) from error
    files.write(launch_job.logs / ".room", " " * 4096)  # a full disk is refused before ranks start
    (launch_job.logs / ".room").unlink()


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _report(launch_job: LaunchJob, job_end: launcher.JobEnd) -> BadInput | None:
    """Print and write the report; returns the error if it could not be written."""
    world = report.job_world(launch_job, job_end)
    error = report.write_or_error(world, launch_job.folder)
    echo(f"\n{text(report.world_document(world), width())}")
    if error is None:
        echo(f"  report  {launch_job.folder / 'world.html'}\n  logs    {launch_job.logs}")
    return error
