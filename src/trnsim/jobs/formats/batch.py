"""Job definitions of AWS Batch, as RegisterJobDefinition takes them; on EKS, see `batch_eks`.

A single container is one role; each range of nodes of a multi-node parallel job is a role, whose
replicas are its nodes. Such nodes run nothing else. Tasks of several containers (`ecsProperties`)
are read and not written.

Sources: AWS Batch API reference, RegisterJobDefinition, ContainerProperties and NodeRangeProperty;
user guide, "Multi-node parallel jobs"; CloudFormation, AWS::Batch::JobDefinition.
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
from trnsim.jobs.formats.container import (
    MIB,
    ContainerReader,
    common_fields,
    device_numbers,
    with_kept_places,
)
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.listing import Keys, item_count, with_indexes, with_names
from trnsim.jobs.formats.refusal import UnsupportedField, check_expressible, check_ranks, in_units
from trnsim.jobs.formats.rendezvous import with_head, without_head
from trnsim.jobs.formats.writing import json_spec, with_kept_fields, without_empty
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_SINGLE: Final = "containerProperties"
_TASK: Final = ("ecsProperties", "taskProperties", 0, "containers")
_KINDS: Final = (_SINGLE, "nodeProperties", "ecsProperties")
_HEAD: Final = "${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-$(hostname -i)}"
"""Address of the main node in a shell: Batch sets the variable on all other nodes.

Source: AWS Batch user guide, "Environment variables" of multi-node parallel jobs.
"""
_IPC_LOCK: Final = "IPC_LOCK"
_UNSUPPORTED_FIELDS: Final = {
    "parallelism": UnsupportedField(
        "a job definition has no field for it", "state it in the command"
    ),
    "roles.least_replicas": UnsupportedField("a Batch job does not grow"),
    "roles.entry_words": UnsupportedField(
        "Batch keeps the image's entry point", "set entry_words to 0, or build it into the image"
    ),
    "roles.cores": UnsupportedField(
        "Batch hands out devices", "ask for devices, and set NEURON_RT_NUM_CORES in the environment"
    ),
}

_PLACEHOLDERS: Final = {"VCPU": "${VCPUS}", "MEMORY": "${MEMORY_MIB}"}
"""Texts of the amounts that a job does not state: Batch demands both, and a user fills them in."""


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    yield from resources(root, "AWS::Batch::JobDefinition", "jobDefinitionName")
    if (
        isinstance(root.value, dict)
        and "jobDefinitionName" in root.value
        and (root.value.get("type") in TYPES or any(kind in root.value for kind in _KINDS))
    ):
        yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a job definition."""
    reader = SpecReader(place)
    head = read_head(reader)
    names: dict[Keys, dict[int, str]] = {}
    if "nodeProperties" in place.value:
        roles = [
            _role(
                reader,
                (*NODES, index, "container"),
                index,
                names,
                replicas=replicas,
                is_exclusive=True,
            )
            for index, replicas in enumerate(node_replicas(reader))
        ]
    elif "ecsProperties" in place.value:
        count = item_count(reader, *_TASK)
        roles = [_role(reader, (*_TASK, index), index, names) for index in range(count)]
    else:
        roles = [_role(reader, (_SINGLE,), 0, names)]
    job = Job(**head, roles=tuple(roles), kept_fields=with_names(reader.kept_fields(), names))
    return JobSpec(FORMAT.name, job, reader.start, reader.lines, tuple(reader.templates))


def _role(
    reader: SpecReader,
    keys: Keys,
    index: int,
    names: dict[Keys, dict[int, str]],
    **fields: Any,
) -> Role:
    """The role of a container.

    Args:
        reader: the reader of the job definition.
        keys: the names and indexes that lead to the container.
        index: index of the role.
        names: table to which the names of items are added, by the keys of their list and index.
        fields: fields of the role that the container's properties do not state.
    """
    if reader.value(*keys) == {}:
        reader.take(*keys)
    container = ContainerReader(reader, keys, f"roles.{index}")
    field = container.field
    vcpus_keys = container.requirement_keys("VCPU", "vcpus") or (*keys, "vcpus")
    memory_keys = container.requirement_keys("MEMORY", "memory_bytes") or (*keys, "memory")
    vcpus = reader.number(*vcpus_keys, field=f"{field}.vcpus")
    memory = reader.whole(*memory_keys, field=f"{field}.memory_bytes")
    for amount_keys in (vcpus_keys, memory_keys):
        if reader.value(*amount_keys) in _PLACEHOLDERS.values():
            reader.take(*amount_keys)
    command = without_head(container.words("command", field="command"), _HEAD)
    role = Role(
        name=f"nodes{index}" if index else "main",
        vcpus=vcpus,
        memory_bytes=None if memory is None else memory * MIB,
        gpus=container.required_amount("GPU", "gpus"),
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
    """The job definition of a job."""
    _check(job)
    is_multinode = all(role.is_exclusive for role in job.roles)
    document = definition_head(job, TYPES[is_multinode])
    if is_multinode:
        document["nodeProperties"] = {NODES[1]: _node_ranges(job)}
    else:
        document[_SINGLE] = with_kept_places(_container(job.roles[0]), job.kept_fields, (_SINGLE,))
    document = with_kept_fields(without_empty(document), with_indexes(document, job.kept_fields))
    if is_multinode:
        defaults = without_empty({"numNodes": job.replicas, "mainNode": 0})
        document["nodeProperties"] = defaults | document["nodeProperties"]
    return json_spec(document)


def _node_ranges(job: Job) -> list[dict[str, Any]]:
    """Ranges of nodes for the roles, one after the other."""
    ranges: list[dict[str, Any]] = []
    for index, (role, nodes) in enumerate(zip(job.roles, target_ranges(job), strict=True)):
        container = _container(role) | {"instanceType": role.instance}
        container = with_kept_places(container, job.kept_fields, (*NODES, index, "container"))
        ranges.append({"targetNodes": nodes, "container": container})
    return ranges


def _container(role: Role) -> dict[str, Any]:
    """The container of a role.

    Raises:
        BadInput: a quantity is not in Batch's units.
    """
    amounts = {
        "VCPU": _PLACEHOLDERS["VCPU"] if role.vcpus is None else f"{role.vcpus:.15g}",
        "MEMORY": _PLACEHOLDERS["MEMORY"]
        if role.memory_bytes is None
        else in_units(role.memory_bytes, MIB, "memory_bytes", "MiB"),
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
    """The role with unlimited locked memory, if IPC_LOCK is its only capability."""
    if role.capabilities != (_IPC_LOCK,):
        return role
    return replace(role, capabilities=(), is_memlock_unlimited=True)


def _check(job: Job) -> None:
    """Check that Batch can express a job.

    Raises:
        BadInput: Batch cannot.
    """
    check_expressible(job, _UNSUPPORTED_FIELDS)
    check_definition(job)
    if any(field.keys[0] == "ecsProperties" for field in job.kept_fields):
        raise BadInput("a Batch job with ecsProperties is read, not written", fix="--as ecs")
    for role in job.roles:
        _check_role(job, role)


def _check_role(job: Job, role: Role) -> None:
    """Check that Batch can express a role.

    Raises:
        BadInput: Batch cannot.
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
    check_nodes(job, role)


FORMAT: Final = JobFormat(
    name="batch",
    title="AWS Batch job definition",
    suffix=".json",
    places=_places,
    read=_read,
    write=_write,
    fields="batch",
)
