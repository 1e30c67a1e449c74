"""Findings in a job's spec, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from trnsim.errors import SourceLine
from trnsim.jobs.spec import JobSpec


class Severity(Enum):
    """The severity of a finding.

    An error makes the job fail, a warning makes it slow, wasteful or at risk, and a note states an
    assumption about the spec.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Violation(NamedTuple):
    """A rule broken by a field of a job.

    Attributes:
        field: path of the field in the job, such as "roles.0.efa", whose line is named.
        reason: the stated value, and the legal values.
        source: the document that states the reason; "" if it is the rule's.
    """

    field: str
    reason: str
    fix: str
    source: str = ""


@dataclass(frozen=True)
class JobRule:
    """A condition that a job must meet.

    Attributes:
        name: name of the rule, such as "efa-count".
        help: the condition, a sentence.
        source: the document that states the condition.
        violations: function from a spec to its violations.
        severity: consequence of a violation.
        formats: names of the formats to which the rule applies; () for all.
    """

    name: str
    help: str
    source: str
    violations: Callable[[JobSpec], Iterator[Violation]]
    severity: Severity = Severity.ERROR
    formats: tuple[str, ...] = ()


class Finding(NamedTuple):
    """A violation with its place.

    Attributes:
        severity: "error", "warning" or "note".
        reason: the stated value, and the legal values.
        source: the document that states the rule.
    """

    rule: str
    severity: str
    place: SourceLine
    reason: str
    source: str
    fix: str
