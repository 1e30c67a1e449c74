"""RayJobs and RayClusters of KubeRay: a head, and groups of workers.

The entry point of a RayJob is the command of its head; commands of containers start Ray itself, and
are kept. A RayCluster waits for jobs.

Source: github.com/ray-project/kuberay ray-operator/apis/ray/v1 (rayjob_types.go,
raycluster_types.go).
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import (
    MOST_COUNT,
    Defaults,
    KeptFields,
    Keys,
    check_list,
    check_mapping,
    count,
    deadline,
    deadline_s,
    label_name,
    manifest_text,
    manifests,
    spec_of,
    stated_count,
    stated_replicas,
)
from trnsim.jobs.formats.pod_template import role, selector_fields
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_KINDS: Final = {"RayJob": JobKind.TRAINING, "RayCluster": JobKind.CLUSTER}
_SPECS: Final[dict[str, Keys]] = {"RayJob": ("spec", "rayClusterSpec"), "RayCluster": ("spec",)}
_POD: Final[Keys] = ("template", "spec")
_HEAD: Final = "head"
_SHELL: Final = ("sh", "-c")
_MOST_GROUPS: Final = 100


def _defaults(kind: str, groups: int) -> Defaults:
    """Keys and values of fields that KubeRay demands and a job does not have."""
    yield ("apiVersion",), "ray.io/v1"
    yield ("kind",), kind
    spec = _SPECS[kind]
    yield (*spec, "headGroupSpec", "rayStartParams"), {}
    yield (*spec, "headGroupSpec", *_POD, "containers", 0, "name"), "ray-head"
    for index in range(groups):
        group = (*spec, "workerGroupSpecs", index)
        yield (*group, "rayStartParams"), {}
        yield (*group, *_POD, "containers", 0, "name"), "ray-worker"


def _read(place: SourcePlace) -> JobSpec:
    reader = SpecReader(place)
    kind = str(reader.value("kind"))
    spec = _SPECS[kind]
    head = (*spec, "headGroupSpec")
    for keys in (("metadata",), ("spec",), spec):
        check_mapping(reader, *keys)
    roles: list[Role] = []
    groups = check_list(reader, *spec, "workerGroupSpecs")
    pods = [(*head, *_POD), *((*spec, "workerGroupSpecs", index, *_POD) for index in range(groups))]
    if kind == "RayCluster" or reader.value(*spec) is not None:
        roles = [role(reader, (*head, *_POD), "roles.0", name=_HEAD, is_program=False)]
        for index in range(groups):
            keys = (*spec, "workerGroupSpecs", index)
            roles.append(_group(reader, keys, f"roles.{index + 1}"))
    if kind == "RayJob":
        roles[:1] = [replace(job_role, command=_entrypoint(reader)) for job_role in roles[:1]]
    job = Job(
        name=reader.text("metadata", "name", field="name"),
        kind=_KINDS[kind],
        roles=tuple(roles),
        **selector_fields(reader, pods),
        time_limit_s=deadline_s(reader, "spec") if kind == "RayJob" else None,
    )
    return spec_of("rayjob", reader, job, _defaults(kind, groups))


def _group(reader: SpecReader, keys: Keys, path: str) -> Role:
    """The role of a group of workers, whose replicas are its pods: ``replicas numOfHosts``.

    Limits that equal its number of replicas are not kept; `numOfHosts` is.
    """
    name = reader.text(*keys, "groupName", field=f"{path}.name")
    replicas = count(reader, *keys, "replicas", field=f"{path}.replicas")
    if reader.value(*keys, "replicas") is None:
        # Source: KubeRay ray-operator/controllers/ray/utils/util.go, GetWorkerGroupDesiredReplicas
        least_field = f"{path}.least_replicas"
        replicas = stated_count(reader, *keys, "minReplicas", field=least_field) or 0
    least_replicas = None
    if reader.value(*keys, "minReplicas") == replicas:
        reader.take(*keys, "minReplicas")
    else:
        least_replicas = count(reader, *keys, "minReplicas", field=f"{path}.least_replicas")
    if reader.value(*keys, "maxReplicas") == replicas:
        reader.take(*keys, "maxReplicas")
    hosts = stated_count(reader, *keys, "numOfHosts", field=f"{path}.hosts") or 1
    job_role = role(reader, (*keys, *_POD), path, name=name, is_program=False)
    return replace(
        job_role,
        replicas=None if replicas is None else replicas * hosts,
        least_replicas=None if least_replicas is None else least_replicas * hosts,
    )


def _entrypoint(reader: SpecReader) -> tuple[str, ...]:
    """The words of the entry point; for a line with a shell's operators, a shell and the line."""
    line = reader.text("spec", "entrypoint", field="roles.0.command")
    try:
        words = shlex.split(line)
    except ValueError:
        return (*_SHELL, line)
    return tuple(words) if shlex.join(words) == line else (*_SHELL, line)


def _entrypoint_line(command: tuple[str, ...]) -> str:
    """The entry point as a line, which `_entrypoint` reads as the command."""
    if len(command) == len(_SHELL) + 1 and command[:-1] == _SHELL:
        try:
            is_plain = shlex.join(shlex.split(command[-1])) == command[-1]
        except ValueError:
            is_plain = False
        if not is_plain:
            return command[-1]
    return shlex.join(command)


def _write(job: Job) -> str:
    check_job(job, "a RayJob", roles=range(1, _MOST_GROUPS + 1), further_fields=("least_replicas",))
    kinds = {use: kind for kind, use in _KINDS.items()}
    if job.kind not in kinds:
        raise BadInput(
            f"a RayJob or RayCluster is no server; the job is of kind {job.kind.value}",
            fix="--as leaderworkerset or --as pod",
        )
    kind = kinds[job.kind]
    _check_roles(job, kind)
    kept_fields = KeptFields(job.kept_fields)
    cluster = _cluster(job, kept_fields.fields_below(*_SPECS[kind]))
    spec = cluster
    if kind == "RayJob":
        spec = without_empty(
            {
                "entrypoint": _entrypoint_line(job.roles[0].command),
                "activeDeadlineSeconds": deadline(job),
                "rayClusterSpec": cluster,
            }
        )
    document = {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": label_name(job.name, "job")},
        "spec": spec,
    }
    return manifest_text(job, document, _defaults(kind, len(job.roles) - 1))


def _check_roles(job: Job, kind: str) -> None:
    """Refuse roles that are not a head of one pod and groups of workers.

    Raises:
        BadInput: the head has several replicas, or a group has a program.
    """
    head, *groups = job.roles
    if head.replicas != 1 or head.least_replicas is not None:
        raise BadInput(
            f"role {head.name!r}: {head.replicas} replicas; the head of a {kind} is one",
            fix="give the job a first role of one replica",
        )
    for job_role in groups if kind == "RayJob" else job.roles:
        if job_role.command:
            raise BadInput(
                f"role {job_role.name!r} has a command; the program of a RayJob runs on its head, "
                "and a RayCluster has none",
                fix="give the first role alone a command",
            )
    if kind == "RayCluster" and job.time_limit_s is not None:
        raise BadInput(
            "a RayCluster has no time limit, and the job has one", fix="take the limit out"
        )


def _cluster(job: Job, kept_fields: KeptFields) -> dict[str, Any]:
    """The spec of a cluster."""

    def template(job_role: Role, kept_below: KeptFields, container: str) -> dict[str, Any]:
        spec = pod_spec(
            job_role, job, kept_below.fields_below(*_POD), container=container, is_program=False
        )
        return {"spec": spec}

    head = template(job.roles[0], kept_fields.fields_below("headGroupSpec"), "ray-head")
    groups = []
    for index, job_role in enumerate(job.roles[1:]):
        kept_below = kept_fields.fields_below("workerGroupSpecs", index)
        pods = stated_replicas(job, index + 1, kept_below, ("replicas",), ("minReplicas",))
        hosts = kept_below.value("numOfHosts") or 1
        replicas = _groups_of(job_role, pods, hosts)
        least_replicas = _groups_of(job_role, job_role.least_replicas, hosts)
        least_replicas = replicas if least_replicas is None else least_replicas
        counts = {
            "replicas": replicas,
            "minReplicas": kept_below.value(
                "minReplicas", default=0 if least_replicas is None else least_replicas
            ),
            "maxReplicas": kept_below.value(
                "maxReplicas", default=MOST_COUNT if replicas is None else replicas
            ),
        }
        group = {"groupName": label_name(job_role.name, f"group-{index}"), **counts}
        groups.append(
            without_empty(group) | {"template": template(job_role, kept_below, "ray-worker")}
        )
    return without_empty({"headGroupSpec": {"template": head}, "workerGroupSpecs": groups})


def _groups_of(job_role: Role, pods: int | None, hosts: int) -> int | None:
    """The number of replicas of `hosts` pods each; None for None.

    Raises:
        BadInput: the pods are no multiple of the hosts.
    """
    if pods is not None and pods % hosts:
        raise BadInput(
            f"role {job_role.name!r}: {pods} pods in replicas of {hosts} hosts (numOfHosts)",
            fix=f"choose a multiple of {hosts} replicas",
        )
    return None if pods is None else pods // hosts


FORMAT: Final = JobFormat(
    name="rayjob",
    title="KubeRay RayJob or RayCluster",
    suffix=".yaml",
    places=partial(manifests, group="ray.io", kinds=tuple(_KINDS)),
    read=_read,
    write=_write,
    is_manifest=True,
    fields="kubernetes",
)
