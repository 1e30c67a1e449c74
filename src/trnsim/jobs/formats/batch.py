"""Job definitions of AWS Batch, as RegisterJobDefinition takes them.

A single container is one role; each range of nodes of a multi-node parallel job is a role, whose
replicas are its nodes. Such nodes run nothing else. Jobs on EKS, and tasks of several containers
(`ecsProperties`), are read and not written. The size of an array is in SubmitJob.

Sources: AWS Batch API reference, RegisterJobDefinition, ContainerProperties and NodeRangeProperty;
user guide, "Multi-node parallel jobs"; CloudFormation, AWS::Batch::JobDefinition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.cloudformation import resources
from trnsim.jobs.formats.container import (
    MIB,
    ContainerReader,
    common_fields,
    device_numbers,
    with_places,
)
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.listing import MODEL_TAG, Keys, check_model, indexed, item_count, named
from trnsim.jobs.formats.meeting import with_head, without_head
from trnsim.jobs.formats.refusal import Limit, check_expressible, check_name, check_ranks, in_units
from trnsim.jobs.formats.writing import json_spec, with_kept, without_empty
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

__all__ = ["FORMAT"]

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
"""Source: RegisterJobDefinition, jobDefinitionName."""
_RANGE: Final = re.compile(r"(\d{0,9}):(\d{0,9})|(\d{1,9})", re.ASCII)
_NODES: Final = ("nodeProperties", "nodeRangeProperties")
_SINGLE: Final = "containerProperties"
_TASK: Final = ("ecsProperties", "taskProperties", 0, "containers")
_KINDS: Final = (_SINGLE, "nodeProperties", "ecsProperties", "eksProperties")
_HEAD: Final = "${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-$(hostname -i)}"
"""Address of the main node, on which Batch leaves the variable out. Source: AWS Batch user guide,
"Environment variables" of multi-node parallel jobs."""
_IPC_LOCK: Final = "IPC_LOCK"
_TYPES: Final = ("container", "multinode")
_LEAST_TIMEOUT_S: Final = 60
"""Source: RegisterJobDefinition, timeout."""
_LIMITS: Final = {
    "copies": Limit("SubmitJob states the size of an array job of Batch", "write one copy"),
    "parallelism": Limit("a job definition has no field for it", "state it in the command"),
    "roles.least_replicas": Limit("a Batch job does not grow"),
    "roles.entry_words": Limit(
        "Batch keeps the image's entry point", "set entry_words to 0, or build it into the image"
    ),
    "roles.cores": Limit(
        "Batch hands out devices", "ask for devices, and set NEURON_RT_NUM_CORES in the environment"
    ),
}


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    yield from resources(root, "AWS::Batch::JobDefinition", "jobDefinitionName")
    if (
        isinstance(root.value, dict)
        and "jobDefinitionName" in root.value
        and (root.value.get("type") in _TYPES or any(kind in root.value for kind in _KINDS))
    ):
        yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a job definition.

    Raises:
        BadInput: a value is not legal.
    """
    reader = SpecReader(place)
    name = reader.text("jobDefinitionName", field="name")
    limit = reader.whole("timeout", "attemptDurationSeconds", field="time_limit_s")
    kind = reader.value("type")
    if kind in _TYPES:
        reader.take("type")
    names: dict[Keys, dict[int, str]] = {}
    if "nodeProperties" in place.value:
        roles = _node_roles(reader, names)
    elif "ecsProperties" in place.value:
        count = item_count(reader, *_TASK)
        roles = [_role(reader, (*_TASK, index), index, names) for index in range(count)]
    elif "eksProperties" in place.value:
        roles = [Role()]
    else:
        roles = [_role(reader, (_SINGLE,), 0, names)]
    job = Job(
        name=name,
        model=reader.text("tags", MODEL_TAG, field="model"),
        roles=tuple(roles),
        time_limit_s=None if limit is None else float(limit),
        kept=named(reader.kept(), names),
    )
    return JobSpec(FORMAT.name, job, reader.start, reader.lines, tuple(reader.templates))


def _node_roles(reader: SpecReader, names: dict[Keys, dict[int, str]]) -> list[Role]:
    """A role for each range of nodes.

    Raises:
        BadInput: there is no range, a range is malformed, or they leave out a node.
    """
    count = item_count(reader, *_NODES)
    if not count:
        raise reader.refused(_NODES, "a multi-node job needs a range of nodes")
    nodes = reader.whole("nodeProperties", "numNodes", field="roles.0.replicas", least=1)
    if reader.value("nodeProperties", "mainNode") == 0:
        reader.take("nodeProperties", "mainNode")
    replicas = _replicas(reader, count, nodes)
    roles = []
    for index in range(count):
        field = f"roles.{index}"
        at = (*_NODES, index, "container")
        roles.append(_role(reader, at, index, names, replicas=replicas[index], is_exclusive=True))
        place = reader.place(*_NODES, index, "targetNodes")
        if place is not None:
            reader.lines.setdefault(f"{field}.replicas", place.line)
    return roles


def _replicas(reader: SpecReader, count: int, nodes: int | None) -> list[int | None]:
    """Nodes of each range; a range within another one takes its nodes. None if not stated.

    Raises:
        BadInput: a range is malformed, or they leave out a node.
    """
    bounds: list[tuple[int, int | None]] = []
    for index in range(count):
        at = (*_NODES, index, "targetNodes")
        text = reader.text(*at, field=f"roles.{index}.target")
        match = _RANGE.fullmatch(text)
        first = int((match[1] if match[3] is None else match[3]) or 0) if match else 0
        last = (match[2] if match[3] is None else match[3]) if match else ""
        end = nodes if last == "" else int(last) + 1
        if not match or (end is not None and end <= first):
            raise reader.refused(at, "legal: first:last, first: or :last")
        bounds.append((first, end))
    if any(end is None for _, end in bounds):
        return [None] * count
    ranges = [(first, end) for first, end in bounds if end is not None]
    ends = {cut for pair in ranges for cut in pair}
    cuts: list[int] = sorted({0, *ends, *([nodes] if nodes else [])})
    replicas = [0] * count
    for start, end in pairwise(cuts):
        if nodes is not None and start >= nodes:
            break
        around = [i for i, (first, last) in enumerate(ranges) if first <= start and end <= last]
        if not around:
            why = f"no range has node {start} of {cuts[-1] if nodes is None else nodes}"
            raise reader.refused(_NODES, why, "add a range, such as 0:")
        replicas[min(around, key=lambda i: ranges[i][1] - ranges[i][0])] += end - start
    return list(replicas)


def _role(
    reader: SpecReader,
    keys: Keys,
    index: int,
    names: dict[Keys, dict[int, str]],
    **fields: Any,
) -> Role:
    """The role of a container; `fields` are those that its properties do not state.

    Raises:
        BadInput: a value is not legal.
    """
    if reader.value(*keys) == {}:
        reader.take(*keys)
    container = ContainerReader(reader, keys, f"roles.{index}")
    field = container.field
    vcpus_at = container.requirement("VCPU", "vcpus") or (*keys, "vcpus")
    memory_at = container.requirement("MEMORY", "memory_bytes") or (*keys, "memory")
    memory = reader.whole(*memory_at, field=f"{field}.memory_bytes")
    command = without_head(container.words("command", field="command"), _HEAD)
    role = Role(
        name=f"nodes{index}" if index else "main",
        vcpus=reader.number(*vcpus_at, field=f"{field}.vcpus"),
        memory_bytes=None if memory is None else memory * MIB,
        gpus=container.required("GPU", "gpus"),
        command=command,
        processes=started_ranks(command),
        instance=container.text("instanceType", field="instance")
        if fields.get("is_exclusive")
        else "",
        **container.common(),
        **fields,
    )
    names.update(container.names)
    return role


def _write(job: Job) -> str:
    """The job definition of a job.

    Raises:
        BadInput: Batch cannot express it.
    """
    _check(job)
    is_multinode = all(role.is_exclusive for role in job.roles)
    limit = in_units(job.time_limit_s, 1, "time_limit_s", "seconds")
    document: dict[str, Any] = {
        "jobDefinitionName": job.name,
        "type": "multinode" if is_multinode else "container",
        "tags": {MODEL_TAG: job.model} if job.model else {},
        "timeout": without_empty({"attemptDurationSeconds": limit}),
    }
    if is_multinode:
        document["nodeProperties"] = {_NODES[1]: _node_ranges(job)}
    else:
        document[_SINGLE] = with_places(_container(job.roles[0]), job.kept, (_SINGLE,))
    document = with_kept(without_empty(document), indexed(document, job.kept))
    if is_multinode:
        defaults = without_empty({"numNodes": job.replicas, "mainNode": 0})
        document["nodeProperties"] = defaults | document["nodeProperties"]
    return json_spec(document)


def _node_ranges(job: Job) -> list[dict[str, Any]]:
    """Ranges of nodes for the roles, one after the other."""
    ranges: list[dict[str, Any]] = []
    start = 0
    for index, role in enumerate(job.roles):
        at = (*_NODES, index, "container")
        end = "" if role.replicas is None else start + role.replicas - 1
        container = _container(role) | {"instanceType": role.instance}
        container = with_places(container, job.kept, at)
        ranges.append({"targetNodes": f"{start}:{end}", "container": container})
        start += role.replicas or 0
    return ranges


def _container(role: Role) -> dict[str, Any]:
    """The container of a role.

    Raises:
        BadInput: a quantity is not in Batch's units.
    """
    amounts = {
        "VCPU": None if role.vcpus is None else f"{role.vcpus:.15g}",
        "MEMORY": in_units(role.memory_bytes, MIB, "memory_bytes", "MiB"),
        "GPU": role.gpus,
    }
    return {
        "command": list(with_head(role, _HEAD)),
        "resourceRequirements": [
            {"type": kind, "value": str(amount)}
            for kind, amount in amounts.items()
            if amount is not None
        ],
        **common_fields(_without_capabilities(role)),
    }


def _without_capabilities(role: Role) -> Role:
    """A role with the limit of locked memory lifted in place of IPC_LOCK."""
    if role.capabilities != (_IPC_LOCK,):
        return role
    return replace(role, capabilities=(), is_memlock_unlimited=True)


def _check(job: Job) -> None:
    """Nothing, if Batch can express a job.

    Raises:
        BadInput: it cannot.
    """
    check_expressible(job, _LIMITS)
    check_model(job)
    if job.kind is not JobKind.TRAINING:
        raise BadInput(f"a {job.kind.value} job is no Batch job, which ends", fix="--as ecs")
    check_name(job.name, _NAME, "Batch: 1 to 128 letters, digits, - and _")
    if job.time_limit_s is not None and job.time_limit_s < _LEAST_TIMEOUT_S:
        raise BadInput(f"time_limit_s is {job.time_limit_s}; legal in Batch: 60 s or more")
    if any(field.keys[0] in ("ecsProperties", "eksProperties") for field in job.kept):
        raise BadInput("a Batch job with ecsProperties or eksProperties is read, not written")
    if not job.roles:
        raise BadInput("a Batch job needs a role")
    for role in job.roles:
        _check_role(job, role)


def _check_role(job: Job, role: Role) -> None:
    """Nothing, if Batch can express a role.

    Raises:
        BadInput: it cannot.
    """
    name = f"role {role.name!r}"
    check_ranks(role)
    if _without_capabilities(role).capabilities:
        raise BadInput(
            f"{name}: capabilities are {role.capabilities}; Batch adds none",
            fix="lift the limit of locked memory (is_memlock_unlimited) in place of IPC_LOCK",
        )
    if (role.devices or 0) != len(device_numbers(role)):
        raise BadInput(
            f"{name}: {role.devices} devices without their numbers, which Batch needs",
            fix="set device_indexes",
        )
    if not role.is_exclusive and (len(job.roles) > 1 or role.replicas != 1 or role.instance):
        raise BadInput(
            f"{name}: a single container of Batch names no instance and has no replicas",
            fix="set is_exclusive for a multi-node parallel job",
        )
    if role.replicas is None and len(job.roles) > 1:
        raise BadInput(f"{name}: the number of its nodes is not stated")
    if role.replicas is not None and role.replicas < 1:
        raise BadInput(f"{name}: {role.replicas} nodes; legal in Batch: 1 or more")


FORMAT: Final = JobFormat("batch", "AWS Batch job definition", ".json", _places, _read, _write)
