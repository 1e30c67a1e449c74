"""Documents that are almost specs: a kind, an API version or a field that is misspelled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.correction import near_name
from trnsim.jobs.spec import is_template
from trnsim.reader import SourcePlace

_VERSION: Final = "apiVersion"
_MOST_CHARS: Final = 60
_OTHER_FIX: Final = "name the file of a workload"
_VERSIONS: Final = {
    "Pod": "v1",
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), "apps/v1"),
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
    "HyperPodPyTorchJob": "sagemaker.amazonaws.com/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayJob": "ray.io/v1",
    "RayCluster": "ray.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}
"""API versions by the kinds that are read. Source: kubernetes.io docs, API reference; the
definitions of the custom resources."""
_OTHER_DOCUMENTS: Final = (
    ("an ECS task definition", "family", ("containerDefinitions",)),
    ("a Batch job definition", "jobDefinitionName", ("type", "containerProperties")),
    ("a SageMaker training job", "TrainingJobName", ("AlgorithmSpecification", "ResourceConfig")),
    ("a SageMaker endpoint configuration", "EndpointConfigName", ("ProductionVariants",)),
)
"""Documents that are no manifests: in words, the field with the name, and other fields."""


def nearest_error(roots: Sequence[SourcePlace]) -> BadInput | None:
    """The error of a document that is almost a spec; None without such a document.

    The error of a kind that runs no job is returned only if there is no other.
    """
    errors = [error for root in roots if isinstance(root.value, dict) for error in _faults(root)]
    return min(errors, key=lambda error: error.fix == _OTHER_FIX, default=None)


def _faults(root: SourcePlace) -> Iterator[BadInput]:
    value: dict[Any, Any] = root.value
    kind = value.get("kind")
    if isinstance(kind, str) and not is_template(kind):
        yield from _kind(root, kind)
    elif _VERSION in value:
        yield from _misspelled_names(root, "kind")
    if isinstance(value.get("Scheduling"), dict):
        yield from _missing_parts(
            root.inner("Scheduling"), "a cluster's Scheduling", ("SlurmQueues",)
        )
    yield from _misspelled_names(root, "Scheduling")
    for title, name, parts in _OTHER_DOCUMENTS:
        if name in value:
            yield from _missing_parts(root, title, parts)
        elif any(part in value for part in parts):
            yield from _misspelled_names(root, name)
    if "trainer" in value:
        yield from _misspelled_names(root, "distributed_strategy")
    yield from _misspelled_names(root, "containerDefinitions")


def _kind(root: SourcePlace, kind: str) -> Iterator[BadInput]:
    """The faults of a manifest's kind and API version."""
    place = root.inner("kind")
    if kind not in _VERSIONS:
        near = near_name(kind, _VERSIONS)
        fix = f"write kind: {near}" if near else _OTHER_FIX
        yield place.refused(f"legal: {', '.join(_VERSIONS)}", fix)
        return
    legal, version = _VERSIONS[kind], root.value.get(_VERSION)
    if version is None:
        yield from _misspelled_names(root, _VERSION)
        yield place.field_error(f" {kind} without {_VERSION}", f"add {_VERSION}: {legal}")
    elif version != legal:
        problem = f" is {str(version)[:_MOST_CHARS]!r}; a {kind} is of {legal}"
        yield root.inner(_VERSION).field_error(problem, f"write {_VERSION}: {legal}")


def _missing_parts(place: SourcePlace, title: str, parts: tuple[str, ...]) -> Iterator[BadInput]:
    """The fault of a document without any part of its format."""
    if any(part in place.value for part in parts):
        return
    for part in parts:
        yield from _misspelled_names(place, part)
    yield place.field_error(f": {title} has {' or '.join(parts)}", f"add {parts[-1]}")


def _misspelled_names(place: SourcePlace, name: str) -> Iterator[BadInput]:
    """The error of a field whose name is almost `name`, if the mapping lacks `name`."""
    similar_name = "" if name in place.value else near_name(name, map(str, place.value))
    if similar_name and similar_name in place.value:
        yield place.inner(similar_name).field_error(
            f" is no field; {name} is", f"rename it to {name}"
        )
