"""``trnsim neuron-ls``: the devices of the emulated instance and the programs on them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.cli.terminal import echo
from trnsim.instance.state import folder
from trnsim.instance.state.observers import Observer, observers, own_command
from trnsim.instance.state.reader import instance_of, read_all
from trnsim.tools import neuron_ls as tool
from trnsim.version import VERSION

app = parser()


@app.command()
def neuron_ls(
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Show programs, long commands too.")
    ] = False,
    show_all_procs: Annotated[
        bool,
        typer.Option(
            "--show-all-procs", "-a", help="Show programs and tools, such as neuron-monitor."
        ),
    ] = False,
    topology: Annotated[
        bool, typer.Option("--topology", "-t", help="Draw the links between devices.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json-output", "-j", help="Print JSON.")] = False,
) -> None:
    """List the devices of the emulated instance, and the programs that run on them.

    The instance is TRNSIM_INSTANCE, else the largest that a running program names, else the
    smallest of the target chip. In `trnsim shell` this is `neuron-ls`.

    Example: trnsim neuron-ls --wide
    """
    state = folder.state_folder()
    records = read_all(state)
    model = instance_of(records)
    programs = tool.processes(records, model, VERSION)
    echo("emulated by trnsim", is_error=True)
    if as_json:
        echo(tool.as_json(model, programs))
        return
    echo(tool.head(model))
    if show_all_procs:
        itself = Observer(os.getpid(), own_command())
        tools = tool.tools([*observers(state), itself], model)
        echo(tool.all_processes(model, [*programs, *tools]))
    elif topology:
        echo(tool.topology(model))
    elif wide:
        echo(tool.wide(model, programs))
    else:
        echo(tool.overview(model))
