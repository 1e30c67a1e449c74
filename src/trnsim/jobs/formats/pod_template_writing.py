"""The spec of a pod written for a role, and refusals of jobs that no pod can express."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.formats.kubernetes import KeptFields, label_name
from trnsim.jobs.formats.kubernetes_quantity import bytes_text, cpu_value
from trnsim.jobs.formats.pod_template import EXTENDED, INSTANCE_LABELS, JOB_LABELS, PURCHASES
from trnsim.jobs.formats.writing import IMAGE, with_kept_fields, without_empty
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import started_ranks

_SHM: Final = "shm"
_LOCK: Final = "IPC_LOCK"
"""The capability to lock memory beyond the limit. Source: man 7 capabilities."""
_RESOURCES: Final = {field: resource for resource, field in reversed(EXTENDED.items())}
"""The resource that is written for each field of a role."""
_HUGEPAGES_SOURCE: Final = "kubernetes.io docs, Manage HugePages"


def check_job(
    job: Job, title: str, *, roles: range = range(1, 2), further_fields: Collection[str] = ()
) -> None:
    """Refuse a job that pods cannot express.

    Args:
        job: the job.
        title: the format in words, such as "a Pod".
        roles: legal numbers of roles.
        further_fields: fields of jobs and roles that the format expresses, unlike a pod: "copies",
            "least_replicas", "processes".

    Raises:
        BadInput: the error has the field, its value, and the reason.
    """
    if len(job.roles) not in roles:
        legal_count = "one role" if roles[-1] == 1 else f"{roles[0]} to {roles[-1]} roles"
        raise BadInput(
            f"the job has {len(job.roles)} roles; {title} has {legal_count}",
            fix="--as jobset writes several roles",
        )
    if job.copies != 1 and "copies" not in further_fields:
        raise BadInput(
            f"the job has {job.copies} copies; {title} is one job", fix="write a Job, as job"
        )
    job_fields = {"config": job.config, "parallelism": job.parallelism.stated_fields}
    for name, value in job_fields.items():
        if value:
            raise BadInput(
                f"{title} has no field for the job's {name}",
                fix="state it in options of the command",
            )
    for role in job.roles:
        _check_role(role, title, further_fields)


def _check_role(role: Role, title: str, further_fields: Collection[str]) -> None:
    """Refuse a role that a pod cannot express.

    Raises:
        BadInput: the error has the field, its value, and the reason.
    """
    if role.device_indexes:
        raise BadInput(
            f"role {role.name!r}: devices {', '.join(map(str, role.device_indexes))} are named; "
            "the device plugin chooses the devices of a pod",
            fix="state their number",
            source="aws-neuron-sdk deploy/includes/k8s-neuron-device-plugin.rst",
        )
    if role.least_replicas is not None and "least_replicas" not in further_fields:
        raise BadInput(
            f"role {role.name!r}: from {role.least_replicas} to {role.replicas} replicas; "
            f"{title} has one number",
            fix="state one, or --as pytorchjob, whose workers may grow",
        )
    ranks = started_ranks(role.command)
    if role.processes not in (None, ranks or 1) and "processes" not in further_fields:
        raise BadInput(
            f"role {role.name!r}: {role.processes} processes; {title} starts one",
            fix=f"start them in the command: torchrun --nproc-per-node {role.processes}",
        )
    if role.hugepages_bytes and role.vcpus is None and role.memory_bytes is None:
        raise BadInput(
            f"role {role.name!r}: huge pages without memory or vCPUs, which Kubernetes refuses",
            fix="state memory_bytes or vcpus of the role",
            source=_HUGEPAGES_SOURCE,
        )


def pod_spec(
    role: Role,
    job: Job,
    kept_fields: KeptFields,
    *,
    container: str = "",
    is_program: bool = True,
) -> dict[str, Any]:
    """The spec of a pod, with the fields that are kept in it.

    Args:
        role: the role.
        job: its job.
        kept_fields: fields of the spec, by keys below it.
        container: name of the container, unless a name is kept; "" for the role's name.
        is_program: whether the role's command is the container's `command`.

    Raises:
        BadInput: a number has no form in Kubernetes.
    """
    kept_containers = kept_fields.fields_below("containers")
    index = next(
        index for index in itertools.count() if not kept_containers.has_field(index, "image")
    )
    kept_below = kept_containers.fields_below(index)
    name = kept_below.value("name", default=container or label_name(role.name, "main"))
    has_shm = role.shm_bytes is not None
    container_fields = {
        "name": name,
        "image": role.image or IMAGE,
        **(_program(role) if is_program else {}),
        "env": kept_below.fields_below("env").with_gaps(
            ({"name": key, "value": value} for key, value in role.environment), "name"
        ),
        "resources": _resources(role, is_claimed=kept_below.has_field("resources", "claims")),
        "securityContext": _security(role),
        "volumeMounts": kept_below.fields_below("volumeMounts").with_gaps(
            [{"name": _SHM, "mountPath": "/dev/shm"}] if has_shm else []  # noqa: S108
        ),
    }
    shm = {"medium": "Memory", "sizeLimit": bytes_text(role.shm_bytes or 0)}
    spec = {
        "nodeSelector": without_empty({INSTANCE_LABELS[0]: role.instance, **_selector(job)}),
        "containers": kept_containers.with_gaps([without_empty(container_fields)], "image"),
        "volumes": kept_fields.fields_below("volumes").with_gaps(
            [{"name": _SHM, "emptyDir": shm}] if has_shm else []
        ),
    }
    return with_kept_fields(without_empty(spec), kept_fields.fields)


def _selector(job: Job) -> dict[str, str]:
    """Labels of nodes that state the region and the kind of purchase.

    Raises:
        BadInput: nodes have no such kind of purchase.
    """
    values = {label: getattr(job, field) for label, field in JOB_LABELS.items()}
    names = {kind: name for name, kind in PURCHASES.items()}
    for label, field in JOB_LABELS.items():
        if field == "purchase" and job.purchase:
            if job.purchase not in names:
                legal = f"legal: {', '.join(names)}"
                raise BadInput(f"purchase is {job.purchase!r}; {legal}", fix="state one of them")
            values[label] = names[job.purchase]
    return values


def _program(role: Role) -> dict[str, list[str]]:
    """The words of a program by field of a container; without an image all are the command's."""
    entry_words = role.entry_words if role.image else len(role.command)
    return {
        "command": list(role.command[:entry_words]),
        "args": list(role.command[entry_words:]),
    }


def _resources(role: Role, *, is_claimed: bool) -> dict[str, Any]:
    """Requests and limits, which are equal except for cpu and memory; claimed devices are left out.

    Raises:
        BadInput: vCPUs are in parts below a thousandth.
    """
    values = {
        resource: getattr(role, field)
        for field, resource in _RESOURCES.items()
        if getattr(role, field) is not None
    }
    if is_claimed:
        values.pop(_RESOURCES["devices"], None)
    elif role.is_exclusive:
        values = _whole_instance(role) | values
    if role.hugepages_bytes is not None:
        values[_RESOURCES["hugepages_bytes"]] = bytes_text(role.hugepages_bytes)
    shared: dict[str, Any] = {}
    if role.vcpus is not None:
        shared["cpu"] = cpu_value(role.vcpus)
        if shared["cpu"] is None:
            raise BadInput(
                f"role {role.name!r}: {role.vcpus} vCPUs; legal: thousandths, as 0.5 or 500m",
                fix=f"state {round(role.vcpus, 3) or 0.001:g}",
                source="kubernetes.io docs, Resource Management for Pods, CPU resource units",
            )
    if role.memory_bytes is not None:
        shared["memory"] = bytes_text(role.memory_bytes)
    return without_empty({"limits": values, "requests": {**shared, **values}})


def _whole_instance(role: Role) -> dict[str, int]:
    """The number of all accelerators of the instance, by resource, for an exclusive role.

    Raises:
        BadInput: the instance is not stated, or a part of its accelerators is.
    """
    rows = catalogue()
    instance = rows.instances.get(role.instance.removeprefix("ml."))
    if instance is None:
        raise BadInput(
            f"role {role.name!r} has instances for itself, of a type that is not stated; a pod "
            "does so by all accelerators of its instance",
            fix="state the instance type or the number of devices",
        )
    field = "gpus" if instance.accelerator in rows.gpus else "devices"
    count = getattr(role, field)
    if count not in (None, instance.count):
        raise BadInput(
            f"role {role.name!r} has {instance.name} for itself and {count} of its "
            f"{instance.count} {field}; a pod has an instance for itself by all of them",
            fix=f"state {instance.count} {field}",
        )
    return {_RESOURCES[field]: instance.count}


def _security(role: Role) -> dict[str, Any]:
    """The security context of a container; a lifted limit of locked memory is a capability."""
    context: dict[str, Any] = {"privileged": True} if role.is_privileged else {}
    names = list(role.capabilities)
    if role.is_memlock_unlimited and _LOCK not in names:
        names.append(_LOCK)
    if names:
        context["capabilities"] = {"add": names}
    return context
