"""A role read from the spec of a pod: the container that has accelerators; others are kept.

Sources: k8s.io/api core/v1 PodSpec and Container; AWS Neuron documentation
deploy/includes/k8s-neuron-device-plugin.rst (names of the resources).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from trnsim.jobs.formats.kubernetes import Keys, check_list, check_mapping, quantity
from trnsim.jobs.formats.pod_requests import ACCELERATORS, pod_requests
from trnsim.jobs.formats.resource_claims import template_claims
from trnsim.jobs.formats.writing import stated_image
from trnsim.jobs.job import Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import SpecReader, TemplateValue

EXTENDED: Final = {
    **ACCELERATORS,
    "vpc.amazonaws.com/efa": "efa",
    "hugepages-2Mi": "hugepages_bytes",
}
"""Fields of a role by resource, for resources whose request equals the limit.

Source: kubernetes.io docs, Schedule GPUs, and Manage HugePages.
"""
_SHARED: Final = {"cpu": "vcpus", "memory": "memory_bytes"}
"""Fields of a role by resource, for resources whose request may be below the limit."""
_ACCELERATORS: Final = ("aws.amazon.com/neuron", "nvidia.com/gpu")
_MOST_SHOWN: Final = 200
"""Characters of a command that an error repeats."""
INSTANCE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
REGION_LABEL: Final = "topology.kubernetes.io/region"
JOB_LABELS: Final = {REGION_LABEL: "region", "eks.amazonaws.com/capacityType": "purchase"}
"""Labels of nodes; `JOB_LABELS` has the field of a job for each of its labels.

Sources: kubernetes.io docs, Well-Known Labels, Annotations and Taints; Amazon EKS user guide,
Managed node group capacity types.
"""
PURCHASES: Final = {
    "ON_DEMAND": "on_demand",
    "SPOT": "spot",
    "CAPACITY_BLOCK": "capacity_block",
}
"""Kinds of purchase by value of the label. Source: Amazon EKS API reference, Nodegroup."""
_SHM: Final = "/dev/shm"  # noqa: S108  a place in the container
_TERMS: Final = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def has_accelerator(container: Any) -> bool:
    """True if a container requests an accelerator, by number or by claim; False for no mapping."""
    resources = container.get("resources") if isinstance(container, dict) else None
    if not isinstance(resources, dict):
        return False
    kinds = (resources.get("limits"), resources.get("requests"))
    names = [name for kind in kinds if isinstance(kind, dict) for name in kind]
    return bool(resources.get("claims")) or any(name.startswith(_ACCELERATORS) for name in names)


def container_index(reader: SpecReader, pod: Keys) -> int:
    """Index of the first container that has accelerators; 0 without such a container.

    Raises:
        BadInput: the pod has no containers.
    """
    if not check_list(reader, *pod, "containers"):
        fix = reader.renaming(*pod, "containers") or "add containers, and in it - name and image"
        raise reader.refused((*pod, "containers"), "legal: a list of one container or more", fix)
    containers = reader.value(*pod, "containers")
    return next((index for index, row in enumerate(containers) if has_accelerator(row)), 0)


def selector_fields(reader: SpecReader, pods: Sequence[Keys]) -> dict[str, Any]:
    """The region and the purchase that node selectors of a job's pods state, by field of the job.

    Only a label with the same value in all pods is read; labels that differ are kept.
    """
    fields: dict[str, Any] = dict.fromkeys(JOB_LABELS.values(), "")
    for label, field in JOB_LABELS.items():
        places = [(*pod, "nodeSelector", label) for pod in pods]
        values = [reader.value(*keys) for keys in places]
        value = values[0] if values else None
        if not isinstance(value, str) or any(other != value for other in values):
            continue
        if reader.is_templated(*places[0], field=field):
            continue
        if field == "purchase" and value not in PURCHASES:
            continue
        for keys in places:
            reader.take(*keys, field=field)
        fields[field] = PURCHASES.get(value, value) if field == "purchase" else value
    return fields


def role(
    reader: SpecReader,
    pod: Keys,
    path: str,
    *,
    name: str,
    is_program: bool = True,
    **role_fields: Any,
) -> Role:
    """The role of a pod's spec; the values that lead to the spec must be mappings.

    Args:
        reader: the document.
        pod: keys of the pod's spec.
        path: path of the role in the job, such as "roles.0".
        name: name of the role; "" for the default, its container.
        is_program: whether the container's command is the program of the role.
        role_fields: other fields of the role.

    Raises:
        BadInput: a value is not legal.
    """
    for end, key in enumerate((*pod, "containers")):
        if end and isinstance(key, str):
            check_mapping(reader, *pod[:end])
    container_keys = (*pod, "containers", container_index(reader, pod))
    if (container := reader.place(*container_keys)) is not None:
        reader.lines.setdefault(f"{path}.container", container.line)
    for keys in (
        (*pod, "nodeSelector"),
        (*container_keys, "resources"),
        (*container_keys, "resources", "limits"),
        (*container_keys, "resources", "requests"),
        (*container_keys, "securityContext"),
    ):
        check_mapping(reader, *keys)
    name = name or reader.text(*container_keys, "name", field=f"{path}.name")
    added_keys = (*container_keys, "securityContext", "capabilities", "add")
    capabilities = reader.words(*added_keys, field=f"{path}.capabilities")
    claims = template_claims(reader, pod)
    if claims:
        reader.claims[path] = claims
    return Role(
        name=name,
        instance=_instance(reader, pod, f"{path}.instance"),
        image=stated_image(reader.text(*container_keys, "image", field=f"{path}.image")),
        environment=_environment(reader, container_keys, f"{path}.environment"),
        shm_bytes=_shm_bytes(reader, pod, container_keys, f"{path}.shm_bytes"),
        capabilities=tuple(name.removeprefix("CAP_") for name in capabilities),
        is_privileged=bool(
            reader.boolean(
                *container_keys, "securityContext", "privileged", field=f"{path}.is_privileged"
            )
        ),
        **_resources(reader, (*container_keys, "resources"), path),
        pod_requests=pod_requests(reader, pod, container_keys, path),
        **{**(_program(reader, container_keys, path) if is_program else {}), **role_fields},
    )


def _resources(reader: SpecReader, keys: Keys, path: str) -> dict[str, Any]:
    """Fields of a role that resources state."""
    fields: dict[str, Any] = {}
    for resource, name in EXTENDED.items():
        number = _extended(reader, keys, resource, f"{path}.{name}")
        if number is not None and name not in fields:
            reader.take(*keys, "limits", resource)
            fields[name] = int(number)
    for resource, name in _SHARED.items():
        amount = quantity(reader, *keys, "requests", resource, field=f"{path}.{name}")
        if amount is not None:
            reader.take(*keys, "requests", resource)
        elif reader.value(*keys, "requests", resource) is None:
            amount = quantity(reader, *keys, "limits", resource, field=f"{path}.{name}")
        if amount is not None:
            fields[name] = float(amount) if name == "vcpus" else int(amount)
    return fields


def _extended(
    reader: SpecReader, container_keys: Keys, resource: str, field: str
) -> Fraction | None:
    """The limit of a resource, or else its request; a request that equals the limit is read too.

    A request that differs, or has no limit, is kept and has a line of its own.

    Raises:
        BadInput: the limit or the request is no whole number.
    """
    limit = quantity(reader, *container_keys, "limits", resource, field=field)
    request = quantity(reader, *container_keys, "requests", resource, field=field)
    for kind, number in (("limits", limit), ("requests", request)):
        if number is not None and number.denominator != 1:
            raise reader.refused((*container_keys, kind, resource), "legal: a whole number")
    is_stated = reader.place(*container_keys, "limits", resource) is not None
    place = reader.place(*container_keys, "requests", resource)
    if limit is None and is_stated:
        return request if reader.value(*container_keys, "limits", resource) is None else None
    if limit == request:
        reader.take(*container_keys, "requests", resource)
    elif request is not None and place is not None:
        reader.lines[f"{field}.request"] = place.line
    return request if limit is None else limit


def _instance(reader: SpecReader, pod: Keys, field: str) -> str:
    """The instance type of a node selector, or the only type of a node affinity; else ""."""
    for label in INSTANCE_LABELS:
        keys = (*pod, "nodeSelector", label)
        if reader.value(*keys) is not None and not reader.is_templated(*keys, field=field):
            return reader.text(*keys, field=field)
    if reader.length(*pod, *_TERMS) != 1:
        return ""
    expressions = (*pod, *_TERMS, 0, "matchExpressions")
    for index in range(reader.length(*expressions)):
        keys = (*expressions, index)
        is_label = reader.value(*keys, "key") in INSTANCE_LABELS
        is_only = reader.value(*keys, "operator") == "In" and reader.length(*keys, "values") == 1
        if not is_label or not is_only or reader.is_templated(*keys, "values", 0, field=field):
            continue
        place, name = reader.place(*keys, "values", 0), reader.value(*keys, "values", 0)
        if place is not None and isinstance(name, str):
            reader.lines.setdefault(field, place.line)
            return name
    return ""


def _list_fix(name: str, value: Any) -> str:
    """The fix for a command that is one text: its words as a list, or a shell for its operators."""
    if not isinstance(value, str) or len(value) > _MOST_SHOWN:
        return f"write {name} as a list of words"
    words = value.split()
    if any(sign in value for sign in "|&;<>$`\"'\\"):
        words = ["sh", "-c", value]
    return f"write {name}: {json.dumps(words)}"


def _program(reader: SpecReader, container_keys: Keys, path: str) -> dict[str, Any]:
    """The program of a role: the words of `command`, which is the entry point, and of `args`.

    Raises:
        BadInput: for a command or arguments that are no list of texts.
    """
    words: dict[str, tuple[str, ...]] = {}
    for name in ("command", "args"):
        value = reader.value(*container_keys, name)
        if value is None or reader.is_templated(*container_keys, name, field=f"{path}.command"):
            continue
        if not isinstance(value, list):
            raise reader.refused(
                (*container_keys, name), "legal: a list of texts", _list_fix(name, value)
            )
        words[name] = reader.words(*container_keys, name, field=f"{path}.command") if value else ()
        untyped_indexes = [
            index for index, word in enumerate(value) if isinstance(word, (bool, int, float))
        ]
        for index in untyped_indexes[:1]:
            place = reader.place(*container_keys, name, index)
            if place is not None:
                reader.lines.setdefault(f"{path}.untyped.command", place.line)
    command = words.get("command", ()) + words.get("args", ())
    return {
        "command": command,
        "entry_words": len(words.get("command", ())),
        "processes": started_ranks(command),
    }


def _environment(
    reader: SpecReader, container_keys: Keys, path: str
) -> tuple[tuple[str, str], ...]:
    """The variables of a container.

    A variable with `valueFrom` is a template; a value that is no text is also kept.

    Raises:
        BadInput: an entry has no name.
    """
    environment: list[tuple[str, str]] = []
    for index in range(check_list(reader, *container_keys, "env")):
        keys = (*container_keys, "env", index)
        name = reader.value(*keys, "name")
        if not isinstance(name, str) or not name:
            fix = reader.renaming(*keys, "name") or "write - name: NAME, and value: 'TEXT' below it"
            raise reader.refused((*keys, "name"), "legal: the name of a variable", fix)
        field = f"{path}.{name}"
        reader.take(*keys, "name", field=f"{field}.name")
        reader.give_back(*keys, "name")
        source = reader.place(*keys, "valueFrom")
        if source is not None:
            reader.lines.setdefault(field, source.line)
            reader.templates.append(TemplateValue(field, "valueFrom", source.line))
            continue
        value = reader.value(*keys, "value")
        if isinstance(value, (bool, int, float)):
            reader.take(*keys, "name", field=field)
            reader.take(*keys, "value", field=f"{path.rpartition('.')[0]}.untyped.{name}")
            reader.give_back(*keys, "value")
            text = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            text = reader.text(*keys, "value", field=field)
            reader.take(*keys, "name", field=field)
        environment.append((name, text))
    return tuple(environment)


def _shm_bytes(reader: SpecReader, pod: Keys, container_keys: Keys, field: str) -> int | None:
    """Size of the memory volume at /dev/shm, if the pod mounts it only there."""
    mounts = reader.value(*container_keys, "volumeMounts")
    volumes = reader.value(*pod, "volumes")
    if not isinstance(mounts, list) or not isinstance(volumes, list):
        return None
    for index, mount in enumerate(mounts):
        name = mount.get("name") if isinstance(mount, dict) else None
        if not isinstance(name, str) or mount != {"name": name, "mountPath": _SHM}:
            continue
        for place, volume in enumerate(volumes):
            medium = volume.get("emptyDir") if isinstance(volume, dict) else None
            if not isinstance(medium, dict) or volume != {"name": name, "emptyDir": medium}:
                continue
            if medium.keys() != {"medium", "sizeLimit"} or medium["medium"] != "Memory":
                continue
            keys = (*pod, "volumes", place, "emptyDir", "sizeLimit")
            size = quantity(reader, *keys, field=field)
            if size is None or size.denominator != 1 or _mounts(reader, pod, name) != 1:
                return None
            reader.take(*pod, "volumes", place)
            reader.take(*container_keys, "volumeMounts", index)
            return int(size)
    return None


def _mounts(reader: SpecReader, pod: Keys, volume: str) -> int:
    """Number of mounts of a volume in all containers of a pod."""
    mounts = (
        reader.value(*pod, kind, container, "volumeMounts", mount, "name")
        for kind in ("containers", "initContainers")
        for container in range(reader.length(*pod, kind))
        for mount in range(reader.length(*pod, kind, container, "volumeMounts"))
    )
    return sum(name == volume for name in mounts)
