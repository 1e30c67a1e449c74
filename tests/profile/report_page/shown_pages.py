"""What a page shows: its text, its figures with their places, and what Chromium makes of it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from urllib.parse import unquote

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--virtual-time-budget=3000", "--dump-dom"),
)
# Errors of scripts, resources that are asked for, charts without a size, what is wider than the
# window, and of each bar its value, its width in pixels and that of its drawing.
LOOK = """
const seen = { errors, asked: performance.getEntriesByType("resource").map((one) => one.name) };
seen.wide = document.documentElement.scrollWidth > window.innerWidth;
const hasSize = (one) => one.getBoundingClientRect().height >= 20;
const isClosed = (one) => one.closest("details:not([open])") !== null;
const all = [...document.querySelectorAll("svg")];
seen.empty = all.filter((one) => !hasSize(one) && !isClosed(one)).length;
seen.charts = all.length;
seen.bars = [...document.querySelectorAll("rect.bar[data-of]")].map((one) => {
  const box = one.getBoundingClientRect(), view = one.ownerSVGElement;
  const width = view.getBoundingClientRect().width;
  return { of: one.dataset.of, value: one.dataset.value, chart: all.indexOf(view),
    width: box.width / width, height: box.height / width };
});
document.title = encodeURIComponent(JSON.stringify(seen));
"""
FIRST = """<script>const errors = [];
window.addEventListener("error", (event) => errors.push(String(event.message)), true);
console.error = (...words) => errors.push(words.join(" "));</script>"""


class Shown(HTMLParser):
    """A page's figures of dollars and of charts, and its text; tags must close in order.

    Attributes:
        usd: place, value and text of each figure of dollars.
        drawn: place and value of each shape of a chart.
        text: all text but that of style and of figures.
        scripts: how many.
    """

    VOID = ("meta", "br")

    def __init__(self, markup):
        super().__init__()
        self.open, self.usd, self.drawn, self.scripts = [], [], [], 0
        self.words = []
        self.feed(markup)
        assert not self.open
        self.text = "\n".join(self.words)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        if tag == "data":
            self.usd.append([found["data-of"], float(found["value"]), ""])
        elif "data-of" in found:
            self.drawn.append((found["data-of"], float(found["data-value"])))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "data":
            self.usd[-1][2] += data
        elif not self.open or self.open[-1] != "style":
            self.words.append(data)


def at(values, place):
    """What lies at a JSON pointer."""
    for step in place.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        values = values[int(name)] if isinstance(values, list) else values[name]
    return values


def looked_at(markup, folder, size="1280,900"):
    """What a browser says of a page."""
    path = folder / "page.html"
    seen = markup.replace("<body>", f"<body>{FIRST}") + f"<script>{LOOK}</script>"
    path.write_text(seen, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--window-size={size}", f"--user-data-dir={folder / 'user'}"]
    done = subprocess.run(
        [*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(unquote(re.search(r"<title>(.*?)</title>", done.stdout)[1]))


def is_rounded(text, value):
    """Whether `text` is `value`, to three digits or to whole numbers."""
    return abs(float(text.replace(",", "")) - value) <= 0.0051 * abs(value)
