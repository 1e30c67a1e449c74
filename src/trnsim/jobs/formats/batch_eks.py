"""Job definitions of AWS Batch on EKS: the pod that Batch starts in a cluster of Kubernetes.

The pod is read as any pod is (`pod_template`); it has no node selector, as Batch chooses the node.
Each range of nodes of a multi-node parallel job is a role with a pod of its own.

Sources: AWS Batch API reference, RegisterJobDefinition, EksPodProperties, EksContainer and
NodeRangeProperty; user guide, "Jobs on Amazon EKS".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.batch_definition import (
    NODES,
    TYPES,
    check_definition,
    check_nodes,
    definition_head,
    node_replicas,
    read_head,
    target_ranges,
)
from trnsim.jobs.formats.cloudformation import resources
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes import KeptFields, Keys
from trnsim.jobs.formats.pod_head import has_head
from trnsim.jobs.formats.pod_template import role
from trnsim.jobs.formats.pod_template_writing import check_job, pod_spec
from trnsim.jobs.formats.writing import in_order, json_spec, with_kept_fields, without_empty
from trnsim.jobs.job import Job, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_EKS: Final = "eksProperties"
_POD: Final[Keys] = (_EKS, "podProperties")
_TYPES: Final = "instanceTypes"
_MOST_RANGES: Final = 5
"""Node groups of a multi-node parallel job. Source: user guide, "Node groups"."""


def _has_pods(value: Any) -> bool:
    """True if a definition, or one of its ranges of nodes, has the properties of a pod."""
    if not isinstance(value, dict) or "jobDefinitionName" not in value:
        return False
    nodes = value.get(NODES[0])
    ranges = nodes.get(NODES[1]) if isinstance(nodes, dict) else None
    rows = ranges if isinstance(ranges, list) else []
    return _EKS in value or any(isinstance(row, dict) and _EKS in row for row in rows)


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    for place in resources(root, "AWS::Batch::JobDefinition", "jobDefinitionName"):
        if _has_pods(place.value):
            yield place
    if _has_pods(root.value):
        yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a job definition."""
    reader = SpecReader(place)
    head = read_head(reader)
    if _EKS in place.value:
        roles = [_role(reader, _POD, 0)]
    else:
        roles = [
            _role(reader, (*NODES, index, *_POD), index, replicas=replicas, is_exclusive=True)
            for index, replicas in enumerate(node_replicas(reader))
        ]
    job = Job(**head, roles=tuple(roles), kept_fields=in_order(reader.kept_fields()))
    return JobSpec(FORMAT.name, job, reader.start, reader.lines, tuple(reader.templates))


def _role(reader: SpecReader, pod: Keys, index: int, **role_fields: Any) -> Role:
    """The role of a pod; its instance type is that of its range of nodes, if that has only one."""
    path = f"roles.{index}"
    types = (*pod[: -len(_POD)], _TYPES)
    job_role = role(reader, pod, path, name="", **role_fields)
    if not role_fields.get("is_exclusive") or reader.length(*types) != 1:
        return job_role
    name = reader.text(*types, 0, field=f"{path}.instance")
    return replace(job_role, instance=name)


def _write(job: Job) -> str:
    """The job definition of a job."""
    _check(job)
    kept_fields = KeptFields(job.kept_fields)
    is_multinode = all(job_role.is_exclusive for job_role in job.roles)
    document = definition_head(job, TYPES[is_multinode])
    if is_multinode:
        ranges = [
            without_empty(
                {
                    "targetNodes": nodes,
                    _TYPES: [job_role.instance] if job_role.instance else [],
                    _EKS: {
                        _POD[1]: _pod(job_role, job, kept_fields.fields_below(*NODES, index, *_POD))
                    },
                }
            )
            for index, (job_role, nodes) in enumerate(
                zip(job.roles, target_ranges(job), strict=True)
            )
        ]
        document[NODES[0]] = without_empty({"numNodes": job.replicas, "mainNode": 0}) | {
            NODES[1]: ranges
        }
    else:
        document[_EKS] = {_POD[1]: _pod(job.roles[0], job, kept_fields.fields_below(*_POD))}
    return json_spec(with_kept_fields(without_empty(document), job.kept_fields))


def _pod(job_role: Role, job: Job, kept_fields: KeptFields) -> dict[str, Any]:
    """The properties of a pod, whose quantities are texts in Batch."""
    pod_role = replace(job_role, instance="", is_exclusive=False)
    spec = pod_spec(pod_role, job, kept_fields)
    for container in spec["containers"]:
        for amounts in container.get("resources", {}).values():
            if isinstance(amounts, dict):
                amounts |= {name: str(amount) for name, amount in amounts.items()}
    return spec


def _check(job: Job) -> None:
    """Check that Batch on EKS can express a job.

    Raises:
        BadInput: Batch cannot.
    """
    check_job(
        job, "a Batch job on EKS", roles=range(1, _MOST_RANGES + 1), further_fields=("copies",)
    )
    check_definition(job)
    if has_head(job):
        raise BadInput(
            "a command names MASTER_ADDR, for which Batch on EKS has no variable in a pod's words",
            fix="start it by a shell that sets the variable, or write --as batch",
        )
    for name in ("region", "purchase"):
        if getattr(job, name):
            raise BadInput(
                f"{name} is {getattr(job, name)!r}; the job queue states it, not a job of Batch",
                fix=f"take {name} out, and submit the job to such a queue",
            )
    for job_role in job.roles:
        check_nodes(job, job_role)


FORMAT: Final = JobFormat(
    name="batch-eks",
    title="AWS Batch job definition on EKS",
    suffix=".json",
    places=_places,
    read=_read,
    write=_write,
    is_manifest=True,
    fields="batch",
)
