"""Devices that a scheduler extension has chosen for a pod which kubelet is about to start.

Kubelet gives a plugin no name of a pod. The chosen set belongs to the pod on this node that was
scheduled first, among the pods whose container holds nothing yet and requests as many.

Source: aws-neuron-sdk deploy/infrastructure/scheduler-flow.rst: the device plugin reads the
annotation NEURON_CORES of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trnsim.cluster.kubernetes.api import (
    PODS,
    KubernetesApi,
    Object,
    entries,
    mapping,
    metadata,
    name_of,
)
from trnsim.cluster.kubernetes.node_devices import NEURONCORE, ContainerHolding
from trnsim.cluster.kubernetes.pods import (
    HELD_CORES,
    SETS,
    ContainerDemand,
    demands,
    has_ended,
    numbers,
)
from trnsim.errors import BadInput


@dataclass(frozen=True, order=True)
class Reservation:
    """The set of a container that kubelet has not started yet.

    Attributes:
        scheduled_at: the time when the pod was bound, as the API writes it.
        cores: numbers of its cores, ascending.
        is_of_cores: True where the container requests cores, not devices.
    """

    scheduled_at: str
    namespace: str
    pod: str
    container: str
    cores: tuple[int, ...]
    is_of_cores: bool


def reservations(
    api: KubernetesApi, node: str, holdings: Iterable[ContainerHolding]
) -> list[Reservation]:
    """The sets of containers on `node` that hold nothing yet, the first scheduled first.

    Raises:
        BadInput: the API does not answer.
    """
    holders = {(holding.namespace, holding.pod, holding.container) for holding in holdings}
    return sorted(
        reservation
        for pod in api.list(PODS, fieldSelector=f"spec.nodeName={node}")
        if not has_ended(pod)
        for reservation in _pod_reservations(pod)
        if (reservation.namespace, reservation.pod, reservation.container) not in holders
    )


def first_reserved(
    reserved: Iterable[Reservation], resource: str, count: int, cores_per_device: int
) -> list[str] | None:
    """The ids of the first set of `count` devices or cores; None without one.

    Args:
        reserved: sets, the first scheduled first.
        resource: the resource that kubelet allocates.
        count: number of ids.
        cores_per_device: logical cores of a device.
    """
    is_of_cores = resource == NEURONCORE
    for reservation in reserved:
        cores = reservation.cores
        if not is_of_cores:
            cores = tuple(sorted({core // cores_per_device for core in cores}))
        if reservation.is_of_cores is is_of_cores and len(cores) == count:
            return [str(number) for number in cores]
    return None


def _pod_reservations(pod: Object) -> Iterator[Reservation]:
    """The sets of a pod's containers; none of a pod whose request is not legal.

    The extension places no such pod, whose request must not keep others from their devices.
    """
    try:
        pod_demands = demands(pod)
    except BadInput:
        return
    for demand in pod_demands:
        cores = _cores(mapping(metadata(pod).get("annotations")), demand, len(pod_demands))
        if cores:
            yield Reservation(
                _scheduled_at(pod),
                str(metadata(pod).get("namespace", "")),
                name_of(pod),
                demand.container,
                tuple(sorted(cores)),
                demand.is_of_cores,
            )


def _cores(annotations: Object, demand: ContainerDemand, containers: int) -> frozenset[int]:
    """The cores of a container; AWS's own annotation states them if the pod has one container."""
    sets = annotations.get(SETS)
    if isinstance(sets, str):
        pairs = (part.partition("=") for part in sets.split(";"))
        return numbers(next((text for name, _, text in pairs if name == demand.container), None))
    return numbers(annotations.get(HELD_CORES)) if containers == 1 else frozenset()


def _scheduled_at(pod: Object) -> str:
    for condition in entries(mapping(pod.get("status")).get("conditions")):
        if condition.get("type") == "PodScheduled":
            return str(condition.get("lastTransitionTime") or "")
    return str(metadata(pod).get("creationTimestamp") or "")
