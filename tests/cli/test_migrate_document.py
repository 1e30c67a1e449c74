"""Tests of the answer of `trnsim migrate`."""

from trnsim.cli.migrate_document import migrate_document
from trnsim.document.html import html
from trnsim.document.text import text
from trnsim.nki.migrate.report import report_of

KERNEL = """import nki
import nki.isa as nisa

@nki.jit
def scaled(x):
    nisa.quantize_mx(x, x, x)
"""


def test_a_found_version_is_explained():
    document = migrate_document(report_of(KERNEL, "k.py"))
    assert "If it was written for an older\n    one, say --from VERSION." in text(document, 100)
    chosen = migrate_document(report_of(KERNEL, "k.py", origin="0.4"))
    assert "--from VERSION" not in text(chosen, 100)


def test_the_page_has_reason_and_source():
    page = html(migrate_document(report_of(KERNEL, "k.py", origin="0.4")))
    assert "compare dequantized values" in page
    assert "release notes of NKI 0.5, nisa.quantize_mx" in page


def test_places_of_which_the_same_is_said_are_told_together():
    lines = "    x.a.ap(x)\n    x.b.ap(x)\n    x.c.ap(x)\n"
    document = migrate_document(report_of(KERNEL + lines, "k.py", origin="0.4"))
    told = text(document, 100)
    assert told.count("perhaps other values  tensor.ap(offset=) adds") == 1
    assert "also in line 8, 9" in told
    assert len(document.values["statements"]) == 4


def test_what_is_legal_again_in_the_target_may_stay():
    lines = "    if x is True:\n        pass\n"
    report = report_of(KERNEL + lines, "k.py", origin="0.2")
    told = " ".join(text(migrate_document(report), 100).split())
    assert "fix: write == or !=, or leave it as it is: legal again in NKI 0.7" in told
