"""Parts that a framework adds to a step's report."""

from trnsim.device import step_report
from trnsim.device.call_log import Recording
from trnsim.device.report_parts import report_parts
from trnsim.document.answer import Note
from trnsim.document.html import html
from trnsim.document.text import text


class Part:
    heading = "Cuts"

    def rows(self):
        return [("cuts", "three")]

    def blocks(self, target):
        return [Note(f"cuts on {target}")]


def test_a_part_has_rows_in_the_summary_and_blocks_in_the_document(monkeypatch):
    monkeypatch.setattr(step_report, "report_parts", [Part])
    report = step_report.step_report(Recording(), "trn2")
    assert report.brief()[-1] == ("cuts", "three")
    assert "cuts on trn2" in text(report.document)
    assert "<h2>Cuts</h2><p>cuts on trn2</p>" in html(report.document)
    assert "<h2>Collectives</h2>" not in html(report.document)
    assert report_parts == []  # no framework adds any of itself
