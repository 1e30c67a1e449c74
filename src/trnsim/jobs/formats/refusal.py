"""Jobs that a format cannot express."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from trnsim.errors import BadInput
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import is_template

__all__ = ["Limit", "check_expressible", "check_name", "check_ranks", "in_units"]
__all__ += ["runs_to_its_end", "shared"]


class Limit(NamedTuple):
    """A field that a format has no place for.

    Attributes:
        why: the reason, which names the format.
        fix: what to do.
    """

    why: str
    fix: str = ""


def check_expressible(job: Job, limits: Mapping[str, Limit]) -> None:
    """Nothing, if the job states none of the fields that have a limit.

    Args:
        job: the job.
        limits: limits by field of Job, or of Role after "roles.".

    Raises:
        BadInput: it states one.
    """
    for path, limit in limits.items():
        name = path.removeprefix("roles.")
        parts: list[Any] = list(job.roles) if name != path else [job]
        default = _default(Role if name != path else Job, name)
        for part in parts:
            if getattr(part, name) != default:
                owner = f"role {part.name!r}: " if name != path else ""
                text = f"{owner}{name} is {getattr(part, name)!r}: {limit.why}"
                raise BadInput(text, fix=limit.fix or f"leave out {name}")


def shared(job: Job, name: str, why: str) -> Any:
    """The value of a field that is the same in all roles; that of a Role if there are none.

    Raises:
        BadInput: roles differ.
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
    """Nothing, if a job's name is legal, or a template fills it in.

    Raises:
        BadInput: it is not.
    """
    if not pattern.fullmatch(name) and not is_template(name):
        raise BadInput(f"name is {name!r}; legal for {legal}", fix="rename the job")


def runs_to_its_end(title: str, job: Job) -> BadInput:
    """The error that a format has jobs that end alone."""
    fixes = {
        JobKind.SERVING: "--as pod, --as leaderworkerset or --as ecs",
        JobKind.CLUSTER: "--as parallelcluster or --as rayjob",
    }
    what = f"{title} runs to its end; the job is of kind {job.kind.value}"
    return BadInput(what, fix=fixes.get(job.kind, ""))


def check_ranks(role: Role) -> None:
    """Nothing, if the command of a role starts as many ranks as the role has.

    Raises:
        BadInput: it does not, and the service starts a container once.
    """
    if role.processes is not None and role.processes != started_ranks(role.command):
        raise BadInput(
            f"role {role.name!r}: processes is {role.processes}: a container is started once",
            fix=f"start them in the command: torchrun --nproc-per-node {role.processes}",
        )


def in_units(value: float | None, unit: float, name: str, units: str) -> int | None:
    """A quantity as a whole number of units; None if it is not stated.

    Raises:
        BadInput: it is no whole number of them.
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
