"""``trnsim lsp``: what trnsim knows of kernels, beside their lines in an editor."""

from __future__ import annotations

from typing import Annotated

import typer

from trnsim.api.bounds import Bounds
from trnsim.cli.options import CallMemory, parser, time_limit_option
from trnsim.errors import BadInput

app = parser()


@app.command()
def lsp(
    time_limit: Annotated[float, time_limit_option("1min")] = 60.0,
    memory: CallMemory = 8 * 2**30,
    stdio: Annotated[  # noqa: ARG001  no other transport
        bool, typer.Option("--stdio", help="Speak on stdio, as always; some editors pass this.")
    ] = False,
) -> None:
    """Serve editors: refusals and races at their lines, times beside them.

    Speaks the Language Server Protocol on stdio: an editor starts the command itself. A file of
    kernels below the workspace's root is run when it is opened or saved, with your rights, in a
    process of its own, which is ended at the limits. The editor's option runOnSave: false turns
    that off.

    Example: trnsim lsp --time-limit 1min
    """
    bounds = Bounds(time_s=time_limit, memory_bytes=memory)
    try:
        from trnsim.lsp.server import serve  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise BadInput(f"{error.name} is not installed", fix="pip install 'trnsim[lsp]'") from error
    serve(bounds)
