"""A node of a cluster as its object shows it: instance, devices, cores and broken devices.

Source: Kubernetes documentation, Well-known labels (node.kubernetes.io/instance-type) and Device
plugins (a plugin's devices are the capacity of its node).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trnsim.cluster.kubernetes.api import Object, mapping, metadata, name_of
from trnsim.cluster.kubernetes.pods import CORES, DEVICES, OLDER_DEVICES, held_cores, numbers, title
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model, instance_named

INSTANCE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
UNHEALTHY: Final = "trnsim/unhealthy-devices"
"""An annotation with the numbers of broken devices, such as "3,7": a capacity is only a number."""


@dataclass(frozen=True)
class NeuronNode:
    """A node with Neuron devices.

    Attributes:
        instance: the instance type.
        devices: number of devices that the device plugin advertises.
        cores_per_device: logical cores of a device.
        unhealthy: numbers of broken devices.
    """

    name: str
    instance: str
    devices: int
    cores_per_device: int
    unhealthy: frozenset[int] = frozenset()

    @property
    def cores(self) -> range:
        """Numbers of all cores."""
        return range(self.devices * self.cores_per_device)

    def cores_of(self, devices: Iterable[int]) -> frozenset[int]:
        """Numbers of the cores of some devices."""
        return frozenset(
            core
            for device in devices
            for core in range(device * self.cores_per_device, (device + 1) * self.cores_per_device)
        )


def neuron_node(node: Object) -> NeuronNode:
    """The node that an object describes.

    Raises:
        BadInput: the node has no label of an instance with Neuron devices, or no plugin advertises
            devices, or more than the instance has.
    """
    name, labels = name_of(node), mapping(metadata(node).get("labels"))
    instance = next((labels[label] for label in INSTANCE_LABELS if label in labels), None)
    if instance is None:
        raise BadInput(
            f"node {name} has no label {INSTANCE_LABELS[0]}",
            fix=f"kubectl label node {name} {INSTANCE_LABELS[0]}=trn2.48xlarge",
        )
    capacity = mapping(mapping(node.get("status")).get("capacity"))
    devices = _whole_number(capacity.get(DEVICES)) or _whole_number(capacity.get(OLDER_DEVICES))
    row = instance_named(str(instance))
    if not devices:
        raise BadInput(
            f"node {name} ({row.name}) advertises no {DEVICES}",
            fix="run the device plugin on it: trnsim k8s device-plugin",
        )
    if devices > row.count:
        raise BadInput(
            f"node {name} advertises {devices} {DEVICES}; legal on {row.name}: at most {row.count}",
            fix=f"correct its label {INSTANCE_LABELS[0]}, or its device plugin",
        )
    cores = _whole_number(capacity.get(CORES))
    is_even = bool(cores) and cores % devices == 0
    per_device = cores // devices if is_even else instance_model(row.name).devices[0].cores
    broken_devices = numbers(mapping(metadata(node).get("annotations")).get(UNHEALTHY))
    return NeuronNode(name, row.name, devices, per_device, broken_devices)


def _whole_number(quantity: object) -> int:
    """The number of a capacity; 0 for one that is missing, or is no number."""
    text = str(quantity or "")
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0


def free_cores(node: NeuronNode, pods: Iterable[Object]) -> frozenset[int]:
    """Cores of healthy devices that none of the node's `pods` holds.

    Raises:
        BadInput: if a pod does not state its devices, or two pods hold the same device.
    """
    free_numbers = frozenset(node.cores) - node.cores_of(node.unhealthy)
    holder_of: dict[int, str] = {}
    for pod in pods:
        cores = held_cores(pod, node.cores_per_device)
        twice = cores.intersection(holder_of)
        if twice:
            core = min(twice)
            raise BadInput(
                f"node {node.name}: pods {holder_of[core]} and {title(pod)} both hold core {core}",
                fix=f"delete one of them: kubectl delete pod -n {title(pod).replace('/', ' ')}",
            )
        holder_of |= dict.fromkeys(cores, title(pod))
    return free_numbers.difference(holder_of)
