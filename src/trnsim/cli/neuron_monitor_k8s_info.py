"""``trnsim neuron-monitor-k8s-info``: the pods that hold cores and devices, for neuron-monitor."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Annotated

from trnsim.cli.k8s_node import stopping_on_signals
from trnsim.cli.k8s_options import PodResourcesSocket
from trnsim.cli.options import parser
from trnsim.cli.quantity_options import number
from trnsim.cli.terminal import echo
from trnsim.cluster.kubernetes.messages import grpc
from trnsim.cluster.kubernetes.node_devices import NodeDevices
from trnsim.cluster.kubernetes.pod_resources import SOCKET, holdings
from trnsim.cluster.kubernetes.pod_table import pod_table
from trnsim.errors import BadInput
from trnsim.instance.state import pods
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.reader import instance_of, read_all
from trnsim.tools.monitor.report_lines import is_redirected

app = parser()


@app.command()
def neuron_monitor_k8s_info(
    period: Annotated[
        float,
        number("Seconds between readings.", unit="s", example="30s", default="15s"),
    ] = 15.0,
    pod_resources: PodResourcesSocket = SOCKET,
) -> None:
    """Tell neuron-monitor which pods of Kubernetes hold cores and devices; end it with Ctrl-C.

    While it runs on a node, reports have neuron_k8s_info, and neuron-monitor-prometheus
    --enable-k8s-info adds labels. If its input is a pipe, it ends when the pipe does. In
    `trnsim shell` this is `neuron-monitor-k8s-info.py`. Needs the extra trnsim[kubernetes].

    Example: trnsim neuron-monitor-prometheus --enable-k8s-info | trnsim neuron-monitor-k8s-info
    """
    if not 0 < period <= 3600:  # noqa: PLR2004
        raise BadInput(f"--period is {period:g}; legal: above 0, up to 3600 seconds")
    grpc()
    folder, stop_event = state_folder(), threading.Event()
    if is_redirected(sys.stdin):
        threading.Thread(target=_drain, args=(stop_event,), daemon=True).start()
    echo("emulated by trnsim", is_error=True)
    try:
        with stopping_on_signals(stop_event.set):
            _store_tables(folder, pod_resources, period, stop_event)
    finally:
        pods.remove(folder)


def _store_tables(
    folder: Path, pod_resources: Path, every_s: float, stop_event: threading.Event
) -> None:
    """Store a table of pods now and every `every_s`, until `stop_event` is set."""
    last_s, last_error = time.monotonic() - every_s, ""
    while not stop_event.is_set():
        now_s = time.monotonic()
        table = _table(folder, pod_resources, now_s - last_s)
        pods.store(folder, table, every_s)
        if table.error and table.error != last_error:
            echo(f"trnsim: {table.error}", is_error=True)
        last_s, last_error = now_s, table.error
        stop_event.wait(every_s)


def _table(folder: Path, pod_resources: Path, period_s: float) -> pods.PodTable:
    try:
        container_holdings = holdings(pod_resources)
    except BadInput as error:
        return pods.PodTable(period_s, error=error.reason)
    return pod_table(NodeDevices(instance_of(read_all(folder, 0))), container_holdings, period_s)


def _drain(stop_event: threading.Event) -> None:
    """Read a pipe, the exporter's output, to its end without using it; then set `stop_event`."""
    for _ in sys.stdin.buffer:
        pass
    stop_event.set()
