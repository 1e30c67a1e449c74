"""The rules of jobs, and their findings in a spec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trnsim.jobs.finding import Finding, JobRule
from trnsim.jobs.rules import claims, containers, devices, fields, launch, layout, names
from trnsim.jobs.spec import JobSpec

__all__ = ["RULES", "findings"]

RULES: Final[tuple[JobRule, ...]] = (
    *devices.RULES,
    *containers.RULES,
    *claims.RULES,
    *launch.RULES,
    *layout.RULES,
    *names.RULES,
    *fields.RULES,
)
"""All rules, by family."""


def findings(spec: JobSpec, rules: Iterable[JobRule] = RULES) -> list[Finding]:
    """The findings in a spec, in the order of their lines.

    A violation of a field that a template fills in is no finding.
    """
    spec_findings = [
        Finding(
            rule.name,
            rule.severity.value,
            spec.line_of(violation.field),
            violation.reason,
            violation.source or rule.source,
            violation.fix,
        )
        for rule in rules
        if not rule.formats or spec.format in rule.formats
        for violation in rule.violations(spec)
        if not spec.is_template(violation.field)
    ]
    return sorted(spec_findings, key=lambda finding: (finding.place, finding.rule))
