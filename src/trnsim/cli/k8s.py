"""`trnsim k8s`: Kubernetes places pods on emulated instances."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.k8s_node import device_plugin, node_problems, stopping_on_signals
from trnsim.cli.k8s_options import CaFile, Server, TokenFile
from trnsim.cli.options import Port, parser
from trnsim.cli.terminal import echo
from trnsim.cluster.kubernetes.api import KubernetesApi, access
from trnsim.cluster.kubernetes.http_service import application, listening
from trnsim.cluster.kubernetes.scheduler_extension import SchedulerExtension

app = parser(help="Place pods of Kubernetes on emulated instances.", no_args_is_help=True)
app.command("device-plugin")(device_plugin)
app.command("node-problems")(node_problems)


@app.callback()
def k8s() -> None:
    """Place pods of Kubernetes on emulated instances."""


@app.command()
def scheduler_extension(
    port: Port = 12345,
    socket: Annotated[
        Path | None,
        typer.Option(
            help="Listen on a Unix socket, which its owner alone may open, and on no port.",
            metavar="FILE",
        ),
    ] = None,
    server: Server = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Answer kube-scheduler's calls filter and bind; end it with Ctrl-C.

    A pod gets a set of free devices that AWS's scheduler extension could give it. The sets are
    stored with the pods, in the annotation NEURON_CORES, so that a restart loses none.

    Example: trnsim k8s scheduler-extension --server https://10.0.0.1:6443 --token-file token
    """
    extension = SchedulerExtension(KubernetesApi(access(server, token_file, ca_file)), _log)
    extension.rebuild()
    service = application(extension.filter, extension.bind)
    with listening(service, port, socket) as (http_server, address):
        _log(f"emulated by trnsim; listening on {address}")
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        stop_event = threading.Event()
        with stopping_on_signals(stop_event.set):
            while not stop_event.wait(1):  # on Windows, Ctrl-C does not interrupt an unlimited wait
                pass
        http_server.shutdown()
    extension.api.close()


def _log(line: str) -> None:
    echo(line, is_error=True)
