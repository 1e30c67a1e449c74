"""Task definitions of Amazon ECS, as RegisterTaskDefinition takes them.

A container with Neuron devices, GPUs or EFA is a role. Of a task without such a container, the
first container is the role. Other containers are kept: they are no part of the job, and are written
back as they were read. A task runs on one instance, and a task definition states no number of
tasks.

Sources: Amazon ECS API reference, RegisterTaskDefinition and ContainerDefinition; developer guide,
"Example Neuron task definitions" (ecs-inference-task-def); CloudFormation user guide,
AWS::ECS::TaskDefinition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.formats.cloudformation import resources
from trnsim.jobs.formats.container import (
    MIB,
    ContainerReader,
    common_fields,
    device_numbers,
    with_kept_places,
)
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.listing import (
    Keys,
    item_count,
    tagged_model,
    tags,
    with_gaps,
    with_indexes,
    with_names,
)
from trnsim.jobs.formats.refusal import (
    UnsupportedField,
    check_expressible,
    check_name,
    check_ranks,
    common_value,
    in_units,
)
from trnsim.jobs.formats.writing import json_spec, with_kept_fields, without_empty
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.parallelism import options_of, started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_UNITS: Final = 1024
"""CPU units of a vCPU. Source: ContainerDefinition, cpu."""
_INSTANCE: Final = re.compile(r"\s*attribute:ecs\.instance-type\s*==\s*([\w.-]+)\s*", re.ASCII)
_FAMILY: Final = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)
"""Source: RegisterTaskDefinition, family."""
_CONTAINERS: Final = "containerDefinitions"
_UNSUPPORTED_FIELDS: Final = {
    "time_limit_s": UnsupportedField("a task definition of ECS has no time limit", "--as batch"),
    "copies": UnsupportedField("RunTask or the service states the number of ECS tasks"),
    "parallelism": UnsupportedField(
        "a task definition has no field for it", "state it in the command"
    ),
    "roles.replicas": UnsupportedField(
        "RunTask or the service states the number of ECS tasks",
        "write a task definition of one replica, or --as batch",
    ),
    "roles.least_replicas": UnsupportedField(
        "the service scales ECS tasks, not the task definition"
    ),
    "roles.cores": UnsupportedField(
        "ECS hands out devices", "ask for devices, and set NEURON_RT_NUM_CORES in the environment"
    ),
}


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    """The places of task definitions in a file: its root, a request, or CloudFormation."""
    yield from resources(root, "AWS::ECS::TaskDefinition", "family")
    if isinstance(root.value, dict):
        definition = root.value.get("taskDefinition")
        if isinstance(definition, dict) and _CONTAINERS in definition:
            yield root.inner("taskDefinition")
        elif _CONTAINERS in root.value:
            yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a task definition."""
    reader = SpecReader(place)
    name = reader.text("family", field="name")
    count = item_count(reader, _CONTAINERS)
    if not count:
        fix = 'add {"name": "train", "image": "REPOSITORY:TAG", "memory": 1024}'
        raise reader.refused((_CONTAINERS,), "a task needs a container", fix)
    indexes = [index for index in range(count) if _has_devices(reader, index)] or [0]
    instance = _instance(reader, len(indexes))
    roles, names = [], {}
    for number, index in enumerate(indexes):
        container = ContainerReader(reader, (_CONTAINERS, index), f"roles.{number}")
        roles.append(_role(container, instance, is_alone=count == 1))
        names.update(container.names)
    model = tagged_model(reader, "tags", key="key", value="value")
    kept_fields = with_names(reader.kept_fields(), names)
    is_server = any(
        _is_server(role, kept_fields, index) for role, index in zip(roles, indexes, strict=True)
    )
    kind = JobKind.SERVING if is_server else JobKind.TRAINING
    job = Job(name=name, kind=kind, roles=tuple(roles), model=model, kept_fields=kept_fields)
    return JobSpec(FORMAT.name, job, reader.start, reader.lines, tuple(reader.templates))


def _role(container: ContainerReader, instance: str, *, is_alone: bool) -> Role:
    """The role of a container.

    The only container of a task has the vCPUs and memory of the task, unless it states its own.
    """
    reader, field = container.reader, container.field
    entry = container.words("entryPoint", field="command")
    arguments = container.words("command", field="command")
    units = container.whole("cpu", field="vcpus") if reader.value(*container.keys, "cpu") else None
    memory = container.whole("memory", field="memory_bytes")
    fields: dict[str, Any] = {
        "name": container.text("name", field="name"),
        "instance": instance,
        "command": (*entry, *arguments),
        "processes": started_ranks((*entry, *arguments)),
        "entry_words": len(entry),
        "gpus": container.required_amount("GPU", "gpus"),
        "capabilities": container.words(
            "linuxParameters", "capabilities", "add", field="capabilities"
        ),
        **container.common(),
    }
    if not fields["device_indexes"]:
        fields["devices"] = _managed_devices(container)
    if is_alone:
        units = _task_number(reader, "cpu", f"{field}.vcpus") if units is None else units
        memory = (
            _task_number(reader, "memory", f"{field}.memory_bytes") if memory is None else memory
        )
    fields["vcpus"] = None if units is None else units / _UNITS
    fields["memory_bytes"] = None if memory is None else memory * MIB
    return Role(**fields)


def _task_number(reader: SpecReader, name: str, field: str) -> int | None:
    """The number in a field of the task, in CPU units or MiB; None for any other value.

    The field is kept.
    """
    place = reader.place(name)
    if place is None or not re.fullmatch(r"\d{1,15}", str(place.value), re.ASCII):
        return None
    reader.lines.setdefault(field, place.line)
    return int(place.value)


def _managed_devices(container: ContainerReader) -> int | None:
    """The number of devices if ECS chooses their indexes; None for "ALL", which is kept."""
    list_keys = (*container.keys, "resourceRequirements")
    for index in range(item_count(container.reader, *list_keys)):
        keys = (*list_keys, index)
        is_neuron = container.reader.value(*keys, "type") == "NeuronDevice"
        if is_neuron and container.reader.value(*keys, "value") != "ALL":
            return container.required_amount("NeuronDevice", "devices")
    return None


def _has_devices(reader: SpecReader, index: int) -> bool:
    """True if a container has Neuron devices, GPUs or EFA."""
    container = reader.value(_CONTAINERS, index)
    if not isinstance(container, dict):
        return False
    parameters = container.get("linuxParameters")
    devices = parameters.get("devices") if isinstance(parameters, dict) else None
    paths = [row.get("hostPath") for row in _mappings(devices)]
    kinds = [row.get("type") for row in _mappings(container.get("resourceRequirements"))]
    return any(str(path).startswith(("/dev/neuron", "/dev/infiniband")) for path in paths) or any(
        kind in ("GPU", "NeuronDevice", "InferenceAccelerator") for kind in kinds
    )


def _mappings(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _instance(reader: SpecReader, role_count: int) -> str:
    """The instance type that a placement constraint states for all roles; "" if none does."""
    constraints: Keys = ("placementConstraints",)
    for index in range(item_count(reader, *constraints)):
        expression = reader.value(*constraints, index, "expression")
        match = _INSTANCE.fullmatch(expression) if isinstance(expression, str) else None
        if match and reader.value(*constraints, index, "type") == "memberOf":
            for number in range(role_count):
                for key in ("expression", "type"):
                    reader.take(*constraints, index, key, field=f"roles.{number}.instance")
            return match[1]
    return ""


def _is_server(role: Role, kept_fields: tuple[KeptField, ...], index: int) -> bool:
    """True if a container listens: it has ports, or its command has `--port`."""
    ports = (_CONTAINERS, index, "portMappings", 0)
    return "port" in options_of(role.command) or any(
        field.keys[: len(ports)] == ports for field in kept_fields
    )


def _write(job: Job) -> str:
    """The task definition of a job."""
    check_expressible(job, _UNSUPPORTED_FIELDS)
    check_name(job.name, _FAMILY, "a family of ECS: 1 to 255 letters, digits, - and _")
    instance = common_value(job, "instance", "the containers of a task are on one instance")
    containers = with_gaps(
        [_container(role) for role in job.roles], job.kept_fields, (_CONTAINERS,), "image"
    )
    for index, container in enumerate(containers):
        if container:
            containers[index] = with_kept_places(container, job.kept_fields, (_CONTAINERS, index))
    constraint = {"type": "memberOf", "expression": f"attribute:ecs.instance-type == {instance}"}
    constraints = with_gaps(
        [constraint] if instance else [], job.kept_fields, ("placementConstraints",), "expression"
    )
    _check_kind(job, containers)
    document = without_empty(
        {
            "family": job.name,
            _CONTAINERS: containers,
            "placementConstraints": constraints,
            "tags": tags(job, ("tags",), key="key", value="value"),
        }
    )
    return json_spec(with_kept_fields(document, with_indexes(document, job.kept_fields)))


def _container(role: Role) -> dict[str, Any]:
    """The container of a role.

    Raises:
        BadInput: a quantity is no whole number of ECS's units, or the number of devices is not that
            of their indexes.
    """
    check_ranks(role)
    numbers = device_numbers(role)
    instance = catalogue().instances.get(role.instance)
    if role.is_exclusive and (instance is None or len(numbers) != instance.count):
        raise BadInput(
            f"role {role.name!r} has its instance for itself: ECS places several tasks on one",
            fix="give it all devices of its instance",
        )
    fields_of_role = common_fields(role)
    fields_of_role["linuxParameters"] |= without_empty(
        {"capabilities": {"add": list(role.capabilities)} if role.capabilities else {}}
    )
    managed_devices = None if numbers else role.devices
    amounts = {"GPU": role.gpus, "NeuronDevice": managed_devices}
    return {
        "name": role.name,
        "entryPoint": list(role.command[: role.entry_words]),
        "command": list(role.command[role.entry_words :]),
        "cpu": in_units(role.vcpus, 1 / _UNITS, "vcpus", "CPU units, 1024 of a vCPU"),
        "memory": in_units(role.memory_bytes, MIB, "memory_bytes", "MiB"),
        "resourceRequirements": [
            {"type": kind, "value": str(count)}
            for kind, count in amounts.items()
            if count is not None
        ],
        **fields_of_role,
    }


def _check_kind(job: Job, containers: list[dict[str, Any]]) -> None:
    """Check that the job is a server with a port, or another job without one.

    Raises:
        BadInput: the job is neither, or a cluster.
    """
    if job.kind is JobKind.CLUSTER:
        raise BadInput("a cluster is no ECS task", fix="write a job that runs on it")
    roles = iter(job.roles)
    is_server = any(
        _is_server(next(roles), job.kept_fields, index)
        for index, row in enumerate(containers)
        if row
    )
    if is_server is not (job.kind is JobKind.SERVING):
        raise BadInput(
            f"a {job.kind.value} job {'with' if is_server else 'without'} a port",
            fix="state --port in the command of a server, and in no other",
        )


FORMAT: Final = JobFormat(
    name="ecs",
    title="ECS task definition",
    suffix=".json",
    places=_places,
    read=_read,
    write=_write,
    fields="ecs",
)
