"""A report as one HTML file: data in columns, embedded; no network, no server.

The script draws what is visible and merges spans narrower than a pixel, so that a hundred thousand
instructions stay usable. Text from the user's program reaches the page as JSON without any
character that HTML reads, and the script writes it as text, never as markup.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trnsim.profile.analysis.data import Data

_MARKER: Final = re.compile(r"\{\{(\w+)\}\}")
_SCRIPTS: Final = ("page.js", "details.js", "charts.js", "timeline.js", "start.js")
# "</script>", "<!--" and U+2028 cannot occur in JSON that has none of these characters.
_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def html(report: Data) -> str:
    """One self-contained HTML page of a report (`profile.stored`)."""
    parts = {
        "title": escape(report["title"]),
        "data": as_json(report),
        "script": "".join(_resource(name) for name in _SCRIPTS),
    }
    # One pass over the template: what is inserted is never searched for markers.
    return _MARKER.sub(lambda marker: parts[marker[1]], _resource("page.html"))


def as_json(value: Any) -> str:
    """`value` as JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _resource(name: str) -> str:
    return (resources.files("trnsim.profile.page") / name).read_text(encoding="utf-8")
