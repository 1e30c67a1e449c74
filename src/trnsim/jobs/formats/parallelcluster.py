"""ParallelCluster's `cluster.yaml` with Slurm: the compute resources of its queues are roles.

Source: AWS ParallelCluster User Guide, Scheduling section; the schema of aws-parallelcluster 3.16,
``pcluster/schemas/cluster_schema.py``. The head node is no role: it has no accelerator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.writing import in_order, with_kept_fields, without_empty, yaml_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.spec import JobSpec, SpecReader, is_template
from trnsim.reader import SourcePlace

_QUEUES: Final = ("Scheduling", "SlurmQueues")
_RESOURCES: Final = "ComputeResources"
_MOST_NODES: Final = 10
"""The default of MaxCount. Source: User Guide, SlurmQueues, ComputeResources, MaxCount."""
_MIB: Final = 1 << 20
_PURCHASES: Final = {"ONDEMAND": "on_demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity_block"}
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,24}", re.ASCII)
"""Source: User Guide, SlurmQueues, Name: a letter first, lower case, at most 25 characters."""
_SUBNET: Final = "subnet-00000000000000000"
_PLACEHOLDERS: Final[tuple[tuple[tuple[str, ...], Any], ...]] = (
    (("Image", "Os"), "alinux2023"),
    (("HeadNode", "InstanceType"), "m5.xlarge"),
    (("HeadNode", "Networking", "SubnetId"), _SUBNET),
    (("Scheduling", "Scheduler"), "slurm"),
)
"""Fields that a cluster must state and a job does not; when read they are treated as absent."""
_SUBNETS: Final = ("Networking", "SubnetIds")
_FIELDS: Final = frozenset(
    ("name", "replicas", "least_replicas", "instance", "is_exclusive", "efa", "memory_bytes")
)
"""Fields of a role that a compute resource states."""


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    queue_section = root.value.get(_QUEUES[0]) if isinstance(root.value, dict) else None
    if isinstance(queue_section, dict) and isinstance(queue_section.get(_QUEUES[1]), list):
        yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a cluster.

    Raises:
        BadInput: a value of a queue is not legal.
    """
    reader = SpecReader(place)
    for keys, value in _PLACEHOLDERS:
        _pass_over(reader, keys, value)
    if not reader.length(*_QUEUES):
        reader.take(*_QUEUES)
    roles = [
        _role(reader, (*_QUEUES, queue, _RESOURCES, resource), queue, f"roles.{number}")
        for number, (queue, resource) in enumerate(_resource_indexes(reader))
    ]
    purchase = _purchase(reader)
    job = Job(
        kind=JobKind.CLUSTER,
        roles=tuple(roles),
        region=reader.text("Region", field="region"),
        purchase=purchase,
        kept_fields=in_order(reader.kept_fields()),
    )
    return JobSpec("parallelcluster", job, reader.start, reader.lines, tuple(reader.templates))


def _pass_over(reader: SpecReader, keys: tuple[str | int, ...], value: Any) -> None:
    """Mark a writer's placeholder, and empty mappings around it, as read."""
    for end in range(1, len(keys)):
        if reader.value(*keys[:end]) == {}:
            reader.take(*keys[:end])
    if reader.value(*keys) == value:
        reader.take(*keys)


def _resource_indexes(reader: SpecReader) -> Iterator[tuple[int, int]]:
    """The index of the queue, and the index in it, of each compute resource."""
    for queue in range(reader.length(*_QUEUES)):
        if not isinstance(reader.value(*_QUEUES, queue), dict):
            fix = "write - Name: QUEUE, and ComputeResources below it"
            raise reader.refused((*_QUEUES, queue), "legal: a mapping of a queue's fields", fix)
        _pass_over(reader, (*_QUEUES, queue, *_SUBNETS), [_SUBNET])
        if not reader.length(*_QUEUES, queue, _RESOURCES):
            resource_keys = (*_QUEUES, queue, _RESOURCES)
            faulty_keys = resource_keys if reader.place(*resource_keys) else (*_QUEUES, queue)
            fix = f"add {_RESOURCES}, and in it - Name, InstanceType and MaxCount"
            raise reader.refused(
                faulty_keys, f"legal: {_RESOURCES}, a list of compute resources", fix
            )
        for resource in range(reader.length(*_QUEUES, queue, _RESOURCES)):
            keys = (*_QUEUES, queue, _RESOURCES, resource)
            if not isinstance(reader.value(*keys), dict):
                fix = "write - Name, InstanceType and MaxCount"
                raise reader.refused(keys, "legal: a mapping of a compute resource's fields", fix)
            yield queue, resource


def _role(reader: SpecReader, keys: tuple[str | int, ...], queue: int, path: str) -> Role:
    place = reader.place(*keys)
    reader.lines[path] = reader.start if place is None else place.line
    queue_name = reader.text(*_QUEUES, queue, "Name", field=f"{path}.queue")
    name = reader.text(*keys, "Name", field=f"{path}.name")
    most_nodes = reader.whole(*keys, "MaxCount", field=f"{path}.replicas", minimum=1)
    is_stated = reader.value(*keys, "MaxCount") is not None
    least_nodes = reader.whole(*keys, "MinCount", field=f"{path}.least_replicas")
    instance = _instance(reader, keys, path)
    memory_mib = reader.whole(*keys, "SchedulableMemory", field=f"{path}.memory_bytes", minimum=1)
    return Role(
        name=name if name == queue_name else f"{queue_name}/{name}",
        replicas=most_nodes if is_stated else _MOST_NODES,
        least_replicas=least_nodes,
        instance=instance,
        is_exclusive=True,
        efa=_efa(reader, keys, path, instance),
        memory_bytes=None if memory_mib is None else memory_mib * _MIB,
    )


def _instance(reader: SpecReader, keys: tuple[str | int, ...], path: str) -> str:
    """The nodes' type; "" for several types, or if a reservation or a template states it."""
    type_keys: tuple[str | int, ...] = (*keys, "InstanceType")
    if reader.value(*type_keys) is None and reader.length(*keys, "Instances") == 1:
        type_keys = (*keys, "Instances", 0, "InstanceType")
    text = reader.text(*type_keys, field=f"{path}.instance")
    if not is_template(text):
        return text
    reader.give_back(*type_keys)
    return ""


def _efa(reader: SpecReader, keys: tuple[str | int, ...], path: str, instance: str) -> int | None:
    """All interfaces of the instance where EFA is enabled. Source: User Guide, Efa, Enabled."""
    enabled = reader.boolean(*keys, "Efa", "Enabled", field=f"{path}.efa")
    if enabled is not True:
        return 0 if enabled is False else None
    count = _interfaces(instance)
    if count is None:
        reader.give_back(*keys, "Efa", "Enabled")
    return count


def _interfaces(instance: str) -> int | None:
    """Number of EFA interfaces of an instance type; None if no source states it."""
    row = catalogue().instances.get(instance)
    return row.efa_devices or None if row else None


def _purchase(reader: SpecReader) -> str:
    """The kind of purchase that all queues state; "" where they differ."""
    queues = range(reader.length(*_QUEUES))
    capacity_types = [reader.value(*_QUEUES, queue, "CapacityType") for queue in queues]
    first_type = capacity_types[0] if capacity_types else None
    if not isinstance(first_type, str) or first_type not in _PURCHASES:
        return ""
    if any(text != first_type for text in capacity_types):
        return ""
    for queue in queues:
        reader.text(*_QUEUES, queue, "CapacityType", field="purchase")
    return _PURCHASES[first_type]


def _write(job: Job) -> str:
    """The `cluster.yaml` of a job."""
    _check(job)
    document: dict[str, Any] = {"Region": job.region} if job.region else {}
    queues: list[dict[str, Any]] = []
    names = [name for name, purchase in _PURCHASES.items() if purchase == job.purchase]
    capacity = {"CapacityType": names[0]} if names else {}
    for role in job.roles:
        queue, _, name = role.name.rpartition("/")
        queue = queue or name
        if not queues or queues[-1]["Name"] != queue:
            queues.append({"Name": queue, **capacity, _RESOURCES: []})
        queues[-1][_RESOURCES].append(_resource(role, name))
    document[_QUEUES[0]] = {_QUEUES[1]: queues}
    with_kept_fields(document, job.kept_fields)
    for keys, value in _PLACEHOLDERS:
        _put(document, keys, value)
    for queue_fields in queues:
        _put(queue_fields, _SUBNETS, [_SUBNET])
    order = ("Region", "Image", "HeadNode", "Scheduling")
    ordered_document = {name: document[name] for name in order if name in document}
    text = yaml_spec(ordered_document | document)
    note = f"# {_SUBNET} stands for a subnet of yours\n" if _SUBNET in text else ""
    return note + text


def _put(document: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    """Set a value under keys, unless there is one, or a key on the way holds no mapping."""
    container: Any = document
    for key in keys[:-1]:
        container = container.setdefault(key, {})
        if not isinstance(container, dict):
            return
    container.setdefault(keys[-1], value)


def _resource(role: Role, name: str) -> dict[str, Any]:
    enabled = None if role.efa is None else {"Enabled": role.efa > 0}
    memory = role.memory_bytes
    return without_empty(
        {
            "Name": name,
            "InstanceType": role.instance,
            "MinCount": role.least_replicas,
            "MaxCount": role.replicas,
            "SchedulableMemory": None if memory is None else memory // _MIB,
            "Efa": enabled,
        }
    )


def _check(job: Job) -> None:
    """Refuse a job that a configuration of ParallelCluster cannot express."""
    if job.kind is not JobKind.CLUSTER:
        why = "the nodes of a cluster wait for jobs"
        raise _refusal(f"kind is {job.kind.value}", why, "--as sbatch writes a job for them")
    if job.purchase and job.purchase not in _PURCHASES.values():
        legal = f"legal: {', '.join(_PURCHASES.values())}"
        raise _refusal(f"purchase is {job.purchase}", legal, "state one of them, or none")
    unsupported_fields = [
        name
        for name, is_stated in {
            "name": job.name,
            "time_limit_s": job.time_limit_s is not None,
            "copies": job.copies != 1,
            "model": job.model or job.config,
            "parallelism": job.parallelism.stated_fields,
        }.items()
        if is_stated
    ]
    if unsupported_fields:
        subject = f"{', '.join(unsupported_fields)} stated"
        raise _refusal(subject, "that is a job's, not a cluster's", "--as sbatch writes the job")
    names = [role.name.rpartition("/") for role in job.roles]
    queues = [queue or name for queue, _, name in names]
    blocks = [
        queue for queue, before in zip(queues, ["", *queues], strict=False) if queue != before
    ]
    if len({role.name for role in job.roles}) < len(names) or len(set(blocks)) < len(blocks):
        why = "a queue stands once, with all its resources"
        raise _refusal("roles have the same name", why, "name each QUEUE/RESOURCE")
    for number, role in enumerate(job.roles):
        _check_role(role, job, number)


def _check_role(role: Role, job: Job, number: int) -> None:
    default = Role(name=role.name)
    unsupported_fields = [
        field.name
        for field in fields(role)
        if field.name not in _FIELDS and getattr(role, field.name) != getattr(default, field.name)
    ]
    if unsupported_fields:
        subject = f"role {role.name}: {', '.join(unsupported_fields)}"
        raise _refusal(
            subject, "a compute resource has none", f"leave out {', '.join(unsupported_fields)}"
        )
    if not role.is_exclusive:
        subject = f"role {role.name} has a part of an instance"
        raise _refusal(subject, "nodes are whole ones", "give it all devices of its instance")
    for part in role.name.split("/", 1):
        if not _NAME.fullmatch(part) and "$" not in part and "{{" not in part:
            why = "legal: QUEUE/RESOURCE of a-z, 0-9 and -, a letter first, at most 25 each"
            raise _refusal(f"role's name {role.name!r}", why, "rename the role")
    if role.replicas == 0 or (role.replicas or _MOST_NODES) < (role.least_replicas or 0):
        subject = f"role {role.name}: {role.replicas} replicas"
        least_nodes = max(role.least_replicas or 0, 1)
        raise _refusal(subject, "MaxCount is the most", f"state {least_nodes} or more")
    if role.efa is not None and role.efa not in (0, _interfaces(role.instance)):
        why = f"EFA is enabled on all interfaces of {role.instance or 'an instance'}, or on none"
        fix = f"state {_interfaces(role.instance) or 'no number'}, or 0"
        raise _refusal(f"role {role.name}: {role.efa} EFA interfaces", why, fix)
    if role.memory_bytes is not None and (role.memory_bytes % _MIB or not role.memory_bytes):
        subject = f"role {role.name}: {role.memory_bytes} bytes"
        raise _refusal(subject, "multiples of 1 MiB", "round the memory to MiB")
    has_kept = any(field.keys[:2] == _QUEUES for field in job.kept_fields)
    if not role.instance and not has_kept:
        subject = f"role {role.name} (number {number})"
        raise _refusal(
            subject, "a compute resource has a type", "name the instance type of the role"
        )


def _refusal(subject: str, reason: str, fix: str) -> BadInput:
    return BadInput(f"parallelcluster cannot express the job: {subject}: {reason}", fix=fix)


FORMAT: Final = JobFormat(
    name="parallelcluster",
    title="ParallelCluster configuration",
    suffix=".yaml",
    places=_places,
    read=_read,
    write=_write,
    fields="parallelcluster",
)
