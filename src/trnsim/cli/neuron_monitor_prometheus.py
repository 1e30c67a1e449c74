"""``trnsim neuron-monitor-prometheus``: the series of neuron-monitor for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.monitor_reports import collect, source
from trnsim.cli.options import Port, parser
from trnsim.cli.terminal import echo
from trnsim.files import write
from trnsim.tools.monitor.dashboard import dashboard as page
from trnsim.tools.monitor.prometheus import serve
from trnsim.tools.monitor.rules import rules as rule_file
from trnsim.tools.monitor.series import CollectedSeries

app = parser()


@app.command()
def neuron_monitor_prometheus(
    port: Port = 8000,
    address: Annotated[
        str,
        typer.Option(help="The address; 0.0.0.0 lets other machines scrape.", metavar="ADDRESS"),
    ] = "127.0.0.1",
    enable_k8s_info: Annotated[
        bool,
        typer.Option(
            "--enable-k8s-info",
            help="Add the labels pod, namespace and container, which neuron-monitor-k8s-info "
            "reads from kubelet.",
        ),
    ] = False,
    dashboard: Annotated[
        Path | None,
        typer.Option(help="Write a page for Grafana and end.", metavar="FILE.json"),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="Write alerts for Prometheus and end.", metavar="FILE.yml"),
    ] = None,
) -> None:
    """Answer Prometheus's scrapes with what neuron-monitor measures; end it with Ctrl-C.

    Reads neuron-monitor's reports where they are piped into it, else measures by itself every
    second. In `trnsim shell` this is `neuron-monitor-prometheus.py`.

    Example: trnsim neuron-monitor | trnsim neuron-monitor-prometheus --port 8000
    """
    if dashboard or rules:
        for path, text in ((dashboard, page), (rules, rule_file)):
            if path:
                write(path, text())
                echo(f"wrote {path}")
        return
    collected = CollectedSeries(has_pods=enable_k8s_info)
    reports = source()
    serving = serve(collected, port, address)
    endpoint = f"{address} port {serving.port}"
    echo(f"emulated by trnsim; listening on {endpoint}", is_error=True)
    try:
        for _ in collect(reports, collected):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        serving.end()
