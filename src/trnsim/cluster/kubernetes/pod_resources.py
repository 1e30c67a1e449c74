"""Containers and the Neuron devices that they hold, from kubelet's pod-resources API.

Source: Kubernetes documentation, Device Plugins, Monitoring device plugin resources; aws-neuron-sdk
tools/neuron-sys-tools/neuron-monitor-user-guide.rst, neuron-monitor-k8s-info.py, which needs gRPC.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from trnsim.cluster.kubernetes.messages import POD_RESOURCES, grpc, message, message_bytes
from trnsim.cluster.kubernetes.node_devices import RESOURCES, ContainerHolding
from trnsim.errors import BadInput

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 16 << 20
"""Bytes of the longest answer: kubelet's own client takes as many."""


def local_channel(socket: Path) -> Any:
    """A channel to the server of a socket; no proxy of the environment is asked."""
    return grpc().insecure_channel(
        f"unix:{socket.absolute()}",
        options=[
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", _MOST_BYTES),
            ("grpc.default_authority", "localhost"),
        ],
    )


def holdings(socket: Path = SOCKET, timeout_s: float = TIMEOUT_S) -> list[ContainerHolding]:
    """Neuron's devices and cores that each container holds, in kubelet's order.

    Raises:
        BadInput: kubelet does not answer at `socket`.
    """
    library = grpc()
    with local_channel(socket) as channel:
        method = channel.unary_unary(
            POD_RESOURCES.method("PodResourcesLister", "List"),
            request_serializer=message_bytes,
            response_deserializer=message(POD_RESOURCES, "ListPodResourcesResponse").FromString,
        )
        try:
            answer = method(message(POD_RESOURCES, "ListPodResourcesRequest")(), timeout=timeout_s)
        except library.RpcError as error:
            raise BadInput(
                f"kubelet does not say what containers hold: {socket}: {error.details()}",
                fix="check that kubelet runs and that --pod-resources names its socket",
                source="Kubernetes documentation, Device Plugins",
            ) from error
    return [
        ContainerHolding(
            pod.namespace,
            pod.name,
            container.name,
            devices.resource_name,
            tuple(devices.device_ids),
        )
        for pod in answer.pod_resources
        for container in pod.containers
        for devices in container.devices
        if devices.resource_name in RESOURCES
    ]
