"""The page of claims: a row each; text is escaped; Chromium draws it."""

import re
import shutil
import subprocess

import pytest

from trnsim.cli.claim_page import claim_page
from trnsim.system.claims import claims
from trnsim.system.claims.amounts import Kind, Origin
from trnsim.system.claims.verdict import Basis, Claim, quantity, text

CHROMIUM = shutil.which("chromium")
COUNT = """
const rows = [...document.querySelectorAll("table.claims > tbody > tr")];
const row = document.getElementById("C07");
const wide = document.documentElement.scrollWidth <= window.innerWidth;
row.querySelector("details").open = true;
document.title = [rows.length, rows.filter((r) => r.offsetHeight > 0).length, wide,
  row.querySelector("td.verdict").textContent, row.querySelector("td.number").textContent,
  row.querySelectorAll("table.bases tr").length].join("|");
"""


@pytest.fixture(scope="module")
def judged():
    return claims()


def test_a_row_has_sentence_verdict_and_bases(judged):
    page = claim_page(judged)
    assert page.count('<tr class="') == len(judged)
    for claim in judged:
        row = page[page.index(f'id="{claim.id}"') :]
        row = row[: row.index("</tr>\n")]
        assert f'<td class="verdict">{claim.verdict.value}</td>' in row
        bases = [basis for part in claim.parts for basis in part.bases]
        shown = re.findall(r'<td class="number"><span class="\w*">[~?]?([^<]*)</span>', row)
        assert shown[: len(bases)] == [text(basis.value) for basis in bases]
    assert "<script" not in page
    assert not re.search(r"@import|url\(", page)


def test_text_is_escaped():
    origin = Origin(Kind.DOCUMENT, "", "2026", "a <source>")
    part = quantity("q <&>", 1, "<unit>", Basis("<words>", "<value>", (origin,)), "<missing>")
    claim = Claim("C01", ("001",), "<quote>", "<says>", (part,), notes=("<note>",))
    page = claim_page([claim])
    body = page[page.index("<body>") :]
    for word in ("source", "unit", "words", "value", "missing", "quote", "says", "note"):
        assert f"<{word}>" not in body
        assert f"&lt;{word}&gt;" in body


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_browser_draws_a_row_for_each_claim(judged, tmp_path):
    path = tmp_path / "claims.html"
    path.write_text(claim_page(judged) + f"<script>{COUNT}</script>", encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--virtual-time-budget=3000"]
    command = [CHROMIUM, *flags, "--window-size=1280,900", f"--user-data-dir={tmp_path / 'user'}"]
    done = subprocess.run(
        [*command, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)[1]
    rows, drawn, is_within, verdict, first, lines = title.split("|")
    (claim,) = [one for one in judged if one.id == "C07"]
    assert (int(rows), int(drawn), is_within) == (len(judged), len(judged), "true")
    assert (verdict, first) == (claim.verdict.value, f"~{text(claim.parts[0].bases[0].value)}")
    assert int(lines) == len(claim.parts[0].bases)
