"""Accelerators that a pod requests in all: those of its containers, sidecars and init containers.

Kubernetes reserves for a pod the larger of what its containers and sidecars have together, and of
what each init container has beside the sidecars before it. A sidecar is an init container with
``restartPolicy: Always``. Sources: Kubernetes documentation, Sidecar Containers and Init
Containers, Resource sharing within containers.
"""

from __future__ import annotations

from typing import Final

from trnsim.jobs.formats.kubernetes import Keys
from trnsim.jobs.formats.kubernetes_quantity import parse_quantity
from trnsim.jobs.spec import SpecReader

ACCELERATORS: Final = {
    "aws.amazon.com/neuron": "devices",
    "aws.amazon.com/neurondevice": "devices",
    "aws.amazon.com/neuroncore": "cores",
    "nvidia.com/gpu": "gpus",
}
"""Fields of a role by resource."""


Request = tuple[str, int]
"""A field of a role, and a number."""


def pod_requests(reader: SpecReader, pod: Keys, main: Keys, path: str) -> tuple[Request, ...]:
    """Fields of a role and the numbers that its pod requests, if more than its container's own.

    The values of other containers are kept, and count as understood.

    Args:
        reader: the document.
        pod: keys of the pod's spec.
        main: keys of the role's container.
        path: path of the role in the job.
    """
    requests = []
    for field in dict.fromkeys(ACCELERATORS.values()):
        total = _pod_count(reader, pod, field)
        if total > _count(reader, main, field):
            requests.append((field, total))
            _note_places(reader, pod, main, field, f"{path}.{field}")
    return tuple(requests)


def _pod_count(reader: SpecReader, pod: Keys, field: str) -> int:
    running_count, most_running = 0, 0
    for keys in _containers(reader, pod, "initContainers"):
        count = _count(reader, keys, field)
        most_running = max(most_running, running_count + count)
        if reader.value(*keys, "restartPolicy") == "Always":
            running_count += count
    main_count = sum(_count(reader, keys, field) for keys in _containers(reader, pod, "containers"))
    return max(most_running, running_count + main_count)


def _containers(reader: SpecReader, pod: Keys, kind: str) -> list[Keys]:
    return [(*pod, kind, index) for index in range(reader.length(*pod, kind))]


def _count(reader: SpecReader, container: Keys, field: str) -> int:
    """The number of a container, by its limit or else its request; 0 where a template states it."""
    for keys in _places(container, field):
        number = parse_quantity(reader.value(*keys))
        if number is not None:
            return int(number)
    return 0


def _places(container: Keys, field: str) -> list[Keys]:
    names = [name for name, other_field in ACCELERATORS.items() if other_field == field]
    return [
        (*container, "resources", kind, name) for name in names for kind in ("limits", "requests")
    ]


def _note_places(reader: SpecReader, pod: Keys, main: Keys, field: str, path: str) -> None:
    """Mark the numbers of other containers as understood, and give the field their line."""
    containers = [
        *_containers(reader, pod, "initContainers"),
        *_containers(reader, pod, "containers"),
    ]
    for keys in (place for row in containers if row != main for place in _places(row, field)):
        place = reader.place(*keys)
        if place is not None:
            reader.read_keys.add(keys)
            reader.lines.setdefault(path, place.line)
