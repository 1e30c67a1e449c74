"""``trnsim neuron-monitor``: metrics of emulated programs and their host, as a stream of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.cli.quantity_options import whole
from trnsim.cli.terminal import echo, leave_output
from trnsim.tools.monitor.config import ALL_GROUPS, read
from trnsim.tools.monitor.user_monitor import user_monitor
from trnsim.tools.monitor.verbose import MOST_LEVEL, MonitorMessages

app = parser()


@app.command()
def neuron_monitor(
    config: Annotated[
        Path | None,
        typer.Option(
            "-c",
            "--config-file",
            help="Groups of metrics, periods and programs, in JSON.",
            metavar="FILE.json",
        ),
    ] = None,
    verbose: Annotated[
        int,
        whole(
            "Say on the standard error: 0 nothing, 1 errors, 2 programs that come and go, "
            "3 reports, 4 periods.",
            minimum=0,
            maximum=MOST_LEVEL,
            metavar="LEVEL",
        ),
    ] = 0,
) -> None:
    """Print one JSON report per line whenever a group of metrics is due; end it with Ctrl-C.

    Without a file every group of every emulated program is measured every 5 s. In `trnsim shell`
    this is `neuron-monitor`.

    Example: trnsim neuron-monitor | head -1
    """
    reports = user_monitor(read(config) if config else ALL_GROUPS).stream()
    messages = MonitorMessages(verbose)
    echo("emulated by trnsim", is_error=True)
    try:
        for report in reports:
            for line in messages.lines(report):
                echo(line, is_error=True)
            print(json.dumps(report, separators=(",", ":")), flush=True)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        leave_output()  # the reader has closed the pipe
