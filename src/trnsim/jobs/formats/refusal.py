"""Checks that a format can express a job, with the refusals where it cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from trnsim.errors import BadInput
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import is_template


class UnsupportedField(NamedTuple):
    """A field of a job that the format to be written cannot express.

    Attributes:
        why: the reason, which names the format.
    """

    why: str
    fix: str = ""


def check_expressible(job: Job, unsupported: Mapping[str, UnsupportedField]) -> None:
    """Check that the job states no field that the format cannot express.

    Args:
        job: the job.
        unsupported: the fields that the format cannot express, by name; a field of Role is named
            with the prefix "roles.".

    Raises:
        BadInput: the job states such a field.
    """
    for path, field in unsupported.items():
        name = path.removeprefix("roles.")
        owners: list[Any] = list(job.roles) if name != path else [job]
        default = _default(Role if name != path else Job, name)
        for owner in owners:
            if getattr(owner, name) != default:
                subject = f"role {owner.name!r}: " if name != path else ""
                text = f"{subject}{name} is {getattr(owner, name)!r}: {field.why}"
                raise BadInput(text, fix=field.fix or f"leave out {name}")


def common_value(job: Job, name: str, why: str) -> Any:
    """The value of a field of all roles; the field's default if the job has no role.

    `why` is the reason why all roles must have one value.

    Raises:
        BadInput: the values of two roles differ.
    """
    values = [getattr(role, name) for role in job.roles] or [_default(Role, name)]
    for value in values:
        if value != values[0]:
            raise BadInput(
                f"{name} is {values[0]!r} in one role and {value!r} in another: {why}",
                fix=f"give all roles the same {name}, or write a job for each",
            )
    return values[0]


def check_name(name: str, pattern: re.Pattern[str], legal: str) -> None:
    """Check that a job's name is legal, or that a template fills it in.

    `legal` is the service and its rule in words, for the message.

    Raises:
        BadInput: the name is not legal.
    """
    if not pattern.fullmatch(name) and not is_template(name):
        raise BadInput(f"name is {name!r}; legal for {legal}", fix="rename the job")


def check_training(job: Job, title: str) -> None:
    """Check that a job ends, for a format without servers and clusters; `title` names the format.

    Raises:
        BadInput: the job is a server or a cluster.
    """
    if job.kind is JobKind.TRAINING:
        return
    fixes = {
        JobKind.SERVING: "--as pod, --as leaderworkerset or --as ecs",
        JobKind.CLUSTER: "--as parallelcluster or --as rayjob",
    }
    problem = f"{title} runs to its end; the job is of kind {job.kind.value}"
    raise BadInput(problem, fix=fixes[job.kind])


def check_ranks(role: Role) -> None:
    """Check that the command of a role starts as many ranks as the role has.

    The service starts a container once, so a launcher in the command starts its ranks.

    Raises:
        BadInput: the command starts another number.
    """
    if role.processes is not None and role.processes != started_ranks(role.command):
        raise BadInput(
            f"role {role.name!r}: processes is {role.processes}: a container is started once",
            fix=f"start them in the command: torchrun --nproc-per-node {role.processes}",
        )


def in_units(value: float | None, unit: float, name: str, units: str) -> int | None:
    """A quantity as a whole number of units; None if it is not stated.

    Raises:
        BadInput: the quantity is no whole number of units.
    """
    if value is None:
        return None
    count = round(value / unit)
    if count * unit != value:
        raise BadInput(
            f"{name} is {value}; legal: a whole number of {units}",
            fix=f"state {count * unit:g}, which is {count} {units}",
        )
    return count


def _default(kind: type[Job | Role], name: str) -> Any:
    return next(getattr(kind(), field.name) for field in fields(kind) if field.name == name)
