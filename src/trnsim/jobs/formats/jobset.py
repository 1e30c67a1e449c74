"""JobSets: roles that are Jobs, started and ended together.

Source: github.com/kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go.
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
    check_list,
    check_mapping,
    deadline,
    deadline_s,
    label_name,
    manifest_text,
    manifests,
    spec_of,
    stated_count,
    stated_replicas,
)
from trnsim.jobs.formats.pod_head import with_head, without_head
from trnsim.jobs.formats.pod_template import role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.refusal import check_training
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_ROLES: Final[Keys] = ("spec", "replicatedJobs")
_JOB: Final[Keys] = ("template", "spec")
_POD: Final[Keys] = (*_JOB, "template", "spec")
_CONTAINER: Final = "main"
_MOST_ROLES: Final = 100


def _defaults(roles: int) -> Defaults:
    """Keys and values of fields that Kubernetes demands and a job does not have."""
    yield ("apiVersion",), "jobset.x-k8s.io/v1alpha2"
    yield ("kind",), "JobSet"
    for index in range(roles):
        yield (*_ROLES, index, "replicas"), 1
        yield (*_ROLES, index, *_POD, "restartPolicy"), "Never"
        yield (*_ROLES, index, *_POD, "containers", 0, "name"), _CONTAINER


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    for name in ("metadata", "spec"):
        check_mapping(reader, name)
    if not check_list(reader, *_ROLES):
        fix = "add an item with name, replicas and template"
        raise reader.refused(_ROLES, "legal: a list of one replicated job or more", fix)
    roles: list[Role] = []
    for index in range(reader.length(*_ROLES)):
        keys = (*_ROLES, index)
        name = reader.text(*keys, "name", field=f"roles.{index}.name")
        replicas = _replicas(reader, keys, f"roles.{index}.replicas")
        roles.append(role(reader, (*keys, *_POD), f"roles.{index}", name=name, replicas=replicas))
    job = Job(
        name=reader.text("metadata", "name", field="name"),
        roles=tuple(roles),
        **selector_fields(reader, [(*_ROLES, index, *_POD) for index in range(len(roles))]),
        time_limit_s=_time_limit_s(reader, len(roles)),
    )
    job = without_head(job, _head(job))
    return spec_of("jobset", reader, job, _defaults(len(roles)))


def _head(job: Job) -> str:
    """Address of the first pod. Source: jobset.sigs.k8s.io docs, Concepts, network."""
    name, role = label_name(job.name, "job"), label_name(job.roles[0].name, _CONTAINER)
    return f"{name}-{role}-0-0.{name}"


def _replicas(reader: SpecReader, keys: Keys, field: str) -> int | None:
    """Pods of a replicated job: ``replicas * parallelism``; None where a template fills in either.

    `replicas` is not marked as read, so it is kept with the job and written again. So are
    `parallelism` and `completions` where a template fills in a number, or there are no pods.
    """
    jobs = stated_count(reader, *keys, "replicas", field=field)
    pods = stated_count(reader, *keys, *_JOB, "parallelism", field=field)
    if any(value.field == field for value in reader.templates):
        return None
    if jobs == 0:
        return 0
    pods = 1 if pods is None else pods
    reader.take(*keys, *_JOB, "parallelism")
    if reader.value(*keys, *_JOB, "completions") == pods:
        reader.take(*keys, *_JOB, "completions")
    return (jobs or 1) * pods


def _time_limit_s(reader: SpecReader, roles: int) -> float | None:
    """The time limit that all replicated jobs state; None, with limits kept, if they differ."""
    keys = [(*_ROLES, index, *_JOB) for index in range(roles)]
    limits = [reader.value(*job_keys, "activeDeadlineSeconds") for job_keys in keys]
    if any(limit is None or limit != limits[0] for limit in limits):
        return None
    for job_keys in keys[1:]:
        reader.take(*job_keys, "activeDeadlineSeconds")
    return deadline_s(reader, *keys[0])


def _write(job: Job) -> str:
    check_job(job, "a JobSet", roles=range(1, _MOST_ROLES + 1))
    check_training(job, "a JobSet")
    job = with_head(job, _head(job))
    kept_fields = KeptFields(job.kept_fields)
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": label_name(job.name, "job")},
        "spec": {
            "replicatedJobs": [
                _replicated_job(job, index, kept_fields) for index in range(len(job.roles))
            ]
        },
    }
    return manifest_text(job, document, _defaults(len(job.roles)))


def _replicated_job(job: Job, index: int, kept_fields: KeptFields) -> dict[str, Any]:
    """A replicated job: one Job with all pods of the role, unless more Jobs are kept."""
    job_role = job.roles[index]
    kept_below = kept_fields.fields_below(*_ROLES, index)
    pods = stated_replicas(job, index, kept_below, ("replicas",), (*_JOB, "parallelism"))
    jobs = kept_below.value("replicas", default=1)
    counts = {}
    if pods is not None and jobs:
        if pods % jobs:
            raise BadInput(
                f"role {job_role.name!r}: {pods} replicas in {jobs} jobs of equal size",
                fix=f"choose a multiple of {jobs} replicas",
            )
        parallelism = pods // jobs
        completions = kept_below.value(*_JOB, "completions", default=parallelism)
        counts = {"parallelism": parallelism, "completions": completions}
    spec = pod_spec(job_role, job, kept_below.fields_below(*_POD), container=_CONTAINER)
    template = {
        **counts,
        "activeDeadlineSeconds": deadline(job),
        "template": {"spec": spec},
    }
    name = label_name(job_role.name, f"role-{index}")
    return {"name": name, "template": {"spec": without_empty(template)}}


FORMAT: Final = JobFormat(
    name="jobset",
    title="Kubernetes JobSet",
    suffix=".yaml",
    places=partial(manifests, group="jobset.x-k8s.io", kinds=("JobSet",)),
    read=_read,
    write=_write,
    is_manifest=True,
    fields="kubernetes",
)
