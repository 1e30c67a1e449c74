import json
import re

from trnsim.profile import html, report_of


def test_the_page_is_one_file_that_needs_no_network(timeline, ran):
    page = html(report_of([ran(timeline)]))
    assert page.startswith("<!doctype html>")
    assert not re.search(r"<[a-z]+\s[^>]*(src|href)=", page)
    assert not re.search(r"https?://|@import|url\(", page)
    assert "{{" not in page


def test_the_embedded_data_reads_back(timeline, ran):
    page = html(report_of([ran(timeline)]))
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    data = json.loads(found[1])
    assert data["title"] == "matmul on trn2"
    (profile,) = data["profiles"]
    assert len(profile["spans"]["start"]) == len(timeline) == profile["summary"]["instructions"]


def test_text_cannot_leave_the_script_element(timeline, ran):
    hostile = "</script><script>alert(1)</script><!-- \u2028 {{data}} &amp;"
    page = html(report_of([ran(timeline, title=hostile)]))
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script><!--" not in page


def test_an_empty_program_has_a_page(kernel, ran):
    assert "Timeline" in html(report_of([ran(kernel.timeline())]))
