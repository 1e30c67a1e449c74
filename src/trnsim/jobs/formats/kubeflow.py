"""Jobs of Kubeflow: named roles, each with a pod and a number of replicas.

Source: github.com/kubeflow/training-operator v1.9.0 pkg/apis/kubeflow.org/v1/common_types.go
(ReplicaSpec, RunPolicy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.formatting import counted
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import (
    Defaults,
    KeptFields,
    Keys,
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
from trnsim.jobs.formats.pod_head import with_head, without_head
from trnsim.jobs.formats.pod_template import role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.refusal import check_training
from trnsim.jobs.formats.replica_processes import read_processes, stated_processes
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_GROUP: Final = "kubeflow.org"
_POD: Final[Keys] = ("template", "spec")
_RUN: Final[Keys] = ("spec", "runPolicy")
_ELASTIC: Final[Keys] = ("spec", "elasticPolicy")


@dataclass(frozen=True, kw_only=True)
class KubeflowKind:
    """A kind of Kubeflow job: the fields of its spec and the names of its roles.

    Attributes:
        specs: name of the mapping of roles.
        head: name of the role with a single pod.
        workers: name of the role with one pod or more.
        is_head_needed: whether every job of the kind has a head.
        processes_field: name of the field with the processes of a worker.
        is_processes_field_text: whether the value of that field is text, such as "8" or "auto".
        container: name that the container must have; "" for any.
    """

    format: str
    kind: str
    version: str
    specs: str
    head: str
    workers: str
    is_head_needed: bool
    processes_field: str
    is_processes_field_text: bool
    container: str = ""

    @property
    def title(self) -> str:
        """The kind's name with an article."""
        return f"{'an' if self.kind[0] in 'AEIMO' else 'a'} {self.kind}"

    def roles(self, *names: str | int) -> Keys:
        """Keys below the mapping of roles."""
        return ("spec", self.specs, *names)

    def defaults(self, names: list[str]) -> Defaults:
        """Keys and values of fields that Kubernetes demands and a job does not have."""
        yield ("apiVersion",), f"{_GROUP}/{self.version}"
        yield ("kind",), self.kind
        for name in names:
            yield self.roles(name, *_POD, "containers", 0, "name"), self.container or "main"


def kubeflow_format(kind: KubeflowKind) -> JobFormat:
    """The format of a kind."""
    return JobFormat(
        name=kind.format,
        title=f"Kubeflow {kind.kind}",
        suffix=".yaml",
        places=partial(manifests, group=_GROUP, kinds=(kind.kind,)),
        read=partial(_read, kind),
        write=partial(_write, kind),
        is_manifest=True,
        fields="kubernetes",
    )


def _read(kind: KubeflowKind, place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    for keys in (("metadata",), ("spec",), kind.roles(), _RUN, _ELASTIC):
        check_mapping(reader, *keys)
    legal = (kind.head, kind.workers)
    role_names = reader.names(*kind.roles())
    if not role_names or not set(role_names) <= set(legal):
        raise reader.refused(
            kind.roles(),
            f"legal: a mapping of {' and '.join(legal)}",
            _role_fix(kind, role_names, legal),
        )
    names = [name for name in legal if name in role_names]
    roles: list[Role] = []
    for index, name in enumerate(names):
        keys = kind.roles(name)
        path = f"roles.{index}"
        replicas = count(reader, *keys, "replicas", field=f"{path}.replicas")
        if reader.value(*keys, "replicas") is None:
            replicas = 1
        roles.append(role(reader, (*keys, *_POD), path, name=name, replicas=replicas))
        place_of_role = reader.place(*keys)
        if place_of_role is not None:
            reader.lines[f"{path}.name"] = reader.lines[path] = place_of_role.line
    job = Job(
        name=reader.text("metadata", "name", field="name"),
        roles=tuple(_scaled_roles(kind, reader, roles)),
        **selector_fields(reader, [kind.roles(name, *_POD) for name in names]),
        time_limit_s=deadline_s(reader, *_RUN),
    )
    job = without_head(job, _head(kind, job.name, names))
    return spec_of(kind.format, reader, job, kind.defaults(names))


def _role_fix(kind: KubeflowKind, role_names: Iterable[str], legal: Sequence[str]) -> str:
    """Advice to rename the first role that is not legal; without one, to add the workers' role."""
    illegal_name = next((name for name in role_names if name not in legal), "")
    near_names = get_close_matches(illegal_name.lower(), [name.lower() for name in legal], 1)
    name = next(
        (legal_name for legal_name in legal if legal_name.lower() in near_names), kind.workers
    )
    return (
        f"rename {illegal_name} to {name}"
        if illegal_name
        else f"add {name} with replicas and template"
    )


def _head(kind: KubeflowKind, name: str, names: list[str]) -> str:
    """Address of the first pod; "" where the operator sets it, as for a PyTorchJob with a Master.

    Sources: training-operator v1.9.0 pkg/controller.v1/pytorch/envvar.go, setPodEnv, and
    pkg/controller.v1/common/service.go, a service for each replica; mpi-operator
    pkg/controller/mpi_job_controller.go, the subdomain of workers.
    """
    name = label_name(name, "job")
    worker = f"{name}-{kind.workers.lower()}-0"
    if kind.is_head_needed:
        return f"{worker}.{name}"
    return "" if kind.head in names else worker


def _scaled_roles(kind: KubeflowKind, reader: SpecReader, roles: list[Role]) -> Iterator[Role]:
    """The roles with their processes, and the workers' smallest number of replicas."""
    for index, job_role in enumerate(roles):
        is_worker = job_role.name == kind.workers
        changes: dict[str, Any] = {}
        if is_worker or not kind.is_head_needed:
            processes = _processes(kind, reader, f"roles.{index}.processes")
            changes["processes"] = job_role.processes if processes is None else processes
        if is_worker and reader.value(*_ELASTIC) is not None:
            field = f"roles.{index}.least_replicas"
            changes["least_replicas"] = count(reader, *_ELASTIC, "minReplicas", field=field)
            if reader.value(*_ELASTIC, "maxReplicas") == job_role.replicas:
                reader.take(*_ELASTIC, "maxReplicas")
        yield replace(job_role, **changes)


def _processes(kind: KubeflowKind, reader: SpecReader, field: str) -> int | None:
    """The number of processes of a worker; None for a word such as "auto", in a text field."""
    keys = ("spec", kind.processes_field)
    if kind.is_processes_field_text:
        return read_processes(reader, *keys, field=field)
    return count(reader, *keys, field=field, minimum=1)


def _write(kind: KubeflowKind, job: Job) -> str:
    further_fields = ("processes",) if kind.is_head_needed else ("processes", "least_replicas")
    check_job(
        job, kind.title, roles=range(1 + kind.is_head_needed, 3), further_fields=further_fields
    )
    check_training(job, kind.title)
    names = _names(kind, job)
    job = with_head(job, _head(kind, job.name, names))
    kept_fields = KeptFields(job.kept_fields)
    document = {
        "apiVersion": f"{_GROUP}/{kind.version}",
        "kind": kind.kind,
        "metadata": {"name": label_name(job.name, "job")},
        "spec": without_empty(
            {
                "runPolicy": without_empty({"activeDeadlineSeconds": deadline(job)}),
                "elasticPolicy": _elastic(job, kept_fields),
                kind.processes_field: _stated_processes(kind, job),
                kind.specs: {
                    name: _replicas(kind, job, index, name, kept_fields)
                    for index, name in enumerate(names)
                },
            }
        ),
    }
    return manifest_text(job, document, kind.defaults(names))


def _names(kind: KubeflowKind, job: Job) -> list[str]:
    """Names of the job's roles in the manifest.

    Raises:
        BadInput: the head is not one pod.
    """
    if len(job.roles) == 1:
        is_head = job.roles[0].name == kind.head and job.roles[0].replicas == 1
        return [kind.head if is_head else kind.workers]
    if job.roles[0].replicas != 1:
        raise BadInput(
            f"role {job.roles[0].name!r}: {job.roles[0].replicas} replicas; the {kind.head} of "
            f"{kind.title} is one",
            fix="give the job a first role of one replica",
        )
    return [kind.head, kind.workers]


def _elastic(job: Job, kept_fields: KeptFields) -> dict[str, Any]:
    """The `elasticPolicy`: the smallest and the largest number of workers; {} if they do not scale.

    Raises:
        BadInput: a role before the workers scales.
    """
    for job_role in job.roles[:-1]:
        if job_role.least_replicas is not None:
            raise BadInput(
                f"role {job_role.name!r}: from "
                f"{counted(job_role.least_replicas, 'replica')}; it is one",
                fix="let the last role alone grow",
            )
    workers = job.roles[-1]
    if workers.least_replicas is None:
        return {}
    most_replicas = kept_fields.value(*_ELASTIC, "maxReplicas", default=workers.replicas)
    return without_empty({"minReplicas": workers.least_replicas, "maxReplicas": most_replicas})


def _stated_processes(kind: KubeflowKind, job: Job) -> int | str | None:
    """Processes of each replica without a needed head; None if commands start them."""
    roles = job.roles[-1:] if kind.is_head_needed else job.roles
    number = stated_processes(roles, kind.title)
    return number if number is None or not kind.is_processes_field_text else str(number)


def _replicas(
    kind: KubeflowKind, job: Job, index: int, name: str, kept_fields: KeptFields
) -> dict[str, Any]:
    """The replicas of a role."""
    kept_below = kept_fields.fields_below(*kind.roles(name))
    container = kind.container or "main"
    return without_empty(
        {
            "replicas": stated_replicas(job, index, kept_below, ("replicas",)),
            "template": {
                "spec": pod_spec(
                    job.roles[index], job, kept_below.fields_below(*_POD), container=container
                )
            },
        }
    )
