"""Every kind of page in Chromium at three widths, by day and by night: it fits and can be read.

A page fits if neither it nor a part of it is wider than its room. axe-core, where it is installed,
finds what cannot be read or used without a pointer; findings from "moderate" up fail.
"""

import sys
from importlib import resources, util
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for modules beside this test

from browser import CHROMIUM, browser
from page_kinds import KINDS, LIBRARIES, written_by

WIDTHS_PX = (390, 900, 1400)
AXE = "axe_core_python"
# Parts whose content is wider than they are: their name and both widths. What scrolls is no better:
# of a table that is cut, the reader sees half. SVG has no layout of its own.
WIDE = """(() => {
  const root = document.documentElement;
  const wide = (one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0;
  const isBox = (one) => !(one instanceof SVGElement) && getComputedStyle(one).display !== "inline";
  const seen = [...document.querySelectorAll("body, main, main *")].filter((one) =>
    isBox(one) && !one.closest("[hidden], #tip") && wide(one));
  return [...(root.scrollWidth > root.clientWidth ? [root] : []), ...seen].map((one) =>
    `${one.tagName}#${one.id}.${one.className}: ${one.scrollWidth} in ${one.clientWidth}`);
})()"""
# Marks of one axis that read the same: texts of a drawing at one height, and those of a canvas.
REPEATED = """(() => {
  const twice = (texts) => texts.filter((text, at) => text && texts.indexOf(text) !== at);
  const found = [];
  for (const axis of document.querySelectorAll(".axis")) {
    found.push(...twice([...axis.children].map((one) => one.textContent)));
  }
  for (const drawing of document.querySelectorAll("svg[viewBox]")) {
    const marks = [...drawing.querySelectorAll("text.mark")];
    for (const kind of new Set(marks.map((one) => one.dataset.axis))) {
      const axis = marks.filter((one) => one.dataset.axis === kind);
      found.push(...twice(axis.map((one) => one.textContent)));
    }
  }
  for (const drawn of document.querySelectorAll("canvas[data-marks]")) {
    found.push(...twice(drawn.dataset.marks.split("|")));
  }
  return found;
})()"""
FINDINGS = """axe.run(document, { RULES }).then((told) => told.violations
  .filter((one) => ["moderate", "serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.length} such as ${one.nodes[0].html.slice(0, 160)}`))"""
# By width and night. What a page is made of is the same by night, but for its colours.
AXE_RULES = {(390, False): "", (1400, False): "", (1400, True): 'runOnly: ["color-contrast"]'}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH"),
]


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


def complaints(tab, rules=""):
    """What is wrong with the page that is shown; `rules` are those of axe, all without."""
    found = [f"script: {error}" for error in tab.errors]
    found += [f"wide: {part}" for part in tab.value(WIDE)]
    found += [f"twice on an axis: {mark}" for mark in tab.value(REPEATED)]
    if util.find_spec(AXE) and rules is not None:
        if tab.value("typeof axe") == "undefined":
            tab.value(f"{(resources.files(AXE) / 'axe.min.js').read_text('utf-8')};0")
        found += tab.value(FINDINGS.replace("RULES", rules))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fits_and_can_be_read(kind, tab, tmp_path, monkeypatch):
    if kind in LIBRARIES:
        pytest.importorskip(LIBRARIES[kind])
    monkeypatch.chdir(tmp_path)
    found = []
    for page in written_by(kind, tmp_path):
        for width in WIDTHS_PX:
            for is_dark in (False, True):
                tab.resize(width, is_dark=is_dark)
                tab.open(page)
                shown = f"{page.name}, {width} px, {'dark' if is_dark else 'light'}"
                rules = AXE_RULES.get((width, is_dark))
                found += [f"{shown}: {words}" for words in complaints(tab, rules)]
    assert found == []


def test_what_is_wrong_is_found(tab, tmp_path):
    page = tmp_path / "wrong.html"
    axis = "".join('<text class="mark" data-axis="x">15.9 ms</text>' for _ in range(2))
    page.write_text(
        '<!doctype html><html lang="en"><title>wrong</title><body><main><h1>a</h1><div>'
        f'<p style="width:800px">wide</p></div><svg viewBox="0 0 9 9">{axis}</svg>'
        '<p style="color:#ccc;background:#fff">pale</p><script>throw Error("thrown")</script>'
    )
    tab.resize(390)
    tab.open(page)
    found = "\n".join(complaints(tab))
    for words in ("script: Error: thrown", "wide: DIV", "twice on an axis: 15.9 ms"):
        assert words in found
    assert not util.find_spec(AXE) or "color-contrast: 1 such as <p" in found
