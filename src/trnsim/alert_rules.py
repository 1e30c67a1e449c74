"""Alerts of Prometheus: groups of rules as a file that Prometheus reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Alert:
    """One rule.

    Attributes:
        name: in CamelCase, as Prometheus's are.
        expression: PromQL that is true while something is wrong.
        for_minutes: how long before it fires.
        severity: "page", "ticket" or "info".
        summary: what happened and the figure it is held against.
        action: what to do.
        by: labels that say where.
    """

    name: str
    expression: str
    for_minutes: int
    severity: str
    summary: str
    action: str
    by: tuple[str, ...] = ()


def rule_file(groups: Sequence[tuple[str, Sequence[Alert]]], label: str = "") -> str:
    """A rule file with `groups` of a name; their alerts have it as `label`, unless that is ""."""
    rule_groups = [
        {"name": name, "rules": [_rule(alert, {label: literal(name)} if label else {})
                                 for alert in alerts]}
        for name, alerts in groups
    ]  # fmt: skip
    return yaml.safe_dump({"groups": rule_groups}, sort_keys=False, width=1000)


def where(alert: Alert) -> str:
    """What stands behind the summary of an alert, as Prometheus's template of its labels."""
    labels = ", ".join(f"{label} {{{{ $labels.{label} }}}}" for label in alert.by)
    return f" ({labels})" if labels else ""


def _rule(alert: Alert, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.for_minutes}m",
        "labels": {"severity": alert.severity, **labels},
        "annotations": {
            "summary": literal(alert.summary) + where(alert),
            "action": literal(alert.action),
        },
    }


def literal(text: str) -> str:
    """`text` as Prometheus's templates print it: braces of a user's name begin no template."""
    return text.replace("{{", "{{`{{`}}")
