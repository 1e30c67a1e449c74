"""Alerts of Prometheus: groups of rules as a file that Prometheus reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class Alert:
    """One rule.

    Attributes:
        name: in CamelCase, as Prometheus's are.
        expression: PromQL that is true while something is wrong.
        for_minutes: minutes for which it must be true before the alert fires.
        severity: "page", "ticket" or "info".
        summary: the event and the threshold.
        action: the advice to the operator.
        by: labels that locate the event.
    """

    name: str
    expression: str
    for_minutes: int
    severity: str
    summary: str
    action: str
    by: tuple[str, ...] = ()


def rule_file(groups: Sequence[tuple[str, Sequence[Alert]]], label: str = "") -> str:
    """A rule file of named `groups`; alerts have the group's name as `label`, unless that is ""."""
    rule_groups = [
        {"name": name, "rules": [_rule(alert, {label: literal(name)} if label else {})
                                 for alert in alerts]}
        for name, alerts in groups
    ]  # fmt: skip
    return yaml.safe_dump({"groups": rule_groups}, sort_keys=False, width=1000)


def _rule(alert: Alert, labels: Mapping[str, str]) -> dict[str, Any]:
    """The rule of an alert, whose summary ends with its labels `by`, as Prometheus's template."""
    by = ", ".join(f"{label} {{{{ $labels.{label} }}}}" for label in alert.by)
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.for_minutes}m",
        "labels": {"severity": alert.severity, **labels},
        "annotations": {
            "summary": literal(alert.summary) + (f" ({by})" if by else ""),
            "action": literal(alert.action),
        },
    }


def literal(text: str) -> str:
    """`text` escaped for Prometheus's templates, so that braces of a user's name begin none."""
    return text.replace("{{", "{{`{{`}}")
