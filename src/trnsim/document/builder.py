"""The builder of HTML pages, one file each: a shell, and panels that all pages share.

A page needs no network and no server. Text put into a template is not searched for markers, and is
always escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any, Final

from trnsim.document.narrow import rules
from trnsim.document.values import compact_json

_MARKER: Final = re.compile(r"\{\{(\w+)\}\}")
# "</script>", "<!--" and U+2028 cannot occur in JSON that has none of these characters.
_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def page(title: str, body: str, style: str = "") -> str:
    """A whole page: `title` is text, `body` is markup, `style` adds to the style of all pages."""
    # `rules`: the styles by which wide tables become lists on narrow pages.
    parts = {
        "title": escape(title),
        "style": resource("page.css") + rules(body) + style,
        "body": body,
    }
    return filled_template(resource("shell.html"), parts)


def panel(heading: str, content: str, anchor: str = "") -> str:
    """A panel of a page: `heading` is text, `content` is markup, `anchor` a name to link to."""
    head = f"<h2>{escape(heading)}</h2>" if heading else ""
    name = f' id="{escape(anchor)}"' if anchor else ""
    return f'<section class="panel"{name}>{head}{content}</section>\n'


def filled_template(template: str, parts: Mapping[str, str]) -> str:
    """`template` with its markers, {{name}}, replaced in one pass."""
    return _MARKER.sub(lambda marker: parts[marker[1]], template)


def as_json(value: Any) -> str:
    """`value` as JSON that is safe inside a script element."""
    return compact_json(value).translate(_ESCAPES)


def resource(name: str, package: str = "trnsim.document") -> str:
    """A file of a package, by default of this one: a template, a style or a script."""
    return (resources.files(package) / name).read_text(encoding="utf-8")
