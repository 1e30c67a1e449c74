"""Devices that pods claim: ResourceClaimTemplates beside the job in its file.

A pod names templates in `resourceClaims`, which state the devices, instance type and LNC of its
role. Selectors are read for the instance type and the kind of device, if they only compare for
equality and join by "and".

Sources: k8s.io/api resource/v1 DeviceRequest, ExactDeviceRequest; AWS Neuron documentation
deploy/eks/dra.rst (device class, attributes, NeuronConfig).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.jobs.device_claim import DeviceClaim
from trnsim.jobs.formats.kubernetes import Keys, is_manifest
from trnsim.jobs.job import LNC_VARIABLES, Role
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import FileContent

_CLASS: Final = "neuron.aws.com"
_DEVICES: Final = ("spec", "spec", "devices")
_EQUALITY: Final = re.compile(r"""(\w+)\s*==\s*['"]([\w.-]+)['"]""")
_GROUP: Final = re.compile(r"resource\.aws\.com/devicegroup(\d{1,2})_id")
_NODE: Final = "neuron_node"


def template_claims(reader: SpecReader, pod: Keys) -> tuple[DeviceClaim, ...]:
    """Claims of a pod, with the names of their templates alone; the fields are kept."""
    names = [
        reader.value(*pod, "resourceClaims", index, "resourceClaimTemplateName")
        for index in range(reader.length(*pod, "resourceClaims"))
    ]
    return tuple(DeviceClaim(name) for name in names if isinstance(name, str))


def claim_templates(documents: Iterable[FileContent]) -> dict[str, DeviceClaim]:
    """The templates of claims in the documents of a file, by name, with their Neuron devices."""
    claims = {}
    for document in documents:
        root = document.root
        if is_manifest(root.value, "resource.k8s.io", ("ResourceClaimTemplate",)):
            reader = SpecReader(root)
            name = reader.value("metadata", "name")
            if isinstance(name, str):
                claims[name] = _claim(reader, name)
    return claims


def with_claims(spec: JobSpec, templates: Mapping[str, DeviceClaim]) -> JobSpec:
    """The spec with the devices, types and LNC of its roles' templates; a pod's own fields win."""
    claims = {
        path: tuple(templates.get(claim.name, claim) for claim in role_claims)
        for path, role_claims in spec.claims.items()
    }
    roles, lines = list(spec.job.roles), dict(spec.lines)
    for index, job_role in enumerate(roles):
        role_claims = claims.get(f"roles.{index}", ())
        place = next((claim.place for claim in role_claims if claim.place is not None), None)
        if place is not None:
            roles[index] = _with_devices(job_role, role_claims)
            for field in ("devices", "instance", f"environment.{LNC_VARIABLES[0]}"):
                lines.setdefault(f"roles.{index}.{field}", place)
        for number, claim in enumerate(role_claims):
            places = {"devices": claim.place, "group": claim.group_place}
            lines |= {f"roles.{index}.claims.{number}.{n}": p for n, p in places.items() if p}
    return replace(spec.with_job(roles=tuple(roles)), claims=claims, lines=lines)


def _with_devices(job_role: Role, claims: Sequence[DeviceClaim]) -> Role:
    """The role with the devices of its claims."""
    types = {claim.instance for claim in claims if claim.instance}
    instance = job_role.instance or (types.pop() if len(types) == 1 else "")
    row = catalogue().instances.get(instance)
    counts = [
        row.count if claim.is_whole_instance and row is not None else claim.devices
        for claim in claims
    ]
    devices = None if None in counts else sum(count for count in counts if count is not None)
    lncs = {claim.lnc for claim in claims if claim.lnc is not None}
    environment = job_role.environment
    if len(lncs) == 1 and job_role.lnc is None:
        environment = (*environment, (LNC_VARIABLES[0], str(lncs.pop())))
    return replace(
        job_role,
        instance=instance,
        devices=devices if job_role.devices is None else job_role.devices,
        is_exclusive=job_role.is_exclusive or any(claim.is_whole_instance for claim in claims),
        environment=environment,
    )


def _claim(reader: SpecReader, name: str) -> DeviceClaim:
    """The claim of a template; its number of devices is None where requests are alternatives."""
    requests = range(reader.length(*_DEVICES, "requests"))
    classes = [reader.value(*_request(reader, index), "deviceClassName") for index in requests]
    if not classes or None in classes or classes.count(_CLASS) > 1:
        return DeviceClaim(name, reader.start)
    if _CLASS not in classes:
        return DeviceClaim(name, reader.start, devices=0)
    keys = _request(reader, classes.index(_CLASS))
    attributes = _equalities(reader, keys)
    is_node = attributes.get("resourceType") == _NODE
    count = reader.value(*keys, "count") if reader.value(*keys, "count") is not None else 1
    mode = reader.value(*keys, "allocationMode")
    is_counted = mode in (None, "ExactCount") and type(count) is int and count > 0
    group, constraint = _group(reader)
    place = reader.place(*keys, "count") or reader.place(*keys)
    constraint_place = reader.place(*constraint)
    lnc = _parameter(reader, "NeuronConfig", "logicalNeuronCore")
    return DeviceClaim(
        name,
        place.line if place else reader.start,
        devices=count if is_counted and not is_node else None,
        is_whole_instance=(mode == "All" and not is_node)
        or (is_node and is_counted and count == 1),
        group=group,
        group_place=constraint_place.line if group and constraint_place else None,
        instance=attributes.get("instanceType", ""),
        lnc=lnc if type(lnc) is int else None,
    )


def _request(reader: SpecReader, index: int) -> Keys:
    """Keys of a request; before resource.k8s.io/v1beta2 it has no `exactly`."""
    keys = (*_DEVICES, "requests", index)
    return (*keys, "exactly") if reader.value(*keys, "exactly") is not None else keys


def _equalities(reader: SpecReader, keys: Keys) -> dict[str, str]:
    """Attributes that the selectors of a request compare for equality, with their values."""
    attributes: dict[str, str] = {}
    for index in range(reader.length(*keys, "selectors")):
        text = reader.value(*keys, "selectors", index, "cel", "expression")
        if isinstance(text, str) and "||" not in text and "!" not in text:
            attributes.update(_EQUALITY.findall(text))
    return attributes


def _group(reader: SpecReader) -> tuple[int | None, Keys]:
    """Size of the smallest group that a constraint demands, and the keys of that constraint."""
    sizes: list[tuple[int, Keys]] = []
    for index in range(reader.length(*_DEVICES, "constraints")):
        keys = (*_DEVICES, "constraints", index, "matchAttribute")
        text = reader.value(*keys)
        match = _GROUP.fullmatch(text) if isinstance(text, str) else None
        if match is not None:
            sizes.append((int(match[1]), keys))
    return min(sizes, key=lambda size: size[0], default=(None, ()))


def _parameter(reader: SpecReader, kind: str, name: str) -> Any:
    """A parameter of the driver's configuration of a kind; None if there is none."""
    for index in range(reader.length(*_DEVICES, "config")):
        keys = (*_DEVICES, "config", index, "opaque", "parameters")
        if reader.value(*keys, "kind") == kind:
            return reader.value(*keys, name)
    return None
