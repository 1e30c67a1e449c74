"""``trnsim nccom-test``: the time of collectives on the emulated instance, size by size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.cli.quantity_options import whole
from trnsim.cli.terminal import echo
from trnsim.files import write
from trnsim.instance.model import instance_model
from trnsim.tools import nccom_test as tool

app = parser()


@app.command()
def nccom_test(
    operation: Annotated[
        str, typer.Argument(help=f"One of {', '.join(tool.OPERATIONS)}.", metavar="OPERATION")
    ],
    nworkers: Annotated[int, whole("Ranks on all instances.", "--nworkers", "-r")],
    nnodes: Annotated[int, whole("Instances.", "--nnodes", "-N")] = 1,
    minbytes: Annotated[
        str, typer.Option("--minbytes", "-b", help="The first size.", metavar="SIZE")
    ] = tool.DEFAULT_SIZE,
    maxbytes: Annotated[
        str,
        typer.Option(
            "--maxbytes", "-e", help="The last size; without, the first alone.", metavar="SIZE"
        ),
    ] = "",
    stepfactor: Annotated[
        int, whole("The factor from one size to the next.", "--stepfactor", "-f")
    ] = 2,
    datatype: Annotated[
        str,
        typer.Option("--datatype", "-d", help=f"One of {', '.join(tool.DTYPES)}.", metavar="DTYPE"),
    ] = "uint8",
    iters: Annotated[
        int, whole("Iterations; an estimate is the same in each.", "--iters", "-n")
    ] = 20,
    warmup_iters: Annotated[
        int, whole("Iterations before them, as above.", "--warmup_iters", "-w")
    ] = 5,
    show_algorithm: Annotated[
        bool, typer.Option("--show-algorithm", help="Name the algorithm of each size.")
    ] = False,
    report_to_json_file: Annotated[
        Path | None,
        typer.Option(
            "--report-to-json-file", help="Write the rows with P10 and P90.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Estimate collectives of ranks on the emulated instance, size by size, as AWS's tool does.

    Each is a program of its own that the host starts; `trnsim plan collective` has the time inside
    a program too. Sizes are in powers of 1024. The instance is TRNSIM_INSTANCE, else the smallest
    of the target chip. In `trnsim shell` this is `nccom-test`.

    Example: trnsim nccom-test allr --nworkers 32 --minbytes 1KB --maxbytes 1MB --stepfactor 8
    """
    del iters, warmup_iters
    model = instance_model()
    sizes = tool.sizes(minbytes, maxbytes, stepfactor)
    where = model.name, model.lnc, nnodes
    rows = tool.size_times(operation, sizes, datatype, nworkers, where)
    echo(f"emulated by trnsim on {nnodes} x {model.name}: {tool.floor_text(rows)}", is_error=True)
    echo(tool.table(rows, has_algorithm=show_algorithm))
    if report_to_json_file is not None:
        write(report_to_json_file, tool.as_json(rows) + "\n")
