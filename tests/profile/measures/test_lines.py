import pytest

from trnsim.errors import SourceLine
from trnsim.profile import time_by_line
from trnsim.profile.measures.lines import line_text


def test_the_critical_path_by_line_adds_up_to_the_device_time(timeline):
    rows = time_by_line(timeline)
    assert sum(row.critical_s for row in rows) == pytest.approx(timeline.device_time_s)
    assert sum(row.busy_s for row in rows) == pytest.approx(sum(timeline.busy_s().values()))
    assert sum(row.instructions for row in rows) == len(timeline)
    assert all(0 <= row.waiting_s <= row.critical_s for row in rows)


def test_lines_come_with_their_text_most_critical_first(timeline):
    rows = time_by_line(timeline)
    assert [row.critical_s for row in rows] == sorted((r.critical_s for r in rows), reverse=True)
    assert any("NcMatmul" in row.text for row in rows)


def test_a_line_that_cannot_be_read_has_no_text():
    assert line_text(SourceLine("<no such file>", 3)) == ""
    assert line_text(None) == ""


def test_an_empty_program_has_no_lines(kernel):
    assert time_by_line(kernel.timeline()) == []
