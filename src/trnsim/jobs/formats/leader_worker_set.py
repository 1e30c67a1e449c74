"""LeaderWorkerSets: equal groups of a leader and its workers, each group a server of its own.

A group is the job, and the groups are its copies. Without a template of its own the leader is the
first of the workers.

Source: github.com/kubernetes-sigs/lws 060ab4da api/leaderworkerset/v1/leaderworkerset_types.go.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import (
    Defaults,
    KeptFields,
    Keys,
    check_mapping,
    count,
    label_name,
    manifest_text,
    manifests,
    spec_of,
)
from trnsim.jobs.formats.pod_template import role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_TITLE: Final = "a LeaderWorkerSet"
_GROUP: Final[Keys] = ("spec", "leaderWorkerTemplate")
_SIZE: Final[Keys] = (*_GROUP, "size")
_GROUPS: Final[Keys] = ("spec", "replicas")
_LEADER: Final = "leader"
_WORKER: Final = "worker"
_MOST_GROUPS: Final = 1_000_000
"""Source: leaderworkerset_types.go, Replicas."""


def _template(name: str) -> Keys:
    """Keys of the template of a role."""
    return (*_GROUP, f"{name}Template")


def _pod(name: str) -> Keys:
    """Keys of the pod's spec of a role."""
    return (*_template(name), "spec")


def _defaults(names: list[str]) -> Defaults:
    """Keys and values of fields that Kubernetes demands and a job does not have."""
    yield ("apiVersion",), "leaderworkerset.x-k8s.io/v1"
    yield ("kind",), "LeaderWorkerSet"
    for name in names:
        yield (*_pod(name), "containers", 0, "name"), name


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    has_leader = reader.value(*_template(_LEADER)) is not None
    names = [_LEADER, _WORKER] if has_leader else [_WORKER]
    for keys in (("metadata",), ("spec",), _GROUP):
        check_mapping(reader, *keys)
    size = _size(reader, f"roles.{len(names) - 1}.replicas")
    workers = size if size is None or not has_leader else size - 1
    replicas = [1, workers] if has_leader else [workers]
    roles: list[Role] = [
        role(reader, _pod(name), f"roles.{index}", name=name, replicas=replicas[index])
        for index, name in enumerate(names)
    ]
    job = Job(
        name=reader.text("metadata", "name", field="name"),
        kind=JobKind.SERVING,
        roles=tuple(roles),
        **selector_fields(reader, [_pod(name) for name in names]),
        copies=_groups(reader),
    )
    return spec_of("leaderworkerset", reader, job, _defaults(names))


def _size(reader: SpecReader, field: str) -> int | None:
    """Number of pods of a group; None where a template fills it in."""
    size = count(reader, *_SIZE, field=field, minimum=1)
    return 1 if size is None and reader.value(*_SIZE) is None else size


def _groups(reader: SpecReader) -> int:
    """Number of groups of the set; 1 where a template fills it in."""
    groups = count(reader, *_GROUPS, field="copies")
    return 1 if groups is None else groups


def _write(job: Job) -> str:
    check_job(job, _TITLE, roles=range(1, 3), further_fields=("copies",))
    if job.kind is not JobKind.SERVING:
        raise BadInput(
            f"{_TITLE} runs for ever; the job is of kind {job.kind.value}", fix="write a jobset"
        )
    if job.copies > _MOST_GROUPS:
        raise BadInput(
            f"{job.copies:,} copies; {_TITLE} has at most {_MOST_GROUPS:,} groups",
            fix="write several sets",
        )
    kept_fields = KeptFields(job.kept_fields)
    names = [_LEADER, _WORKER] if len(job.roles) > 1 else [_WORKER]
    group: dict[str, Any] = {"size": _pods(job, kept_fields)}
    for job_role, name in zip(job.roles, names, strict=True):
        spec = pod_spec(job_role, job, kept_fields.fields_below(*_pod(name)), container=name)
        group[f"{name}Template"] = {"spec": spec}
    groups = None if job.copies == 1 and kept_fields.has_field(*_GROUPS) else job.copies
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": label_name(job.name, "job")},
        "spec": without_empty({"replicas": groups, "leaderWorkerTemplate": without_empty(group)}),
    }
    return manifest_text(job, document, _defaults(names))


def _pods(job: Job, kept_fields: KeptFields) -> int | None:
    """Pods of a group; None where a kept template fills them in.

    Raises:
        BadInput: the leader has several replicas, or a group has no pod.
    """
    *leader, workers = job.roles
    if leader and leader[0].replicas != 1:
        raise BadInput(
            f"role {leader[0].name!r}: {leader[0].replicas} replicas; the leader of a group is one",
            fix="give the job a first role of one replica",
        )
    if workers.replicas is None:
        if kept_fields.has_field(*_SIZE):
            return None
        raise BadInput(
            f"role {workers.name!r}: the number of replicas is not stated",
            fix="state it in the spec that is read",
        )
    size = len(leader) + workers.replicas
    if not size:
        raise BadInput(
            f"role {workers.name!r}: 0 replicas; a group has 1 pod or more",
            fix="give the role a replica",
        )
    return size


FORMAT: Final = JobFormat(
    name="leaderworkerset",
    title="Kubernetes LeaderWorkerSet",
    suffix=".yaml",
    places=partial(manifests, group="leaderworkerset.x-k8s.io", kinds=("LeaderWorkerSet",)),
    read=_read,
    write=_write,
    is_manifest=True,
    fields="kubernetes",
)
