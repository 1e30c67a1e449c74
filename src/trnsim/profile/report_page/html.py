"""A kernel's report as an HTML page: data in columns, and a script that draws them.

The script draws only what is visible and merges spans narrower than a pixel, so that pages of a
hundred thousand instructions stay usable. Text from the user's program reaches the page as JSON
with all of HTML's special characters escaped, and the script writes it as text, never as markup.
"""

from __future__ import annotations

from html import escape
from typing import Final

from trnsim.document.builder import as_json, filled_template, page, resource
from trnsim.profile.analysis.data import JsonObject

_PACKAGE: Final = "trnsim.profile.report_page"
_SCRIPTS: Final = (
    *("page.js", "details.js", "source.js", "map.js", "charts.js", "model.js", "timeline.js"),
    "start.js",
)


def html(report: JsonObject) -> str:
    """One self-contained HTML page of a report (`profile.stored`)."""
    parts = {
        "title": escape(report["title"]),
        "data": as_json(report),
        "script": "".join(resource(name, _PACKAGE) for name in _SCRIPTS),
    }
    body = filled_template(resource("kernel.html", _PACKAGE), parts)
    return page(report["title"], body, resource("kernel.css", _PACKAGE))
