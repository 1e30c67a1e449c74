"""The scheduler extension: filter and bind of kube-scheduler's extender API (v1).

Filter names the nodes on which every container of a pod has a legal, free set of devices. Bind
chooses the sets and binds the pod. Placements are stored in annotations of bound pods and nowhere
else: the annotations travel within the Binding, which the API stores together with the pod's node,
so a pod is bound with its devices or not at all, wherever this process ends.

`pods_by_node` is a copy of these placements, which may have pods that are gone and lacks none: only
this process adds placements. So a node fits if it fits by the copy, and before a node is refused
the copy is read anew; a bind reads the pods of its node anew in any case. One such extension runs
in a cluster, as AWS's (replicas: 1, src/k8/k8s-neuron-scheduler-eks.yml).

Sources: aws-neuron-sdk@81ce03ae deploy/infrastructure/scheduler-flow.rst; Kubernetes 1.20.2
staging/src/k8s.io/kube-scheduler/extender/v1/types.go (names of fields), and
pkg/registry/core/pod/storage/storage.go (a Binding's annotations become the pod's).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.cluster.kubernetes.api import (
    PODS,
    ApiDown,
    ApiRefused,
    KubernetesApi,
    Object,
    entries,
    mapping,
    metadata,
    name_of,
    node_path,
    pod_path,
)
from trnsim.cluster.kubernetes.nodes import NeuronNode, free_cores, neuron_node
from trnsim.cluster.kubernetes.placement import Placement, first_refusal, place
from trnsim.cluster.kubernetes.pods import (
    SETS,
    ContainerDemand,
    demands,
    has_ended,
    node_of,
    placement_annotations,
    title,
    uid,
)
from trnsim.errors import BadInput, EmulatorError
from trnsim.formatting import counted

NO_ROOM: Final = "no legal set of free Neuron devices"
"""The reason of a full node: the same words for each, as kube-scheduler counts equal reasons."""
_NODES_S: Final = 1.0
"""Time for which a list of nodes is used again."""
_BIND_S: Final = 1.0
"""Time in which kube-scheduler binds a pod that fits: other filter calls wait no longer."""
_MOST_SKEW_S: Final = 5.0
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass
class SchedulerExtension:
    """The extension of one cluster.

    Attributes:
        log: prints a line of the log.
        pods_by_node: bound pods with Neuron devices that have not ended, by node and by their uid.
        nodes: nodes by name.
    """

    api: KubernetesApi
    log: Callable[[str], None] = lambda _line: None
    pods_by_node: dict[str, dict[str, Object]] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    _nodes_read_s: float = -_NODES_S
    _bind_ends: dict[str, float] = field(default_factory=dict)
    _condition: threading.Condition = field(default_factory=threading.Condition)
    _is_skewed: bool = False

    def rebuild(self) -> None:
        """Read all nodes and placements from the API, as at the start.

        Raises:
            BadInput: the API is down or refuses (`ApiDown`, `ApiRefused`).
        """
        with self._condition:
            self._read_nodes()
            self._read_pods()
            count = sum(map(len, self.pods_by_node.values()))
        nodes, pods = counted(len(self.nodes), "node"), counted(count, "pod")
        self.log(f"state rebuilt from {self.api.server}: {nodes}, {pods}")

    def filter(self, arguments: Mapping[str, Any]) -> Object:
        """The result of a filter call: the nodes that fit, and the reason of each other node."""
        fields = _by_lower_name(arguments)
        pod = fields.get("pod")
        if not isinstance(pod, dict):
            return {"Error": "the filter call has no Pod"}
        node_objects = mapping(fields.get("nodes")).get("items")
        names = fields.get("nodenames")
        try:
            with self._condition:
                self._wait_for_binds(uid(pod))
                offered_nodes = _offered_nodes(node_objects, names)
                fitting_names, failures, final_failures = self._sort_nodes(pod, offered_nodes)
                if fitting_names and demands(pod):
                    self._bind_ends[uid(pod)] = time.monotonic() + _BIND_S
        except EmulatorError as error:
            self.log(f"filter {title(pod)}: {_one_line(error)}")
            return {"Error": _one_line(error)}
        self.log(
            f"filter {title(pod)}: fits {', '.join(fitting_names) or 'no node'}{_reasons(failures)}"
        )
        result: Object = {"FailedNodes": failures, "FailedAndUnresolvableNodes": final_failures}
        if node_objects is None:
            return {**result, "NodeNames": fitting_names}
        fitting_nodes = [
            node for node in entries(node_objects) if name_of(node) in set(fitting_names)
        ]
        return {**result, "Nodes": {"apiVersion": "v1", "kind": "NodeList", "items": fitting_nodes}}

    def bind(self, arguments: Mapping[str, Any]) -> Object:
        """The result of a bind call: {"Error": ""} where the pod is bound."""
        fields = _by_lower_name(arguments)
        namespace, name = str(fields.get("podnamespace", "")), str(fields.get("podname", ""))
        pod_uid, node = str(fields.get("poduid", "")), str(fields.get("node", ""))
        if not (namespace and name and node):
            return {"Error": "the bind call lacks PodName, PodNamespace or Node"}
        try:
            with self._condition:
                try:
                    words = self._bind(namespace, name, pod_uid, node)
                finally:
                    self._bind_ends.pop(pod_uid, None)
                    self._condition.notify_all()
        except EmulatorError as error:
            self.log(f"bind {namespace}/{name} to {node}: {_one_line(error)}")
            return {"Error": _one_line(error)}
        self.log(f"bind {namespace}/{name} to {node}: {words}")
        return {"Error": ""}

    def _wait_for_binds(self, own_uid: str) -> None:
        """Wait until pods that fitted in earlier calls are bound, and their devices no longer free.

        kube-scheduler binds a pod while it already filters the next one.
        """
        while True:
            now_s = time.monotonic()
            ends = [end_s for pod_uid, end_s in self._bind_ends.items() if pod_uid != own_uid]
            open_ends = [end_s for end_s in ends if end_s > now_s]
            if not open_ends:
                break
            self._condition.wait(max(open_ends) - now_s)
        self._bind_ends.clear()

    def _sort_nodes(
        self, pod: Object, offered_nodes: Mapping[str, Object | None]
    ) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Names of nodes that fit, reasons of the others, and of these reasons the lasting ones."""
        pod_demands = demands(pod)
        if not pod_demands:
            return list(offered_nodes), {}, {}
        is_old = time.monotonic() - self._nodes_read_s >= _NODES_S
        if is_old or not offered_nodes.keys() <= self.nodes.keys():
            self._read_nodes()
        is_fresh = False
        while True:
            fitting_names, failures, final_failures = self._judge_nodes(pod_demands, offered_nodes)
            if is_fresh or failures.keys() == final_failures.keys():
                return fitting_names, failures, final_failures
            self._read_nodes()
            self._read_pods()
            is_fresh = True

    def _judge_nodes(
        self, pod_demands: Sequence[ContainerDemand], offered_nodes: Mapping[str, Object | None]
    ) -> tuple[list[str], dict[str, str], dict[str, str]]:
        fitting_names: list[str] = []
        failures: dict[str, str] = {}
        final_failures: dict[str, str] = {}
        for name, sent_node in offered_nodes.items():
            node = sent_node or self.nodes.get(name)
            if node is None:
                failures[name] = final_failures[name] = f"the API has no node {name}"
                continue
            try:
                neuron = neuron_node(node)
                refusal = first_refusal(neuron, pod_demands)
                if refusal is not None:
                    failures[name] = final_failures[name] = refusal.reason
                elif place(neuron, pod_demands, free_cores(neuron, self._pods_on(name))) is None:
                    failures[name] = NO_ROOM
                else:
                    fitting_names.append(name)
            except (ApiDown, ApiRefused):
                raise
            except BadInput as error:
                failures[name] = _one_line(error)
        return fitting_names, failures, final_failures

    def _bind(self, namespace: str, name: str, pod_uid: str, node_name: str) -> str:
        """Bind a pod with its devices; a few words for the log.

        Raises:
            BadInput: the pod is gone, bound or another by now; the node is unknown or has no room;
                the API is down or refuses.
        """
        pod = self._pod(namespace, name, pod_uid)
        pod_demands = demands(pod)
        if node_of(pod):
            return _bound_before(pod, node_name, pod_demands)
        neuron, sets = self._placement(node_name, pod_demands)
        binding: Object = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        annotations: dict[str, str] = {}
        if neuron is not None:
            annotations = placement_annotations(
                pod_demands, sets, neuron.cores_per_device, self._time_ns()
            )
            binding["metadata"]["annotations"] = annotations
        try:
            self.api.post(f"{pod_path(namespace, name)}/binding", binding)
        except ApiDown:
            self.pods_by_node.pop(node_name, None)  # nobody knows whether it is bound: read anew
            raise
        except ApiRefused as error:
            self.pods_by_node.pop(node_name, None)
            raise _refused_bind(error, namespace, name) from error
        if neuron is None:
            return "no Neuron devices"
        pod["spec"]["nodeName"] = node_name
        pod["metadata"]["annotations"] = {
            **(pod["metadata"].get("annotations") or {}),
            **annotations,
        }
        self.pods_by_node.setdefault(node_name, {})[uid(pod)] = pod
        return f"{SETS} {annotations[SETS]}"

    def _pod(self, namespace: str, name: str, pod_uid: str) -> Object:
        """The pod of a bind call.

        Raises:
            BadInput: the pod was deleted since the filter call, or another pod has its name.
        """
        try:
            pod = self.api.get(pod_path(namespace, name))
        except ApiRefused as error:
            if error.status != _NOT_FOUND:
                raise
            raise _deletion_error(namespace, name) from error
        if pod_uid and uid(pod) != pod_uid:
            raise BadInput(
                f"pod {namespace}/{name} was deleted and created again: its uid is {uid(pod)}, and "
                f"the bind call is for {pod_uid}"
            )
        return pod

    def _placement(
        self, node_name: str, pod_demands: Sequence[ContainerDemand]
    ) -> tuple[NeuronNode | None, Placement]:
        """The sets of cores of each container on a node, by the pods that are on it now.

        Raises:
            BadInput: the node is unknown, has no room, or cannot hold such sets.
        """
        if not pod_demands:
            return None, {}
        try:
            node = self.nodes[node_name] = self.api.get(node_path(node_name))
        except ApiRefused as error:
            if error.status != _NOT_FOUND:
                raise
            self.nodes.pop(node_name, None)
            raise BadInput(
                f"node {node_name} of the bind call is unknown to the API",
                fix="kubectl get nodes lists the nodes",
            ) from error
        neuron = neuron_node(node)
        refusal = first_refusal(neuron, pod_demands)
        if refusal is not None:
            raise BadInput(refusal.reason, fix=refusal.fix, source=refusal.source)
        self.pods_by_node.pop(node_name, None)  # its pods are read anew
        sets = place(neuron, pod_demands, free_cores(neuron, self._pods_on(node_name)))
        if sets is None:
            raise BadInput(f"node {node_name} has {NO_ROOM} any more")
        return neuron, sets

    def _pods_on(self, name: str) -> list[Object]:
        """Pods on a node; read from the API where they are not known."""
        if name not in self.pods_by_node:
            self._remember(self.api.list(PODS, fieldSelector=f"spec.nodeName={name}"), [name])
        return list(self.pods_by_node[name].values())

    def _read_pods(self) -> None:
        pods = self.api.list(PODS, fieldSelector="spec.nodeName!=")
        self.pods_by_node.clear()
        self._remember(pods, self.nodes)
        self._compare_clocks()

    def _remember(self, pods: Sequence[Object], names: Sequence[str] | Mapping[str, Any]) -> None:
        """Replace the pods of the nodes called `names` with those of `pods`."""
        by_node: dict[str, dict[str, Object]] = defaultdict(dict)
        for pod in pods:
            if not has_ended(pod) and _may_hold(pod):
                by_node[node_of(pod)][uid(pod)] = pod
        for name in {*names, *by_node}:
            self.pods_by_node[name] = by_node[name]

    def _read_nodes(self) -> None:
        self.nodes = {name_of(node): node for node in self.api.list(node_path())}
        self._nodes_read_s = time.monotonic()

    def _time_ns(self) -> int:
        """The time of the API's clock, by which the annotations of all pods are ordered."""
        return time.time_ns() + int(self.api.skew_s * 1e9)

    def _compare_clocks(self) -> None:
        """Log once that this machine's clock is off; placements do not depend on it."""
        skew_s = self.api.skew_s
        is_skewed = abs(skew_s) > _MOST_SKEW_S
        if is_skewed and not self._is_skewed:
            direction = "behind" if skew_s > 0 else "ahead of"
            self.log(
                f"the clock of this machine is {abs(skew_s):.0f} s {direction} the API's; "
                "NEURON_ALLOC_TIME follows the API's"
            )
        self._is_skewed = is_skewed


def _by_lower_name(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by their names in lower case: Go reads JSON so, and callers write both."""
    return {str(name).lower(): value for name, value in arguments.items()}


def _offered_nodes(node_objects: Any, names: Any) -> dict[str, Object | None]:
    """The nodes of a filter call: only names, or names and objects.

    Raises:
        BadInput: the call has neither names nor objects.
    """
    if isinstance(node_objects, list):
        return {name_of(node): node for node in entries(node_objects)}
    if isinstance(names, list):
        return dict.fromkeys(map(str, names))
    raise BadInput(
        "the filter call has neither NodeNames nor Nodes",
        fix="nodeCacheCapable: true in the extender's configuration",
    )


def _may_hold(pod: Object) -> bool:
    """True if a pod requests devices, or its request cannot be read."""
    try:
        return bool(demands(pod))
    except BadInput:
        return True


def _bound_before(pod: Object, node_name: str, pod_demands: Sequence[ContainerDemand]) -> str:
    """Words for a pod that an earlier bind call bound to the same node, with its devices.

    Raises:
        BadInput: the pod is bound to another node, or without devices.
    """
    is_placed = not pod_demands or SETS in mapping(metadata(pod).get("annotations"))
    if node_of(pod) == node_name and is_placed:
        return "bound before"
    raise BadInput(
        f"pod {title(pod)} is bound to {node_of(pod)} already"
        + ("" if is_placed else ", without devices, by another scheduler"),
        fix="give each pod one schedulerName, and run one scheduler with this extension",
    )


def _deletion_error(namespace: str, name: str) -> BadInput:
    return BadInput(f"pod {namespace}/{name} was deleted before it was bound")


def _refused_bind(error: ApiRefused, namespace: str, name: str) -> BadInput:
    """The error of a Binding that the API refused."""
    if error.status == _NOT_FOUND:
        return _deletion_error(namespace, name)
    if error.status == _CONFLICT:
        return BadInput(
            f"pod {namespace}/{name} was bound or deleted during this bind call: {error.reason}"
        )
    return error


def _one_line(error: EmulatorError) -> str:
    """Reason and fix of an error."""
    return f"{error.reason}; fix: {error.fix}" if error.fix else error.reason


def _reasons(failures: Mapping[str, str]) -> str:
    """Text of the reasons, each after the names of its nodes."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in failures.items():
        by_reason[reason].append(name)
    return "".join(f"; {', '.join(names)}: {reason}" for reason, names in by_reason.items())
