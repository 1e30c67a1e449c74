"""Parts of a pod that contradict each other: volumes, amounts, variables and labels.

Kubernetes refuses such a pod, except for a variable in a container that does not read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

from trnsim.errors import SourceLine
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.formats.kubernetes_quantity import parse_quantity
from trnsim.jobs.job import LNC_VARIABLES
from trnsim.jobs.spec import is_template
from trnsim.reader import SourcePlace

Keys = tuple[str | int, ...]
_VALIDATION: Final = "kubernetes pkg/apis/core/validation/validation.go"
_SET_VALIDATION: Final = "kubernetes pkg/apis/apps/validation/validation.go"
_LNC_PAGE: Final = "aws-neuron-sdk about-neuron/arch/neuron-features/logical-neuroncore-config.rst"
_DEVICES: Final = "aws.amazon.com/"
_RUNTIME: Final = ("NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES", *LNC_VARIABLES)
_PAGE_BYTES: Final = {"hugepages-2Mi": 2 * 2**20, "hugepages-1Gi": 2**30}
_SETS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


def pod_faults(place: SourcePlace) -> Iterator[tuple[FieldFault, SourceLine]]:
    """The contradictions in the pods of a manifest, with their lines."""
    faults = [*_selector(place.value)]
    claims_volumes = place.value.get("kind") == "StatefulSet"
    for keys, pod in _pods(place.value, ()):
        if not claims_volumes:
            faults += _volumes(keys, pod)
        faults += _containers(keys, pod)
    for fault in faults:
        yield fault, reduce(SourcePlace.inner, fault.keys, place).line


def _pods(value: Any, keys: Keys) -> Iterator[tuple[Keys, dict[str, Any]]]:
    """Pods in a document, which are mappings with a list of containers, with their keys."""
    if isinstance(value, dict) and isinstance(value.get("containers"), list):
        yield keys, value
        return
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in rows:
        if isinstance(part, dict | list):
            yield from _pods(part, (*keys, key))


def _rows(value: Any, name: str) -> list[tuple[int, dict[str, Any]]]:
    """The mappings in a list below a mapping, with their indexes."""
    items = value.get(name) if isinstance(value, dict) else None
    rows = items if isinstance(items, list) else []
    return [(index, item) for index, item in enumerate(rows) if isinstance(item, dict)]


def _is_templated(value: Any) -> bool:
    """True if a template fills in a value, or a name of a mapping, later."""
    texts = value if isinstance(value, dict) else (value,)
    return any(isinstance(text, str) and is_template(text) for text in texts)


def _volumes(keys: Keys, pod: dict[str, Any]) -> Iterator[FieldFault]:
    volumes = [volume.get("name") for _, volume in _rows(pod, "volumes")]
    if _is_templated(pod) or _is_templated(pod.get("volumes")) or any(map(_is_templated, volumes)):
        return
    for container_index, container in _rows(pod, "containers"):
        for index, mount in _rows(container, "volumeMounts"):
            name = mount.get("name")
            if not isinstance(name, str) or name in volumes or _is_templated(name):
                continue
            names = ", ".join(str(volume) for volume in volumes)
            which = f"; its volumes: {names}" if names else ", which has none"
            yield FieldFault(
                (*keys, "containers", container_index, "volumeMounts", index, "name"),
                "volume-name",
                f"{name[:60]} is no volume of the pod{which}",
                f"add it to volumes, or name {volumes[0]}" if volumes else "add it to volumes",
                f"{_VALIDATION}, ValidateVolumeMounts",
            )


def _containers(keys: Keys, pod: dict[str, Any]) -> Iterator[FieldFault]:
    containers = _rows(pod, "containers")
    owners = [container.get("name") for _, container in containers if _has_devices(container)]
    for container_index, container in containers:
        container_keys = (*keys, "containers", container_index)
        yield from _amounts((*container_keys, "resources"), container.get("resources"))
        if owners and not _has_devices(container):
            yield from _variables(container_keys, container, str(owners[0]))


def _has_devices(container: dict[str, Any]) -> bool:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    return isinstance(limits, dict) and any(str(name).startswith(_DEVICES) for name in limits)


def _amounts(keys: Keys, resources: Any) -> Iterator[FieldFault]:
    limits, requests = (
        resources.get(name) if isinstance(resources, dict) else None
        for name in ("limits", "requests")
    )
    limits = limits if isinstance(limits, dict) else {}
    requests = requests if isinstance(requests, dict) else {}
    for name in ("cpu", "memory"):
        request, limit = parse_quantity(requests.get(name)), parse_quantity(limits.get(name))
        if request is not None and limit is not None and request > limit:
            yield FieldFault(
                (*keys, "requests", name),
                "request-above-limit",
                f"{requests[name]} of {name} are requested, and {limits[name]} are the limit",
                f"request {limits[name]} or less",
                f"{_VALIDATION}, ValidateContainerResourceRequirements",
            )
    for name, page_bytes in _PAGE_BYTES.items():
        size = parse_quantity(limits.get(name))
        if size is not None and size % page_bytes:
            unit = name.partition("-")[2]
            yield FieldFault(
                (*keys, "limits", name),
                "huge-page-size",
                f"{limits[name]} is no number of pages of {unit}",
                f"write a multiple of {unit} with its unit, such as {10 * int(unit[0])}{unit[1:]}",
                f"{_VALIDATION}, validateResourceQuantityHugePageValue",
            )


def _variables(keys: Keys, container: dict[str, Any], owner: str) -> Iterator[FieldFault]:
    for index, variable in _rows(container, "env"):
        name = variable.get("name")
        if name in _RUNTIME:
            yield FieldFault(
                (*keys, "env", index, "name"),
                "other-container",
                f"{name} is set in a container without devices; those of the pod are in {owner}",
                f"move it to {owner}",
                _LNC_PAGE,
            )


def _selector(value: Any) -> Iterator[FieldFault]:
    """Faults of labels by which a set finds its pods, and which the pods lack."""
    spec = value.get("spec")
    if value.get("kind") not in _SETS or not isinstance(spec, dict):
        return
    selector: Any = spec.get("selector")
    labels: Any = spec.get("template")
    for name in ("metadata", "labels"):
        labels = labels.get(name) if isinstance(labels, dict) else None
    match_labels = selector.get("matchLabels") if isinstance(selector, dict) else None
    if not isinstance(match_labels, dict) or _is_templated(match_labels) or _is_templated(labels):
        return
    pod_labels = labels if isinstance(labels, dict) else {}
    for name, label in match_labels.items():
        if (
            pod_labels.get(name) != label
            and not _is_templated(label)
            and not _is_templated(pod_labels.get(name))
        ):
            yield FieldFault(
                ("spec", "selector", "matchLabels", name),
                "selector-labels",
                f"pods are found by the label {name}: {label}, which the template does not have",
                f"add {name}: {label} to the labels of the template",
                f"{_SET_VALIDATION}, ValidatePodTemplateSpecForReplicaSet",
            )
