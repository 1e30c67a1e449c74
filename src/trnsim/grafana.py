"""Pages of Grafana: panels of PromQL, two in a line, under rows with a title.

A page has its source of data as a variable, so it can be imported unchanged. For labels that the
reader can choose, expressions have variables: `expressions` gives them with all values chosen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_WIDTH: Final = 12
_HEIGHT: Final = 8
_SCHEMA: Final = 39
"""Version of Grafana's page format: that of Grafana 11."""
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_ALL: Final = ".*"


@dataclass(frozen=True)
class Chart:
    """A panel with lines over time.

    Attributes:
        lines: by the legend of a line, which may name labels ("{{instance}}"), its PromQL.
        unit: Grafana's name of the unit: "percentunit", "bytes", "s", "short".
        is_stacked: whether the lines add up.
    """

    title: str
    lines: Mapping[str, str]
    unit: str
    is_stacked: bool = False


@dataclass(frozen=True)
class LabelChoice:
    """A variable of a page: the reader chooses some of the values of a label, or all.

    Attributes:
        label: the label; expressions have ``{label=~"$label"}``.
        series: PromQL of the series whose values of the label are offered.
    """

    label: str
    title: str
    series: str


def page(
    title: str,
    uid: str,
    rows: Sequence[tuple[str, Sequence[Chart]]],
    *,
    choices: Sequence[LabelChoice] = (),
    refresh: str = "1m",
    start: str = "now-24h",
) -> str:
    """The page as JSON that Grafana imports."""
    panels: list[dict[str, Any]] = []
    top = 0
    for name, charts in rows:
        row = {"type": "row", "title": name, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}}
        panels += [row, *(_panel(chart, index, top + 1) for index, chart in enumerate(charts))]
        top += 1 + -(-len(charts) // 2) * _HEIGHT
    source = {"name": "source", "type": "datasource", "query": "prometheus"}
    board = {
        "title": title,
        "uid": uid,
        "schemaVersion": _SCHEMA,
        "refresh": refresh,
        "time": {"from": start, "to": "now"},
        "templating": {"list": [source, *map(_variable, choices)]},
        "panels": [{"id": number} | panel for number, panel in enumerate(panels, 1)],
    }
    return json.dumps(board, indent=1) + "\n"


def expressions(text: str) -> list[str]:
    """Every PromQL expression of a page, with all values of its variables chosen."""
    board = json.loads(text)
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    for choice in board["templating"]["list"]:
        if "allValue" in choice:
            queries = [query.replace(f"${choice['name']}", choice["allValue"]) for query in queries]
    return queries


def _panel(chart: Chart, index: int, top: int) -> dict[str, Any]:
    x, y = (index % 2) * _WIDTH, top + index // 2 * _HEIGHT
    defaults: dict[str, Any] = {"unit": chart.unit}
    if chart.is_stacked:
        defaults["custom"] = {"stacking": {"mode": "normal"}, "fillOpacity": 20}
    targets = [
        {"refId": chr(ord("A") + number), "expr": expr, "legendFormat": name, "datasource": _SOURCE}
        for number, (name, expr) in enumerate(chart.lines.items())
    ]
    return {
        "type": "timeseries",
        "title": chart.title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
    }


def _variable(choice: LabelChoice) -> dict[str, Any]:
    return {
        "name": choice.label,
        "label": choice.title,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({choice.series}, {choice.label})",
        "refresh": 2,  # when the time that is shown changes
        "multi": True,
        "includeAll": True,
        "allValue": _ALL,
        "current": {"text": "All", "value": "$__all"},
    }
