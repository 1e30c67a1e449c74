"""The difference of two versions of a spec: fields of the job that changed, and findings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from trnsim.jobs.finding import Finding
from trnsim.jobs.job import Job


class FieldChange(NamedTuple):
    """A field of a job that differs between two versions.

    Attributes:
        field: path of the field, such as "roles.0.environment.FI_PROVIDER".
        before: value in the earlier version; None if it states none.
        after: value in the later version; None if it states none.
    """

    field: str
    before: Any
    after: Any


def changes(before: Job, after: Job) -> list[FieldChange]:
    """The fields that differ, by path. Roles are compared by their order, variables by name."""
    leaves_before, leaves_after = dict(_leaves("", before)), dict(_leaves("", after))
    names = [*leaves_before, *(name for name in leaves_after if name not in leaves_before)]
    return [
        FieldChange(name, leaves_before.get(name), leaves_after.get(name))
        for name in names
        if leaves_before.get(name) != leaves_after.get(name)
    ]


def new_findings(before: list[Finding], after: list[Finding]) -> list[Finding]:
    """Findings of the later version that the earlier version has on no line."""
    earlier_findings = {(finding.rule, finding.reason) for finding in before}
    return [finding for finding in after if (finding.rule, finding.reason) not in earlier_findings]


def _leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    """Paths and values of the stated fields of a job."""
    if path.endswith((".environment", ".pod_requests")):
        return [(f"{path}.{name}", text) for name, text in value]
    if path == "kept_fields":
        return [(f"kept {field.name}", field.value) for field in value]
    if is_dataclass(value):
        return [
            leaf
            for field in fields(value)
            for leaf in _leaves(f"{path}.{field.name}".lstrip("."), getattr(value, field.name))
        ]
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return [
            leaf for index, item in enumerate(value) for leaf in _leaves(f"{path}.{index}", item)
        ]
    return [] if value is None or value in ("", ()) else [(path, value)]
