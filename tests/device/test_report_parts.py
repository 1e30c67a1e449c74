"""Parts that a framework adds to a step's report."""

from trnsim.device import step_report
from trnsim.device.call_log import Recording
from trnsim.device.report_parts import report_parts
from trnsim.document.answer import Note
from trnsim.document.html import html
from trnsim.document.text import text


class Part:
    heading = "Cuts <of> a program"

    def rows(self):
        return [("cuts", "three")]

    def blocks(self, target):
        return [Note(f"cuts on {target}")]

    def values(self, target):
        return {"cuts": [target]}


class NoCuts(Part):
    heading = "Nothing"

    def blocks(self, _):
        return ()

    def values(self, _):
        return {}


def test_a_part_has_rows_in_the_summary_and_blocks_in_the_document(monkeypatch):
    monkeypatch.setattr(step_report, "report_parts", [Part, NoCuts])
    report = step_report.step_report(Recording(), "trn2")
    assert report.brief()[-1] == ("cuts", "three")
    assert "cuts on trn2" in text(report.document)
    page = html(report.document)
    assert "<h2>Collectives</h2>" not in page
    assert "<h2>Cuts &lt;of&gt; a program</h2>" in page
    assert "Nothing" not in page
    first, *others = report.document.values
    assert first["cuts"] == ["trn2"]
    assert not any("cuts" in chip for chip in others)
    assert report_parts == []  # no framework adds any of itself
