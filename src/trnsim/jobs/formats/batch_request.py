"""SubmitJob requests of AWS Batch: the changes of a submitted job to its definition.

A request may change the size of an array, the nodes, the time limit and the containers. Its other
fields (queue, dependencies, retries) are about scheduling: only their names, types and values are
checked.

Sources: AWS Batch API reference, SubmitJob, ContainerOverrides and NodeOverrides; user guide,
"Array jobs" and "Parameters" (`Ref::name` in a command).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trnsim.errors import SourceLine
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.field_types import field_table
from trnsim.jobs.formats.batch_definition import (
    LEAST_ARRAY,
    LEAST_TIMEOUT_S,
    MOST_ARRAY,
    target_ranges,
)
from trnsim.jobs.formats.container import MIB, ContainerReader
from trnsim.jobs.formats.kubernetes import Keys, check_mapping
from trnsim.jobs.formats.listing import item_count
from trnsim.jobs.formats.pod_template import role
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import load_documents

_FIX: Final = "see AWS Batch API reference, SubmitJob"
_FORMATS: Final = ("batch", "batch-eks")
_DEFINITION: Final = re.compile(r"(?:arn:[^/]*/)?([^/:]+)(?::(\d+))?")
_REFERENCE: Final = re.compile(r"Ref::([\w.-]+)")
_NODES: Final[Keys] = ("nodeOverrides", "nodePropertyOverrides")
"""The keys of the overrides for ranges of nodes."""
_POD_FIELDS: Final = (
    *("devices", "cores", "gpus", "efa", "vcpus", "memory_bytes", "hugepages_bytes", "image"),
)
"""Fields of a role that a request may change in a pod."""
_MAPPINGS: Final = ("arrayProperties", "nodeOverrides", "parameters", "timeout")
_TARGET: Final = re.compile(r"(\d{0,9}):(\d{0,9})", re.ASCII)
"""A range of nodes: without a start it begins at 0, and without an end it has the last node."""
_POD: Final[Keys] = ("eksPropertiesOverride", "podProperties")
_FIELDS: Final = "batch"
_SHAPE: Final = "Submission"
"""The description of a request's fields, and its shape there."""


def is_request(value: Any) -> bool:
    """True if a document is a SubmitJob request."""
    return isinstance(value, dict) and "jobDefinition" in value and "jobDefinitionName" not in value


def apply_request(specs: Sequence[JobSpec], path: Path | str) -> list[JobSpec]:
    """The specs with the changes of a request to the definition that it names.

    Raises:
        BadInput: the file is no request, a value in it is not legal, or no spec is its definition.
    """
    document = load_documents(path, _FIX)[0]
    if not is_request(document.root.value):
        raise document.refused(1, "no SubmitJob request, which names a jobDefinition", _FIX)
    reader = SpecReader(document.root)
    faults = list(field_table(_FIELDS).placed_faults(document.root, _SHAPE, "request"))
    match = _DEFINITION.fullmatch(reader.text("jobDefinition", field="definition"))
    names = [spec.job.name for spec in specs if spec.format in _FORMATS]
    if not match or match[1] not in names:
        legal = ", ".join(names) or "none of the files has a definition of Batch"
        raise reader.refused(
            ("jobDefinition",), f"legal: {legal}", "name the file of its definition, too"
        )
    return [
        _with_faults(_Request(reader, spec).changed_spec(), faults)
        if spec.format in _FORMATS and spec.job.name == match[1]
        else spec
        for spec in specs
    ]


def _with_faults(spec: JobSpec, faults: Sequence[tuple[FieldFault, SourceLine]]) -> JobSpec:
    """The spec with the faults of the request's own fields."""
    lines = {**spec.lines, **{fault.path: line for fault, line in faults}}
    return replace(spec, lines=lines, faults=(*spec.faults, *(fault for fault, _ in faults)))


class _Request:
    """A request, applied to the spec of its definition."""

    def __init__(self, reader: SpecReader, spec: JobSpec) -> None:
        self._reader, self._spec = reader, spec

    def changed_spec(self) -> JobSpec:
        """The spec as the request changes it.

        Raises:
            BadInput: a value is not legal.
        """
        reader, job = self._reader, self._spec.job
        for name in _MAPPINGS:
            check_mapping(reader, name)
        size = reader.whole("arrayProperties", "size", field="copies")
        if size is not None and not LEAST_ARRAY <= size <= MOST_ARRAY:
            legal = f"legal: {LEAST_ARRAY} to {MOST_ARRAY:,}"
            raise reader.refused(("arrayProperties", "size"), legal, "leave it out for one job")
        limit = reader.whole(
            "timeout", "attemptDurationSeconds", field="time_limit_s", minimum=LEAST_TIMEOUT_S
        )
        changed_job = replace(
            job,
            copies=job.copies if size is None else size,
            time_limit_s=job.time_limit_s if limit is None else float(limit),
            roles=self._roles(job),
        )
        lines = {name: line for name, line in reader.lines.items() if name != "definition"}
        templates = [value for value in self._spec.templates if value.field not in reader.lines]
        return replace(
            self._spec,
            job=changed_job,
            lines={**self._spec.lines, **lines},
            templates=(*templates, *reader.templates),
        )

    def _roles(self, job: Job) -> tuple[Role, ...]:
        roles = list(self._with_nodes(job.roles))
        if self._reader.value("containerOverrides") is not None:
            roles[0] = self._changed_role(roles[0], ("containerOverrides",), 0)
        for override in range(item_count(self._reader, *_NODES)):
            index = self._role_index(job, override)
            keys = (*_NODES, override, "containerOverrides")
            roles[index] = self._changed_role(roles[index], keys, index)
        if self._reader.value(*_POD) is not None:
            roles[0] = self._changed_pod_role(roles[0])
        parameters = self._parameters(job)
        return tuple(
            replace(
                job_role, command=tuple(_substitute(word, parameters) for word in job_role.command)
            )
            for job_role in roles
        )

    def _with_nodes(self, roles: Sequence[Role]) -> Sequence[Role]:
        """The roles with the request's number of nodes; the last role has those that others leave.

        Raises:
            BadInput: no node is left for the last role.
        """
        keys = ("nodeOverrides", "numNodes")
        last_role = len(roles) - 1
        nodes = self._reader.whole(*keys, field=f"roles.{last_role}.replicas", minimum=1)
        if nodes is None:
            return roles
        last_nodes = nodes - sum(job_role.replicas or 0 for job_role in roles[:-1])
        if not roles[-1].is_exclusive or last_nodes < 1:
            raise self._reader.refused(
                keys,
                f"legal: {nodes - last_nodes + 1} or more, as other ranges have "
                f"{nodes - last_nodes}"
                if roles[-1].is_exclusive
                else "legal: none, as the definition is of a single container",
            )
        return [*roles[:-1], replace(roles[-1], replicas=last_nodes)]

    def _role_index(self, job: Job, override: int) -> int:
        """The index of the role whose range of nodes an override names.

        Raises:
            BadInput: no role has the range.
        """
        keys = (*_NODES, override, "targetNodes")
        target = _TARGET.fullmatch(self._reader.text(*keys, field="target"))
        ranges = target_ranges(job)
        nodes = job.roles[0].replicas
        if target and len(ranges) == 1 and (nodes is None or int(target[1] or 0) < nodes):
            return 0
        for index, nodes_text in enumerate(ranges):
            start, _, end = nodes_text.partition(":")
            if target and (target[1] or "0") == start and target[2] in ("", end):
                return index
        raise self._reader.refused(keys, f"legal: {', '.join(ranges)}")

    def _changed_role(self, job_role: Role, keys: Keys, index: int) -> Role:
        """A role with the overrides of its container."""
        check_mapping(self._reader, *keys)
        container = ContainerReader(self._reader, keys, f"roles.{index}")
        common, changes = container.common(), dict[str, Any]()
        vcpus_keys = container.requirement_keys("VCPU", "vcpus") or (*keys, "vcpus")
        memory_keys = container.requirement_keys("MEMORY", "memory_bytes") or (*keys, "memory")
        memory = self._reader.whole(*memory_keys, field=f"roles.{index}.memory_bytes")
        resources = {
            "vcpus": self._reader.number(*vcpus_keys, field=f"roles.{index}.vcpus"),
            "memory_bytes": None if memory is None else memory * MIB,
            "gpus": container.required_amount("GPU", "gpus"),
        }
        changes |= {name: value for name, value in resources.items() if value is not None}
        if job_role.is_exclusive and (name := container.text("instanceType", field="instance")):
            changes["instance"] = name
        if command := container.words("command", field="command"):
            changes |= {"command": command, "processes": started_ranks(command)}
        environment = tuple((dict(job_role.environment) | dict(common["environment"])).items())
        return replace(job_role, environment=environment, **changes)

    def _changed_pod_role(self, job_role: Role) -> Role:
        """A role with the overrides of its pod."""
        overrides = role(self._reader, _POD, "roles.0", name=job_role.name)
        changes = {name: value for name in _POD_FIELDS if (value := getattr(overrides, name))}
        if overrides.command:
            names = ("command", "entry_words", "processes")
            changes |= {name: getattr(overrides, name) for name in names}
        environment = tuple((dict(job_role.environment) | dict(overrides.environment)).items())
        return replace(job_role, environment=environment, **changes)

    def _parameters(self, job: Job) -> dict[str, str]:
        """Values of `Ref::name` by name: the request's, or else the definition's."""
        defaults = {
            str(field.keys[1]): str(field.value)
            for field in job.kept_fields
            if field.keys[0] == "parameters" and len(field.keys) > 1
        }
        names = self._reader.names("parameters")
        request_values = {
            name: self._reader.text("parameters", name, field=f"parameters.{name}")
            for name in names
        }
        return defaults | request_values


def _substitute(word: str, parameters: dict[str, str]) -> str:
    return _REFERENCE.sub(lambda match: parameters.get(match[1], match[0]), word)
