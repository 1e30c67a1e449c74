"""`trnsim k8s device-plugin` and `node-problems`, which run on each node of a cluster."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim.cli.k8s_options import CaFile, NodeName, PodResourcesSocket, Server, TokenFile
from trnsim.cli.on import on_option, one_platform
from trnsim.cli.options import Lnc
from trnsim.cli.terminal import echo
from trnsim.cluster.kubernetes import device_plugin as plugin
from trnsim.cluster.kubernetes.api import KubernetesApi, access
from trnsim.cluster.kubernetes.node_devices import (
    DEFAULT,
    NEURON,
    RESOURCES,
    ContainerHolding,
    NodeDevices,
)
from trnsim.cluster.kubernetes.node_problems import NodeProblems, ReportedNode
from trnsim.cluster.kubernetes.pod_resources import SOCKET, holdings
from trnsim.cluster.kubernetes.reservations import reservations
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.state.folder import state_folder

_PREFIX: Final = NEURON.partition("/")[0]
NodeInstance = Annotated[
    list[str] | None,
    on_option(
        "TRNSIM_INSTANCE, else the smallest of the target chip", "--instance", is_single=True
    ),
]
"""The option `--on` of the commands of a node."""


def device_plugin(
    on: NodeInstance = None,
    lnc: Lnc = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            help="A resource to offer: neuron, neuroncore or neurondevice, with commas or "
            "repeated; default: the first two, as AWS's plugin since release 2.20.",
            metavar="NAME",
        ),
    ] = None,
    plugins: Annotated[
        Path,
        typer.Option(help="Kubelet's folder of device plugins.", metavar="DIR"),
    ] = plugin.FOLDER,
    pod_resources: PodResourcesSocket = SOCKET,
    device_files: Annotated[
        bool,
        typer.Option(
            "--device-files/--no-device-files",
            help="Give containers /dev/neuron*, which this machine must have.",
        ),
    ] = True,
    server: Server = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    node: NodeName = None,
) -> None:
    """Offer the emulated instance's devices to kubelet, as AWS's device plugin does.

    Containers get /dev/neuron*, NEURON_RT_VISIBLE_CORES and the instance's faults. A fault makes
    its device unhealthy; `trnsim fault clear` makes it healthy again. With --server, or in a pod, a
    container gets the devices that a scheduler extension has written on its pod. Runs until Ctrl-C
    or SIGTERM, and registers again where kubelet restarts. Needs the extra trnsim[kubernetes].

    Example: trnsim shell --on trn1.32xlarge -- trnsim k8s device-plugin
    """
    names = _resources(resource)
    model = instance_model(one_platform(on).instance if on else None, lnc)
    state = state_folder()
    read_holdings: Callable[[], Sequence[ContainerHolding]] = partial(holdings, pod_resources)
    api = _api(server, token_file, ca_file)
    daemon = plugin.DevicePlugin(
        plugin.PluginSettings(
            NodeDevices(model),
            names,
            plugins,
            state,
            device_files,
            # only another resource or an extension takes a device that kubelet calls free
            read_holdings if len(names) > 1 or api else tuple,
            partial(reservations, api, _node_name(node)) if api else lambda _holdings: (),
            _say,
        )
    )
    with stopping_on_signals(daemon.stop):
        daemon.run()


def node_problems(
    on: NodeInstance = None,
    lnc: Lnc = None,
    pod_resources: PodResourcesSocket = SOCKET,
    kmsg: Annotated[
        Path | None,
        typer.Option(
            help="Also write each new fault's line there, as the driver does: /dev/kmsg, where a "
            "node problem detector of your own reads it.",
            metavar="FILE",
        ),
    ] = None,
    server: Server = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    node: NodeName = None,
) -> None:
    """Report hardware faults of the emulated instance to Kubernetes, as AWS's problem detector.

    A fault that AWS's rules match sets the node's condition NeuronHealth, until `trnsim fault
    reset`, and is an event of the node and of the pods that hold its device. Runs until Ctrl-C or
    SIGTERM. Without a cluster, --kmsg alone writes the lines.

    Example: trnsim k8s node-problems --server https://10.0.0.1:6443 --token-file token
    """
    api = _api(server, token_file, ca_file)
    if api is None and kmsg is None:
        access(server, token_file, ca_file)  # refused: there is nowhere to report to
    model = instance_model(one_platform(on).instance if on else None, lnc)
    read_holdings = partial(holdings, pod_resources)
    name, state = _node_name(node), state_folder()
    reported_node = ReportedNode(name, NodeDevices(model), state, read_holdings)
    daemon = NodeProblems(reported_node, api, _say, kmsg)
    with stopping_on_signals(daemon.stop):
        daemon.run()


def _api(server: str | None, token_file: Path | None, ca_file: Path | None) -> KubernetesApi | None:
    """The Kubernetes API that the options name, or of this pod's cluster; None without either."""
    if server is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        return None
    return KubernetesApi(access(server, token_file, ca_file))


def _node_name(option: str | None) -> str:
    """The name of this node; source of NODE_NAME: aws-neuron-sdk src/k8."""
    return option or os.environ.get("NODE_NAME") or socket.gethostname().lower()


def _resources(options: Sequence[str] | None) -> tuple[str, ...]:
    """Full names of the resources that options name, each once, in the order of `RESOURCES`.

    Raises:
        BadInput: a name is no resource of Neuron.
    """
    if not options:
        return DEFAULT
    names = {
        name.strip().removeprefix(f"{_PREFIX}/") for text in options for name in text.split(",")
    }
    legal = {name.partition("/")[2]: name for name in RESOURCES}
    for name in sorted(names - legal.keys()):
        raise BadInput(
            f"--resource {name!r} is no resource of Neuron; legal: {', '.join(legal)}",
            fix="--resource neuron",
            source="aws-neuron-sdk deploy/infrastructure/plugins.rst",
        )
    return tuple(resource for name, resource in legal.items() if name in names)


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Generator[None]:
    """A context in which SIGTERM and Ctrl-C call `stop`."""

    def handler(*_signal: object) -> None:
        stop()

    signals = (signal.SIGTERM, signal.SIGINT)
    old_handlers = [signal.signal(number, handler) for number in signals]
    try:
        yield
    finally:
        for number, old_handler in zip(signals, old_handlers, strict=True):
            signal.signal(number, old_handler)


def _say(text: str) -> None:
    echo(f"trnsim: {text}", is_error=True)
