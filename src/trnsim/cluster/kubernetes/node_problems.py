"""Hardware faults of a node as Kubernetes sees them: its condition, and events.

These reports replace the node problem detector, which AWS deploys beside its device plugin: the
rules come from AWS's configuration, and apply to the lines of the driver's log. A matching line
sets the condition NeuronHealth, which stays until the driver is loaded anew (`trnsim fault reset`),
and is an event of the node. AWS's detector does no more. Here pods that hold the device have an
event too, and an annotation of the node names devices with active faults, which
`trnsim k8s scheduler-extension` passes over.

Sources: aws-neuron-sdk deploy/infrastructure/problem-detector.rst, src/k8/neuron-problem-detector
(the configuration; the same in github aws-neuron/neuron-helm-charts values.yaml); Kubernetes
documentation, Monitor Node Health.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trnsim.cluster.kubernetes.api import STRATEGIC, ApiRefused, KubernetesApi, node_path, pod_path
from trnsim.cluster.kubernetes.node_devices import NEURON, ContainerHolding, NodeDevices
from trnsim.cluster.kubernetes.nodes import UNHEALTHY
from trnsim.errors import BadInput
from trnsim.instance.state.hardware import KINDS, StoredFault, injected_faults, log_line

CONDITION: Final = "NeuronHealth"
_WELL: Final = ("NeuronHasNoError", "Neuron has no error")
RULES: Final = {
    f"NeuronHasError_{name}": re.compile(f".* NEURON_HW_ERR={name} .*")
    for name in (
        "SRAM_UNCORRECTABLE_ERROR",
        "NC_UNCORRECTABLE_ERROR",
        "HBM_UNCORRECTABLE_ERROR",
        "DMA_ERROR",
    )
}
"""The pattern of a line by the reason. HANG_ON_COLLECTIVES is in no configuration for EKS."""
_SOURCE_NAME: Final = "kernel-monitor"
_POLL_S: Final = 0.5
"""Time between two looks at the faults."""
_HEARTBEAT_S: Final = 60.0
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_ERROR_LEVEL: Final = "<3>"
"""KERN_ERR, in the form that a line written to /dev/kmsg begins with."""


@dataclass(frozen=True)
class ReportedNode:
    """A node whose faults are reported.

    Attributes:
        state: the folder of the instance's state.
        holdings: returns the devices that containers hold now, from kubelet.
    """

    name: str
    devices: NodeDevices
    state: Path
    holdings: Callable[[], Sequence[ContainerHolding]]


def matched_faults(faults: Iterable[StoredFault]) -> list[tuple[StoredFault, str]]:
    """Faults whose lines a rule matches, each with the reason of the rule, in their order."""
    matches = []
    for fault in faults:
        line = log_line(fault)
        reason = next((reason for reason, rule in RULES.items() if rule.fullmatch(line)), None)
        if reason is not None:
            matches.append((fault, reason))
    return matches


def write_kernel_line(path: Path, fault: StoredFault) -> None:
    """Write a fault's line into the kernel's log, where a node problem detector reads it.

    The kernel puts its own time before the line.

    Raises:
        BadInput: `path` cannot be written to.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, f"{_ERROR_LEVEL}{_message(fault)}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadInput(
            f"cannot write to {path}: {error.strerror}",
            fix="the kernel's log needs root: --kmsg /dev/kmsg",
        ) from error


class NodeProblems:
    """The reports of a node."""

    def __init__(
        self,
        node: ReportedNode,
        api: KubernetesApi | None,
        say: Callable[[str], None],
        kernel_log: Path | None = None,
    ) -> None:
        """Report to `api` and write new lines to `kernel_log`, each unless it is None."""
        self._node, self._api, self._say, self._kernel_log = node, api, say, kernel_log
        self._end = threading.Event()
        self._logged_names = {fault.name for fault in injected_faults(node.state)}
        self._reported_names: set[str] = set()
        self._since = ""
        self._shown_state: tuple[Any, ...] | None = None
        self._shown_at_s = 0.0
        self._problem = ""

    def stop(self) -> None:
        """Make `run` return."""
        self._end.set()

    def run(self) -> None:
        """Report until `stop`; while the API does not answer, reports wait."""
        while not self._end.is_set():
            try:
                self.look()
            except BadInput as error:
                if error.reason != self._problem:
                    self._say(error.reason)
                self._problem = error.reason
            else:
                self._problem = ""
            self._end.wait(_POLL_S)

    def look(self) -> None:
        """Report the changes since the last call.

        Raises:
            BadInput: the API or kubelet does not answer, or the kernel's log cannot be written to.
        """
        faults = injected_faults(self._node.state)
        for fault in faults:
            if self._kernel_log is not None and fault.name not in self._logged_names:
                write_kernel_line(self._kernel_log, fault)
                self._logged_names.add(fault.name)
        if self._api is None:
            return
        self._show_condition(self._api, faults)
        for fault, reason in matched_faults(faults):
            if fault.name not in self._reported_names:
                self._report(self._api, fault, reason)
                self._reported_names.add(fault.name)

    def _show_condition(self, api: KubernetesApi, faults: Sequence[StoredFault]) -> None:
        """Write the condition and the annotation, where they changed or a minute has passed."""
        last_faults = matched_faults(faults)[-1:]
        reason, message = (last_faults[0][1], _message(last_faults[0][0])) if last_faults else _WELL
        healthy = self._node.devices.healthy(NEURON, faults)
        broken_devices = ",".join(name for name, is_healthy in healthy.items() if not is_healthy)
        state = (reason, message, broken_devices)
        now_s = time.monotonic()
        if state == self._shown_state and now_s - self._shown_at_s < _HEARTBEAT_S:
            return
        timestamp = _stamp(time.time())
        if self._shown_state is None or (reason != _WELL[0]) != (self._shown_state[0] != _WELL[0]):
            self._since = self._earlier_stamp(api, reason != _WELL[0]) or timestamp
        condition = {
            "type": CONDITION,
            "status": str(reason != _WELL[0]),
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": timestamp,
            "lastTransitionTime": self._since,
        }
        path = node_path(self._node.name)
        api.patch(f"{path}/status", {"status": {"conditions": [condition]}}, STRATEGIC)
        api.patch(path, {"metadata": {"annotations": {UNHEALTHY: broken_devices or None}}})
        if self._shown_state is None or self._shown_state[:2] != state[:2]:
            self._say(f"node {self._node.name}: {CONDITION} is {condition['status']}: {reason}")
        self._shown_state, self._shown_at_s = state, now_s

    def _earlier_stamp(self, api: KubernetesApi, is_true: bool) -> str:
        """The transition time of the condition if its status is the same already; "" otherwise."""
        node = api.get(node_path(self._node.name))
        for condition in (node.get("status") or {}).get("conditions") or []:
            if condition.get("type") == CONDITION and condition.get("status") == str(is_true):
                return str(condition.get("lastTransitionTime") or "")
        return ""

    def _report(self, api: KubernetesApi, fault: StoredFault, reason: str) -> None:
        """Write an event of the node, and of each pod that holds a core which the fault strikes."""
        name = self._node.name
        node = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}
        _write_event(api, "default", node, fault, reason, _message(fault), name)
        for holding in self._struck_containers(fault):
            pod = _pod(api, holding)
            if pod is None:
                continue
            status = KINDS[fault.kind].status
            message = (
                f"container {holding.container} holds device {fault.device} of node {name}, "
                f"which has a hardware fault: {_message(fault)}. Its program meets {status}"
            )
            _write_event(api, holding.namespace, pod, fault, reason, message, name)
            self._say(f"pod {holding.namespace}/{holding.pod}: {reason}")

    def _struck_containers(self, fault: StoredFault) -> list[ContainerHolding]:
        """One container of each pod that holds a core which a fault strikes."""
        devices = self._node.devices
        per_device = devices.instance.devices[0].cores
        by_pod: dict[tuple[str, str], ContainerHolding] = {}
        for holding in self._node.holdings():
            cores = devices.cores(holding.resource, holding.ids)
            if any(fault.strikes(core % per_device, core // per_device) for core in cores):
                by_pod.setdefault((holding.namespace, holding.pod), holding)
        return list(by_pod.values())


def _pod(api: KubernetesApi, holding: ContainerHolding) -> dict[str, str] | None:
    """The reference of an event to a pod; None if the pod was deleted in between."""
    try:
        pod = api.get(pod_path(holding.namespace, holding.pod))
    except ApiRefused as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": holding.namespace,
        "name": holding.pod,
        "uid": str(pod["metadata"]["uid"]),
    }


def _write_event(
    api: KubernetesApi,
    namespace: str,
    subject: dict[str, str],
    fault: StoredFault,
    reason: str,
    message: str,
    host: str,
) -> None:
    """Create an event; nothing happens if the subject has an event of this fault already."""
    timestamp = _stamp(fault.at)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject['name']}.{fault.name.removesuffix('.json')}",
            "namespace": namespace,
        },
        "involvedObject": subject,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "source": {"component": _SOURCE_NAME, "host": host},
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "count": 1,
    }
    try:
        api.post(f"/api/v1/namespaces/{namespace}/events", event)
    except ApiRefused as error:
        if error.status != _CONFLICT:
            raise


def _message(fault: StoredFault) -> str:
    """A fault's line in the log, without its time."""
    return log_line(fault).partition(" ")[2]


def _stamp(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
