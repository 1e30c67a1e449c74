"""Misspelled names of resources: resources that containers request and no node offers.

Kubernetes takes any name below a domain: a pod that requests an unknown resource waits for ever, or
starts without the devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import reduce
from typing import Any, Final

from trnsim.errors import SourceLine
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.spec import is_template
from trnsim.reader import SourcePlace

_NODE_RESOURCES: Final = (
    *("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"),
    *("vpc.amazonaws.com/efa", "nvidia.com/gpu", "hugepages-2Mi", "hugepages-1Gi"),
    *("cpu", "memory", "ephemeral-storage"),
)
_LEAST_SIMILARITY: Final = 0.85
_MOST_CHARS: Final = 100
_SOURCE: Final = (
    "aws-neuron-sdk deploy/includes/k8s-neuron-device-plugin.rst; kubernetes.io docs, Resource "
    "Management for Pods and Containers"
)


def misspelled_resources(place: SourcePlace) -> Iterator[tuple[FieldFault, SourceLine]]:
    """The faults of names below `resources` of containers, with their lines."""
    for keys in _resource_keys(place.value, ()):
        name = str(keys[-1])
        if near_name := "" if name in _NODE_RESOURCES or is_template(name) else _near_name(name):
            reason = f"{name[:_MOST_CHARS]} is no resource that nodes offer; {near_name} is"
            fault = FieldFault(
                keys, "misspelled-resource", reason, f"rename it to {near_name}", _SOURCE
            )
            yield fault, reduce(SourcePlace.inner, keys, place).line


def _resource_keys(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """The keys of each resource in limits and requests of a document."""
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in rows:
        if keys[-1:] in (("limits",), ("requests",)) and keys[-2:-1] == ("resources",):
            yield (*keys, key)
        elif isinstance(part, dict | list):
            yield from _resource_keys(part, (*keys, key))


def _near_name(name: str) -> str:
    """The offered resource of almost this name, or of this name below another domain."""
    last_part = name.rpartition("/")[2]
    namesakes = (
        name for name in _NODE_RESOURCES if "/" in name and name.partition("/")[2] == last_part
    )
    near_names = get_close_matches(name[:_MOST_CHARS], _NODE_RESOURCES, 1, _LEAST_SIMILARITY)
    return near_names[0] if near_names else next(namesakes, "")
