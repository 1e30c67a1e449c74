"""``trnsim mcp``: the commands as tools of assistants that write kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim.api.bounds import Bounds
from trnsim.api.server import server
from trnsim.cli.options import CallMemory, parser, time_limit_option

app = parser()


@app.command()
def mcp(
    root: Annotated[
        Path, typer.Option(help="The folder below which all files of tools lie.", metavar="DIR")
    ] = Path(),
    time_limit: Annotated[float, time_limit_option("2min")] = 120.0,
    memory: CallMemory = 8 * 2**30,
) -> None:
    """Serve run, check, tune, explain, profile and plan to assistants as tools.

    Speaks the Model Context Protocol on stdio: a client, an editor or an assistant, starts the
    command itself, by the words trnsim mcp --root DIR. A kernel is a program: it runs with your
    rights, in a process of its own, which is ended at the limits.

    Example: trnsim mcp --root kernels --time-limit 1min
    """
    server(Bounds(folder=root, time_s=time_limit, memory_bytes=memory)).run()
