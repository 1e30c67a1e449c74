"""``trnsim neuron-monitor``: what emulated programs and their host do, as a stream of JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.instance.state import folder
from trnsim.instance.state.reader import LISTEN_S, instance_of, read_all
from trnsim.tools.monitor.config import EVERYTHING, read
from trnsim.tools.monitor.reports import Monitor

app = parser()


@app.command()
def neuron_monitor(
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config-file", help="Groups, periods and programs, in JSON."),
    ] = None,
) -> None:
    """Print a JSON report a line, whenever a group of metrics is due; end it with Ctrl-C.

    Without a file every group of every emulated program is measured every 5 s. In `trnsim shell`
    this is `neuron-monitor`.

    Example: trnsim neuron-monitor | head -1
    """
    asked = read(config) if config else EVERYTHING
    state, listen_s = folder.opened(), asked.longest_s + LISTEN_S
    monitor = Monitor(asked, lambda: read_all(state, listen_s), instance_of)
    print("emulated by trnsim", file=sys.stderr)
    try:
        for report in monitor.stream():
            print(json.dumps(report, separators=(",", ":")), flush=True)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Whoever read has enough; what Python would still write on leaving has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
