"""LeaderWorkerSets: equal groups of a leader and its workers, each group a server of its own.

A group is the job, and the groups are its copies. Without a template of its own the leader is the
first of the workers.

Source: github.com/kubernetes-sigs/lws 060ab4da api/leaderworkerset/v1/leaderworkerset_types.go.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from trnsim.jobs.formats.pod_template import role, selected
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

__all__ = ["FORMAT"]

_TITLE: Final = "a LeaderWorkerSet"
_GROUP: Final[Keys] = ("spec", "leaderWorkerTemplate")
_SIZE: Final[Keys] = (*_GROUP, "size")
_GROUPS: Final[Keys] = ("spec", "replicas")
_LEADER: Final[Keys] = (*_GROUP, "leaderTemplate")
_WORKER: Final[Keys] = (*_GROUP, "workerTemplate")
_POD: Final = "spec"
_MOST_GROUPS: Final = 1_000_000
"""Source: leaderworkerset_types.go, Replicas."""


def _places(document: SourcePlace) -> Iterator[SourcePlace]:
    yield from manifests(document, "leaderworkerset.x-k8s.io", ("LeaderWorkerSet",))


def _defaults(templates: list[Keys]) -> Defaults:
    """Fields that Kubernetes demands, beside those of the model."""
    yield ("apiVersion",), "leaderworkerset.x-k8s.io/v1"
    yield ("kind",), "LeaderWorkerSet"
    for template in templates:
        yield (*template, _POD, "containers", 0, "name"), template[-1].removesuffix("Template")


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    has_leader = reader.value(*_LEADER) is not None
    templates = [_LEADER, _WORKER] if has_leader else [_WORKER]
    for keys in (("metadata",), ("spec",), _GROUP):
        check_mapping(reader, *keys)
    for template in templates:
        check_mapping(reader, *template)
        check_mapping(reader, *template, _POD)
    size = _size(reader, f"roles.{len(templates) - 1}.replicas")
    workers = size if size is None or not has_leader else size - 1
    replicas = [1, workers] if has_leader else [workers]
    roles: list[Role] = [
        role(
            reader,
            (*template, _POD),
            f"roles.{at}",
            name=template[-1].removesuffix("Template"),
            replicas=replicas[at],
        )
        for at, template in enumerate(templates)
    ]
    job = Job(
        name=reader.text("metadata", "name", field="name"),
        kind=JobKind.SERVING,
        roles=tuple(roles),
        **selected(reader, [(*template, _POD) for template in templates]),
        copies=_groups(reader),
    )
    return spec_of("leaderworkerset", reader, job, _defaults(templates))


def _size(reader: SpecReader, field: str) -> int | None:
    """Pods of a group; None where a template fills them in."""
    size = count(reader, *_SIZE, field=field, least=1)
    return 1 if size is None and reader.value(*_SIZE) is None else size


def _groups(reader: SpecReader) -> int:
    """Groups of the set; 1 where a template fills them in."""
    groups = count(reader, *_GROUPS, field="copies")
    return 1 if groups is None else groups


def _write(job: Job) -> str:
    check_job(job, _TITLE, roles=range(1, 3), beyond=("copies",))
    if job.kind is not JobKind.SERVING:
        raise BadInput(
            f"{_TITLE} runs for ever; the job is of kind {job.kind.value}", fix="write a jobset"
        )
    if job.copies > _MOST_GROUPS:
        raise BadInput(f"{job.copies:,} copies; {_TITLE} has at most {_MOST_GROUPS:,} groups")
    kept = KeptFields(job.kept)
    templates = [_LEADER, _WORKER] if len(job.roles) > 1 else [_WORKER]
    pods = [
        {"spec": pod_spec(own, job, kept.below(*template, _POD), container=_container(template))}
        for own, template in zip(job.roles, templates, strict=True)
    ]
    group: dict[str, Any] = {"size": _pods(job, kept)}
    group |= {template[-1]: pod for template, pod in zip(templates, pods, strict=True)}
    groups = None if job.copies == 1 and kept.has(*_GROUPS) else job.copies
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": label_name(job.name, "job")},
        "spec": without_empty({"replicas": groups, "leaderWorkerTemplate": without_empty(group)}),
    }
    return manifest_text(job, document, _defaults(templates))


def _container(template: Keys) -> str:
    """The name of a template's container, unless another is kept."""
    return str(template[-1]).removesuffix("Template")


def _pods(job: Job, kept: KeptFields) -> int | None:
    """Pods of a group; None where a kept template fills them in.

    Raises:
        BadInput: the leader of several roles is not one, or a group has no pod.
    """
    *leader, workers = job.roles
    if leader and leader[0].replicas != 1:
        raise BadInput(
            f"role {leader[0].name!r}: {leader[0].replicas} replicas; the leader of a group is one"
        )
    if workers.replicas is None:
        if kept.has(*_SIZE):
            return None
        raise BadInput(
            f"role {workers.name!r}: the number of replicas is not stated",
            fix="state it in the spec that is read",
        )
    size = len(leader) + workers.replicas
    if not size:
        raise BadInput(f"role {workers.name!r}: 0 replicas; a group has 1 pod or more")
    return size


FORMAT: Final = JobFormat(
    name="leaderworkerset",
    title="Kubernetes LeaderWorkerSet",
    suffix=".yaml",
    places=_places,
    read=_read,
    write=_write,
    is_manifest=True,
)
