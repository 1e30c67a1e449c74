"""A Grafana page of the moved workloads: what was promised beside what is counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from trnsim.decide.guard.alerts import FAILED, busy_of, rate_of, selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.decide.guard.limits import Limits

_WIDTH: Final = 12
_HEIGHT: Final = 8
_SCHEMA: Final = 39
"""Version of Grafana's page format: that of Grafana 11."""


def dashboard(found: Sequence[Limits]) -> str:
    """The page as JSON that Grafana imports, with a row a workload."""
    panels: list[dict[str, Any]] = []
    for one in found:
        top = max((each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels), default=0)
        panels.append(_row(one, top))
        panels += [_placed(each, index, top + 1) for index, each in enumerate(_panels(one))]
    numbered = [{"id": number} | each for number, each in enumerate(panels, 1)]
    page = {
        "title": "Moved workloads",
        "uid": "trnsim-guard",
        "schemaVersion": _SCHEMA,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": numbered,
    }
    return json.dumps(page, indent=1) + "\n"


def expressions(page: str) -> list[str]:
    """Every PromQL expression of a page."""
    return [target["expr"] for panel in json.loads(page)["panels"] for target in _targets(panel)]


def _targets(panel: dict[str, Any]) -> list[dict[str, Any]]:
    return list(panel.get("targets", ()))


def _row(limits: Limits, top: int) -> dict[str, Any]:
    title = f"{limits.workload.name} on {limits.candidate.instance}"
    return {"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}}


def _placed(panel: dict[str, Any], index: int, top: int) -> dict[str, Any]:
    x, y = (index % 2) * _WIDTH, top + index // 2 * _HEIGHT
    return panel | {"gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT}}


def _panels(limits: Limits) -> list[dict[str, Any]]:
    chosen, unit, failed = selector(limits), limits.unit, selector(limits, FAILED)
    found: list[dict[str, Any]] = []
    if limits.rate is not None and limits.slowest_rate is not None:
        promised = {
            "predicted P50": f"vector({limits.rate:.6g})",
            "slowest predicted": f"vector({limits.slowest_rate:.6g})",
        }
        if limits.break_even_rate is not None:
            promised["costs as much as today"] = f"vector({limits.break_even_rate:.6g})"
        title = f"{unit} a second of an instance".capitalize()
        found.append(_chart(title, {"counted": rate_of(limits), **promised}, "short"))
        found.append(_cost(limits))
    found += [
        _chart("Utilisation of the cores", {"mean": busy_of(limits)}, "percentunit"),
        _chart(
            "Executions a second that fail",
            {"failed": f"sum(rate(execution_status_total{failed}[15m])) or vector(0)"},
            "short",
        ),
        _chart(
            "Memory errors",
            {"{{event_type}}": f"sum by (event_type) (hardware_ecc_events_total{chosen})"},
            "short",
        ),
        _chart(
            "Latency of an execution",
            {"{{percentile}}": f"max by (percentile) (execution_latency_seconds{chosen})"},
            "s",
        ),
    ]
    return found


def _cost(limits: Limits) -> dict[str, Any]:
    """USD of a million units at the price of the decision, beside today's."""
    price, today = limits.candidate.price, limits.today_usd_per_unit
    lines: dict[str, str] = {}
    if price is not None:
        usd_per_s = price.usd_per_hour / 3600
        lines["counted"] = f"{usd_per_s * 1e6:.6g} / ({rate_of(limits)})"
    if limits.usd_per_unit is not None:
        lines["predicted"] = f"vector({limits.usd_per_unit * 1e6:.6g})"
    if today is not None:
        lines["today"] = f"vector({today * 1e6:.6g})"
    return _chart(f"USD of a million {limits.unit}", lines, "currencyUSD")


def _chart(title: str, lines: dict[str, str], unit: str) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    targets = [
        {"refId": chr(ord("A") + index), "expr": each, "legendFormat": name, "datasource": source}
        for index, (name, each) in enumerate(lines.items())
    ]
    return {
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": targets,
    }
