from html import escape

import pytest

from trnsim.cli.claim_document import (
    claim_document,
    claims_document,
    kind_text,
    recomputed_values,
)
from trnsim.document.html import html
from trnsim.document.text import text
from trnsim.system.claims import claims
from trnsim.system.claims.amounts import Citation, Grade
from trnsim.system.claims.verdict import Claim, ClaimBasis, quantity
from trnsim.system.claims.verdict import text as value_text

ROW = Citation(Grade.ROW, "chips/a", "2026-11-21", "page one")
MODEL = Citation(Grade.MODEL, "chips/b", "2026-11-21", "a model", "assumed: its efficiency")


def lines_of(claim, width=100):
    return text(claim_document(claim), width).splitlines()


def table_of(claims, width=100):
    return text(claims_document(claims), width).splitlines()


def basis(value, *origins, is_stand_in=False):
    return ClaimBasis("words", value, origins, is_stand_in)


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ([basis(3.0, ROW), basis(1.0, ROW)], "1..3"),
        ([basis(3.0, ROW)], "3"),
        ([basis(3.0, ROW, is_stand_in=True)], "~3"),
        ([basis(3.0, ROW, MODEL)], "?3"),
        ([basis(3.0, ROW, MODEL), basis(2.0, ROW)], "2"),
        ([basis("new", ROW), basis("not new", ROW)], "new or not new"),
        ([], "-"),
    ],
)
def test_our_figures_in_brief(bases, expected):
    assert recomputed_values(quantity("rate", 1, "", *bases)) == expected


def test_sources_are_numbered_and_doubts_told_once():
    part = quantity("rate", 1, "", basis(1.0, ROW), basis(2.0, MODEL, ROW), "a price")
    claim = Claim("C01", ("001",), "a sentence", "our words", (part,), notes=("a note",))
    assert [kind_text(one) for one in part.bases] == ["catalogue row", "planner's model, in doubt"]
    assert lines_of(claim) == [
        "C01  REPRODUCED  our words",
        '     document 001: "a sentence"',
        "     rate: claimed 1",
        "        1  words",
        "           catalogue row; 2026-11-21 [1]",
        "     ?  2  words",
        "           planner's model, in doubt; 2026-11-21 [2][1]",
        "          not known: a price",
        "     note: a note",
        "     note: assumed: its efficiency",
        "     [1] page one",
        "     [2] a model",
    ]


def test_parts_have_lines_of_their_own():
    parts = (quantity("one", 1, "", basis(1.0, ROW)), quantity("two", 2, "x", basis(1.0, ROW)))
    lines = table_of([Claim("C01", (), "", "our words", parts)])
    assert lines[1].split() == ["C01", "wrong", "our", "words"]
    assert lines[2].split() == ["reproduced", "1", "1", "one"]
    assert lines[3].split() == ["wrong", "2", "x", "1", "two"]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_every_claim_fits_the_width(width):
    judged = claims()
    lines = [line for claim in judged for line in lines_of(claim, width)]
    assert max(map(len, [*lines, *table_of(judged, width)])) <= width


def test_the_page_has_each_claim_with_every_basis():
    judged = claims()
    page = html(claims_document(judged))
    for claim in judged:
        section = page[page.index(f'<section class="panel" id="{claim.id}">') :]
        section = section[: section.index("</section>")]
        for one in (basis for part in claim.parts for basis in part.bases):
            assert f">{escape(value_text(one.value))}</span>" in section
        assert section.count("<details>") == sum(len(part.bases) > 4 for part in claim.parts)
    assert "<script" not in page


def test_text_is_escaped():
    origin = Citation(Grade.DOCUMENT, "", "2026", "a <source>")
    bases = (ClaimBasis("<words>", "<value>", (origin,)), "<missing>")
    part = quantity("q <&>", 1, "<unit>", *bases)
    claim = Claim("C01", ("001",), "<quote>", "<says>", (part,), notes=("<note>",))
    page = html(claims_document([claim]))
    body = page[page.index("<body>") :]
    for word in ("source", "unit", "words", "value", "missing", "quote", "says", "note"):
        assert f"<{word}>" not in body
        assert f"&lt;{word}&gt;" in body
