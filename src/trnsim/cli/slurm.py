"""`trnsim slurm`: Neuron devices for Slurm, and the ranks of its steps."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.launch import CoresPerRank, Fault, RanksPerNode, run_to_end
from trnsim.cli.on import On, on_option, one_platform, platforms
from trnsim.cli.options import parser
from trnsim.cli.parsing import ENDS_AT_PROGRAM
from trnsim.cli.report_files import PrintedAnswer, answering
from trnsim.cluster.slurm.announcement import path_of, refuse
from trnsim.cluster.slurm.gres import gres_conf, links, node_types, slurm_conf
from trnsim.cluster.slurm.job import slurm_job
from trnsim.cluster.slurm.step import step_of
from trnsim.cluster.slurm.task import follow
from trnsim.document.answer import Document, MonospaceLines, Section
from trnsim.document.values import picked
from trnsim.errors import BadInput, EmulatorError
from trnsim.files import check_folder, write_together
from trnsim.instance.model import InstanceModel, instance_model
from trnsim.launch.launcher import stderr_line

_PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")
"""File in which an instance of EC2, or of trnsim shell, has its type."""

app = parser(
    help="Declare Neuron devices to Slurm, and run the ranks of its steps.", no_args_is_help=True
)


@app.command()
@answering
def gres(
    on: On = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--node-names",
            help="Names of the nodes as Slurm lists them, once for each type of --on, in its "
            "order.",
            metavar="LIST|trn2-[1-4]",
            show_default="the name of the type",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            "--out",
            help="The folder to write to.",
            metavar="DIR",
            show_default="none: print",
        ),
    ] = None,
) -> PrintedAnswer:
    """Write gres.conf and lines of slurm.conf for nodes that are Neuron instances.

    Slurm gives a job the devices with the most links between them. gres.conf states links so that
    these devices are one of the sets that AWS documents. If jobs of different numbers of devices
    share a node, Slurm can still give a job other devices, which trnsim slurm launch refuses: give
    each number a partition of its own.

    Example: trnsim slurm gres --on trn2.48xlarge --node-names 'trn2-[1-4]' --folder slurm
    """
    instances = [platform.instance for platform in platforms(on)] or [instance_model().name]
    types = node_types([instance_model(name) for name in instances], hosts or ())
    contents = {"gres.conf": gres_conf(types), "slurm-neuron.conf": slurm_conf(types)}
    paths = write_together(folder, contents) if folder else ()
    values = {
        "nodes": [
            {
                **picked(node_type, "instance=model.name hosts devices counts"),
                "links": links(node_type.model.name, node_type.devices),
            }
            for node_type in types
        ],
        "files": contents,
    }
    sections = [Section(name, [MonospaceLines(text)]) for name, text in contents.items()]
    document = Document("Neuron devices for Slurm", values, sections, schema="slurm-gres/1")
    return PrintedAnswer(document, files=paths)


@app.command(context_settings=ENDS_AT_PROGRAM)
def launch(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]..."),
    ] = None,
    on: Annotated[
        list[str] | None,
        on_option("TRNSIM_INSTANCE, else the type that the node names", is_single=True),
    ] = None,
    ranks_per_node: RanksPerNode = 0,
    cores_per_rank: CoresPerRank = 1,
    fault: Fault = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="The folder of the report and of each rank's output, which all nodes share.",
            metavar="DIR",
            show_default="trnsim-slurm-JOB.STEP",
        ),
    ] = None,
) -> None:
    """Run a program as the ranks of a step of Slurm, one process per rank.

    srun starts it on each node. It reads SLURM_* and the devices that Slurm gave the step, and
    sets what torch.distributed and AWS's runtime read: RANK, MASTER_ADDR,
    NEURON_RT_ROOT_COMM_ID, NEURON_RT_VISIBLE_CORES and others. A node with a single task has a
    rank for each core; otherwise each task is a rank. A rank that is lost is named with its node,
    and the step ends.

    Example: srun --ntasks-per-node=1 trnsim slurm launch -- python train.py
    """
    step = step_of(os.environ)
    folder = folder or Path(f"trnsim-slurm-{step.name}")
    try:
        launch_job = slurm_job(
            tuple(command or ()),
            step,
            _model(on),
            folder,
            ranks_per_node=ranks_per_node,
            cores_per_rank=cores_per_rank,
            fault_texts=tuple(fault or ()),
        )
        check_folder(folder)
    except EmulatorError as error:
        refuse(path_of(folder, step), step, error.reason)
        raise
    if not step.is_first:
        raise SystemExit(follow(launch_job, stderr_line))
    try:
        raise SystemExit(run_to_end(launch_job))
    finally:
        with suppress(OSError):
            launch_job.announcement.unlink()


def _model(on: list[str] | None) -> InstanceModel:
    """The model of the instance type of the nodes.

    Raises:
        BadInput: neither --on, TRNSIM_INSTANCE nor the node names one.
    """
    if on:
        return instance_model(one_platform(on).instance)
    if os.environ.get("TRNSIM_INSTANCE"):
        return instance_model()
    product = ""
    with suppress(OSError):
        product = _PRODUCT.read_text(encoding="utf-8").strip()
    try:
        return instance_model(product or "none")
    except BadInput as error:
        raise BadInput(
            f"this node is {product or 'of no named type'}, no instance with Neuron devices",
            fix="start slurmd in an instance, trnsim shell --on trn2.48xlarge -- slurmd -D; or "
            "name it, --on trn2.48xlarge",
        ) from error
