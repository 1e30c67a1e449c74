"""Pods, Deployments and StatefulSets.

Deployments, StatefulSets and pods that are restarted whenever they end are servers. A Deployment or
StatefulSet without an accelerator is no job, and is passed over.

Source: k8s.io/api core/v1 and apps/v1; kubernetes.io docs, Pod Lifecycle, Container restart policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import (
    Defaults,
    KeptFields,
    check_mapping,
    count,
    deadline,
    deadline_s,
    label_name,
    manifest_text,
    manifests,
    spec_of,
    stated_replicas,
)
from trnsim.jobs.formats.pod_template import has_accelerator, role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, JobKind
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_POD: Final = "Pod"
_SETS: Final = ("Deployment", "StatefulSet")
_FINAL_POLICIES: Final = ("Never", "OnFailure")


def _places(document: SourcePlace) -> Iterator[SourcePlace]:
    yield from manifests(document, "", (_POD,))
    for place in manifests(document, "apps", _SETS):
        pod: Any = place.value
        for key in ("spec", "template", "spec"):
            pod = pod.get(key) if isinstance(pod, dict) else None
        containers = pod.get("containers") if isinstance(pod, dict) else None
        if not isinstance(pod, dict) or not isinstance(containers, list):
            continue
        init_containers = pod.get("initContainers")
        if isinstance(init_containers, list):
            containers = [*containers, *init_containers]
        if pod.get("resourceClaims") or any(map(has_accelerator, containers)):
            yield place


def _defaults(kind: str, use: JobKind, name: str) -> Defaults:
    """Fields that Kubernetes demands and a job does not have.

    A Deployment finds its pods by labels, and the pod of a job that ends must not be restarted.
    """
    is_server = use is JobKind.SERVING
    yield ("apiVersion",), "apps/v1" if is_server else "v1"
    yield ("kind",), _SETS[0] if is_server else _POD
    if kind == _POD and not is_server:
        yield ("spec", "restartPolicy"), _FINAL_POLICIES[0]
    if kind != _POD:
        labels = {"app": label_name(name, "job")}
        yield ("spec", "selector"), {"matchLabels": labels}
        yield ("spec", "template", "metadata", "labels"), dict(labels)


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    is_pod = reader.value("kind") == _POD
    pod = ("spec",) if is_pod else ("spec", "template", "spec")
    check_mapping(reader, "metadata")
    replicas = None
    if not is_pod:
        replicas = count(reader, "spec", "replicas", field="roles.0.replicas")
    if is_pod or reader.value("spec", "replicas") is None:
        replicas = 1
    is_final = is_pod and reader.value("spec", "restartPolicy") in _FINAL_POLICIES
    kind = JobKind.TRAINING if is_final else JobKind.SERVING
    name = reader.text("metadata", "name", field="name")
    job = Job(
        name=name,
        kind=kind,
        roles=(role(reader, pod, "roles.0", name="", replicas=replicas),),
        **selector_fields(reader, [pod]),
        time_limit_s=deadline_s(reader, "spec") if is_pod else None,
    )
    manifest = str(reader.value("kind"))
    return spec_of("pod", reader, job, _defaults(manifest, kind, name))


def _write(job: Job) -> str:
    kept_fields = KeptFields(job.kept_fields)
    kind = kept_fields.value("kind", default=_SETS[0] if job.kind is JobKind.SERVING else _POD)
    check_job(job, f"a {kind}")
    if job.kind is JobKind.CLUSTER:
        raise BadInput(
            f"a {kind} runs a program; the job is a cluster that waits for jobs",
            fix="--as parallelcluster or --as rayjob",
        )
    document = {
        "apiVersion": "v1" if kind == _POD else "apps/v1",
        "kind": kind,
        "metadata": {"name": label_name(job.name, "job")},
        "spec": _pod(job, kept_fields) if kind == _POD else _set(job, kind, kept_fields),
    }
    return manifest_text(job, document, _defaults(kind, job.kind, job.name))


def _pod(job: Job, kept_fields: KeptFields) -> dict[str, Any]:
    """The spec of a Pod.

    Raises:
        BadInput: the role has several replicas.
    """
    (job_role,) = job.roles
    if job_role.replicas != 1:
        raise BadInput(
            f"role {job_role.name!r}: {job_role.replicas} replicas; a Pod is one",
            fix="write a job, jobset or pytorchjob",
        )
    spec = pod_spec(job_role, job, kept_fields.fields_below("spec"))
    return without_empty({"activeDeadlineSeconds": deadline(job)}) | spec


def _set(job: Job, kind: str, kept_fields: KeptFields) -> dict[str, Any]:
    """The spec of a Deployment or a StatefulSet.

    Raises:
        BadInput: the job ends, or has no accelerators.
    """
    if job.time_limit_s is not None:
        raise BadInput(
            f"a {kind} has no time limit, and the job has one",
            fix="take the limit out, or --as job",
        )
    kept_below = kept_fields.fields_below("spec", "template", "spec")
    (job_role,) = job.roles
    has_kept = any(
        "resourceClaims" in field.keys or "limits" in field.keys for field in job.kept_fields
    )
    if not (
        job_role.devices or job_role.cores or job_role.gpus or job_role.is_exclusive or has_kept
    ):
        raise BadInput(
            f"role {job_role.name!r} has no accelerators; "
            f"a {kind} without them is a service beside jobs",
            fix="state the number of its devices",
        )
    replicas = stated_replicas(job, 0, kept_fields, ("spec", "replicas"))
    template = {"spec": pod_spec(job_role, job, kept_below)}
    return without_empty({"replicas": replicas, "template": template})


FORMAT: Final = JobFormat(
    name="pod",
    title="Kubernetes Pod, Deployment or StatefulSet",
    suffix=".yaml",
    places=_places,
    read=_read,
    write=_write,
    is_manifest=True,
    fields="kubernetes",
)
