"""``trnsim neuron-monitor``: what emulated programs and their host do, as a stream of JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trnsim.cli.options import parser
from trnsim.instance.state import folder, hardware
from trnsim.instance.state.reader import LISTEN_S, instance_of, read_all
from trnsim.tools.monitor.config import EVERYTHING, Config, everything, read
from trnsim.tools.monitor.reports import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    found = _stream(read(config) if config else EVERYTHING)
    print("emulated by trnsim", file=sys.stderr)
    try:
        for report in found:
            print(json.dumps(report, separators=(",", ":")), flush=True)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Whoever read has enough; what Python would still write on leaving has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def own_reports() -> Iterator[dict[str, Any]]:
    """Reports of everything every second, for exporters that nothing is piped into."""
    return _stream(everything(period_s=1.0))


def _stream(config: Config) -> Iterator[dict[str, Any]]:
    return monitor(config).stream()


def monitor(config: Config) -> Monitor:
    """A monitor of what the user's programs do."""
    state, listen_s = folder.opened(), config.longest_s + LISTEN_S
    return Monitor(
        config,
        lambda: read_all(state, listen_s),
        instance_of,
        lambda devices: hardware.counters(hardware.injected(state), devices),
    )
