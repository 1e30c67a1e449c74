"""Jobs of Kubernetes: pods that run to their end.

The pods of an Indexed Job that all run at once are the replicas of one job, as each has a number.
Pods without a number, or more of them than run at once, cannot be ranks: each is a copy of the job.

Source: k8s.io/api batch/v1 JobSpec; kubernetes.io docs, Jobs, Completion mode.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import (
    Defaults,
    KeptFields,
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
from trnsim.jobs.formats.pod_head import has_head, with_head, without_head
from trnsim.jobs.formats.pod_template import role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.refusal import check_training
from trnsim.jobs.formats.writing import without_empty, yaml_spec
from trnsim.jobs.job import Job
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_POD: Final = ("spec", "template", "spec")
_INDEXED: Final = "Indexed"
_DEFAULTS: Final[Defaults] = (
    (("apiVersion",), "batch/v1"),
    (("kind",), "Job"),
    ((*_POD, "restartPolicy"), "Never"),
)
"""A Job's pods are not started anew for ever; Kubernetes requires the field."""


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    for name in ("metadata", "spec"):
        check_mapping(reader, name)
    name = reader.text("metadata", "name", field="name")
    copies, replicas = _pods(reader)
    job = Job(
        name=name,
        roles=(role(reader, _POD, "roles.0", name="", replicas=replicas),),
        **selector_fields(reader, [_POD]),
        time_limit_s=deadline_s(reader, "spec"),
        copies=copies,
    )
    name = label_name(job.name, "job")
    job_without_head = without_head(job, f"{name}-0.{name}")
    return spec_of(
        "job", reader, job_without_head, _defaults(name, has_head=job_without_head != job)
    )


def _defaults(name: str, *, has_head: bool) -> Defaults:
    """Fields that Kubernetes demands; pods that communicate have a service, which gives them names.

    Source: kubernetes.io docs, Job with Pod-to-Pod Communication.
    """
    yield from _DEFAULTS
    if has_head:
        yield (*_POD, "subdomain"), name


def _pods(reader: SpecReader) -> tuple[int, int | None]:
    """Copies of the job, and replicas of its role."""
    is_indexed = reader.value("spec", "completionMode") == _INDEXED
    field = "roles.0.replicas" if is_indexed else "copies"
    completions = stated_count(reader, "spec", "completions", field=field)
    parallelism = stated_count(reader, "spec", "parallelism", field=field)
    if is_indexed and any(value.field == field for value in reader.templates):
        return 1, None
    if is_indexed and completions == parallelism and completions not in (None, 1):
        for name in ("completions", "parallelism", "completionMode"):
            reader.take("spec", name)
        return 1, completions
    if completions is not None and completions > 1 and parallelism is not None:
        reader.take("spec", "completions")
        if parallelism == completions:
            reader.take("spec", "parallelism")
    return max(completions or parallelism or 1, 1), 1


def _write(job: Job) -> str:
    kept_fields = KeptFields(job.kept_fields)
    check_job(job, "a Job", further_fields=("copies",))
    check_training(job, "a Job")
    replicas = stated_replicas(
        job, 0, kept_fields, ("spec", "completions"), ("spec", "parallelism")
    )
    if job.copies > 1 and replicas != 1:
        raise BadInput(
            f"{job.copies} copies of {replicas} replicas; the pods of a Job are all equal",
            fix="write a jobset for each copy",
        )
    name, is_meeting = label_name(job.name, "job"), has_head(job)
    job = with_head(job, f"{name}-0.{name}")
    kept_below = kept_fields.fields_below(*_POD)
    spec = {
        **_counts(job.copies, replicas, kept_fields),
        "activeDeadlineSeconds": deadline(job),
        "template": {"spec": pod_spec(job.roles[0], job, kept_below)},
    }
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": without_empty(spec),
    }
    text = manifest_text(job, document, _defaults(name, has_head=is_meeting))
    return f"{text}---\n{yaml_spec(_service(name))}" if is_meeting else text


def _service(name: str) -> dict[str, Any]:
    """The service without an address of its own that gives the pods of a Job their names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": {"job-name": name}},
    }


def _counts(copies: int, replicas: int | None, kept_fields: KeptFields) -> dict[str, Any]:
    """Completions and parallelism.

    Kept completions are of pods that run one by one; a kept parallelism that equals the copies
    belongs to a queue, whose length is not stated.
    """
    if replicas not in (None, 1):
        return {"completions": replicas, "parallelism": replicas, "completionMode": _INDEXED}
    parallelism = kept_fields.value("spec", "parallelism", default=0)
    if copies == 1 or kept_fields.has_field("spec", "completions") or parallelism == copies:
        return {}
    return {"completions": copies, "parallelism": parallelism or copies}


FORMAT: Final = JobFormat(
    name="job",
    title="Kubernetes Job",
    suffix=".yaml",
    places=partial(manifests, group="batch", kinds=("Job",)),
    read=_read,
    write=_write,
    is_manifest=True,
    fields="kubernetes",
)
