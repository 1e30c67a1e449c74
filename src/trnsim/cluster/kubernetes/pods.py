"""The Neuron devices that a pod requests, and the devices that it holds by its annotations.

A pod holds cores of its node: `NEURON_CORES` lists them, and `trnsim/neuron-sets` has the devices
of each container. Devices are held as all of their cores, so that devices and cores of one node are
never both lent.

Sources: aws-neuron-sdk@81ce03ae deploy/infrastructure/scheduler-flow.rst, steps 7 and 10 (the
annotation NEURON_CORES, which the device plugin reads), src/k8/my-scheduler.yml (names of the
resources). AWS_NEURON_IDS, NEURON_RESOURCE_TYPE, NEURON_ALLOC_TIME and NEURON_ALLOCATED are named
by no AWS document; schedulers of others write them for AWS's device plugin
(Project-HAMi/HAMi@0b9cf5d9 pkg/device/awsneuron/device.go).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.cluster.kubernetes.api import Object, entries, mapping, metadata, name_of
from trnsim.errors import BadInput
from trnsim.instance.device_sets import CoreSet

CORES: Final = "aws.amazon.com/neuroncore"
DEVICES: Final = "aws.amazon.com/neuron"
OLDER_DEVICES: Final = "aws.amazon.com/neurondevice"
"""A former name of DEVICES (release-notes/components/containers.rst: no longer advertised)."""
RESOURCES: Final = (DEVICES, OLDER_DEVICES, CORES)

HELD_CORES: Final = "NEURON_CORES"
IDS: Final = "AWS_NEURON_IDS"
RESOURCE: Final = "NEURON_RESOURCE_TYPE"
ALLOCATED: Final = "NEURON_ALLOCATED"
TIME: Final = "NEURON_ALLOC_TIME"
SETS: Final = "trnsim/neuron-sets"

_ENDED: Final = ("Succeeded", "Failed")
_QUANTITY: Final = re.compile(r"(\d{1,9})(k?)", re.ASCII)
_NUMBERS: Final = re.compile(r"\d{1,6}(,\d{1,6})*", re.ASCII)
_SOURCE: Final = "aws-neuron-sdk deploy/infrastructure/scheduler-flow.rst"


@dataclass(frozen=True)
class ContainerDemand:
    """The devices or cores that one container requests.

    Attributes:
        count: number of devices or cores.
        is_of_cores: True for cores.
        is_initial: True for a container that ends before the others start; they get its devices.
    """

    container: str
    count: int
    is_of_cores: bool
    is_initial: bool = False


def title(pod: Object) -> str:
    """Namespace and name of a pod."""
    return f"{metadata(pod).get('namespace', 'default')}/{name_of(pod)}"


def uid(pod: Object) -> str:
    """The id that the API gave a pod; "" without one."""
    return str(metadata(pod).get("uid", ""))


def node_of(pod: Object) -> str:
    """The node that a pod is bound to; "" before."""
    return str(mapping(pod.get("spec")).get("nodeName") or "")


def has_ended(pod: Object) -> bool:
    """True if all containers of a pod have ended for good: it holds nothing more."""
    return mapping(pod.get("status")).get("phase") in _ENDED


def demands(pod: Object) -> list[ContainerDemand]:
    """The demands of a pod's containers, in their order; [] for a pod without Neuron devices.

    Raises:
        BadInput: a quantity is no whole number, or a container names two resources.
    """
    spec = mapping(pod.get("spec"))
    initial = [
        _demand(pod, container, is_initial=container.get("restartPolicy") != "Always")
        for container in entries(spec.get("initContainers"))
    ]
    main = [_demand(pod, container) for container in entries(spec.get("containers"))]
    return [demand for demand in (*initial, *main) if demand is not None]


def _demand(pod: Object, container: Object, *, is_initial: bool = False) -> ContainerDemand | None:
    """The demand of a container; None where it requests no device.

    Raises:
        BadInput: as of `demands`.
    """
    resources = mapping(container.get("resources"))
    amounts = mapping(resources.get("requests")) | mapping(resources.get("limits"))
    counts = {name: _count(pod, name, amounts[name]) for name in RESOURCES if name in amounts}
    names = [name for name, count in counts.items() if count]
    if not names:
        return None
    container_name = str(container.get("name", ""))
    if len(names) > 1:
        raise BadInput(
            f"pod {title(pod)}, container {container_name}: requests {' and '.join(names)}; "
            "legal: one of them",
            fix=f"request {names[0]} alone",
        )
    return ContainerDemand(container_name, counts[names[0]], names[0] == CORES, is_initial)


def _count(pod: Object, name: str, quantity: object) -> int:
    """The whole number of a quantity, as the API writes it: "4", or "1k" for 1000.

    Raises:
        BadInput: the text is no quantity.
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise BadInput(
            f"pod {title(pod)}: {name} is {quantity!r}; legal: a whole number of devices or cores",
            fix=f'for example {name}: "1"',
        )
    return int(match[1]) * (1000 if match[2] else 1)


def placement_annotations(
    pod_demands: Sequence[ContainerDemand],
    sets: Mapping[str, CoreSet],
    cores_per_device: int,
    time_ns: int,
) -> dict[str, str]:
    """The annotations of a pod whose containers hold the core sets `sets`."""
    cores = sorted({core for core_set in sets.values() for core in core_set})
    is_of_cores = any(demand.is_of_cores for demand in pod_demands)
    devices = sorted({core // cores_per_device for core in cores})
    return {
        HELD_CORES: _comma_list(cores),
        IDS: _comma_list(cores if is_of_cores else devices),
        RESOURCE: CORES if is_of_cores else DEVICES,
        ALLOCATED: "false",
        TIME: str(time_ns),
        SETS: ";".join(
            f"{container}={_comma_list(core_set)}" for container, core_set in sets.items()
        ),
    }


def _comma_list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def held_cores(pod: Object, cores_per_device: int) -> frozenset[int]:
    """The NeuronCores that a bound pod holds on its node, by its annotations.

    Raises:
        BadInput: for a pod that requests devices and has no readable annotation that names them.
    """
    pod_demands = demands(pod)
    if not pod_demands or has_ended(pod):
        return frozenset()
    annotations = mapping(metadata(pod).get("annotations"))
    cores = numbers(annotations.get(HELD_CORES))
    if cores:
        return cores
    ids = numbers(annotations.get(IDS))
    if ids and any(demand.is_of_cores for demand in pod_demands):
        return ids
    if ids:
        first_cores = (device * cores_per_device for device in ids)
        return frozenset(
            core
            for first_core in first_cores
            for core in range(first_core, first_core + cores_per_device)
        )
    raise BadInput(
        f"pod {title(pod)} on node {node_of(pod)} requests Neuron devices, and its annotation "
        f"{HELD_CORES} is {annotations.get(HELD_CORES)!r}: no number of a core says which it holds",
        fix="delete it, and let the scheduler with this extension place it",
        source=_SOURCE,
    )


def numbers(text: Any) -> frozenset[int]:
    """The numbers in "2,3"; none for other texts."""
    if not isinstance(text, str) or not _NUMBERS.fullmatch(text):
        return frozenset()
    return frozenset(map(int, text.split(",")))
