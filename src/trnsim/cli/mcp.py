"""``trnsim mcp``: the commands as tools of assistants that write kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim.api.bounds import Bounds
from trnsim.api.server import server
from trnsim.cli.options import parser
from trnsim.cli.quantity_options import number, whole

app = parser()


@app.command()
def mcp(
    root: Annotated[
        Path, typer.Option(help="The folder below which all files of tools lie.", metavar="DIR")
    ] = Path(),
    time_limit: Annotated[
        float,
        number(
            "Time after which a call is ended.",
            "--time-limit",
            unit="s",
            example="30s",
            default="2min",
            above=0,
        ),
    ] = 120.0,
    memory: Annotated[
        int,
        whole(
            "Maximum data of each process of a call (Linux).",
            "--memory",
            unit="bytes",
            example="4GiB",
            default="8GiB",
        ),
    ] = 8 * 2**30,
) -> None:
    """Serve run, check, tune, explain, profile and plan to assistants as tools.

    Speaks the Model Context Protocol on stdio: a client, an editor or an assistant, starts the
    command itself, by the words trnsim mcp --root DIR. A kernel is a program: it runs with your
    rights, in a process of its own, which is ended at the limits.

    Example: trnsim mcp --root kernels --time-limit 1min
    """
    server(Bounds(folder=root, time_s=time_limit, memory_bytes=memory)).run()
