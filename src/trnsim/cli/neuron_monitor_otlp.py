"""``trnsim neuron-monitor-otlp``: the series of neuron-monitor for OpenTelemetry."""

from __future__ import annotations

from typing import Annotated

import typer

from trnsim.cli.monitor_reports import collect, source
from trnsim.cli.options import parser
from trnsim.cli.quantity_options import number
from trnsim.cli.terminal import echo
from trnsim.errors import BadInput
from trnsim.tools.monitor.otlp import export
from trnsim.tools.monitor.series import CollectedSeries

app = parser()


@app.command()
def neuron_monitor_otlp(
    endpoint: Annotated[
        str, typer.Option(help="A collector's address for OTLP over HTTP.", metavar="URL")
    ] = "http://127.0.0.1:4318",
    period: Annotated[
        float,
        number("Seconds between exports.", unit="s", example="500ms", default="5s"),
    ] = 5.0,
) -> None:
    """Send what neuron-monitor measures to a collector of OpenTelemetry; end it with Ctrl-C.

    Reads neuron-monitor's reports where they are piped into it, else measures by itself every
    second.

    Example: trnsim neuron-monitor-otlp --endpoint http://127.0.0.1:4318
    """
    if not 0 < period <= 3600:  # noqa: PLR2004
        raise BadInput(f"--period is {period:g}; legal: above 0, up to 3600 seconds")
    collected = CollectedSeries()
    steps = collect(source(), collected)
    for _ in steps:
        break
    else:
        raise BadInput("no report was read", fix="pipe `trnsim neuron-monitor` into it")
    end = export(collected, endpoint, period)
    echo(f"emulated by trnsim; sending to {endpoint}", is_error=True)
    try:
        for _ in steps:
            pass
    except KeyboardInterrupt:
        pass
    finally:
        end()
