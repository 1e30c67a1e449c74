import json
import re

from trnsim.errors import SourceLine
from trnsim.profile import html
from trnsim.profile.page import as_json, page_data


def test_the_page_is_one_file_that_needs_no_network(timeline):
    page = html(timeline, "matmul")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"<[a-z]+\s[^>]*(src|href)=", page)
    assert not re.search(r"https?://|@import|url\(", page)
    assert "{{" not in page


def test_the_embedded_data_reads_back(timeline):
    page = html(timeline, "matmul")
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    data = json.loads(found[1])
    assert data["title"] == "matmul"
    assert len(data["spans"]["start"]) == len(timeline) == data["summary"]["instructions"]


def test_text_cannot_leave_the_script_element(timeline):
    hostile = "</script><script>alert(1)</script><!-- \u2028 {{data}} &amp;"
    page = html(timeline, hostile)
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script><!--" not in page
    assert json.loads(as_json([hostile])) == [hostile]


def test_spans_are_columns_that_agree_with_the_timeline(timeline):
    columns = page_data(timeline, "")["spans"]
    span = timeline.span(3)
    assert columns["start"][3] == round(span.start_s * 1e9, 2)
    assert columns["busy"][3] == round((span.busy_until_s - span.start_s) * 1e9, 2)
    assert columns["waited_for"][3] == span.waited_for
    first, last = columns["waits_from"][3:5]
    assert columns["waits"][first:last] == list(timeline.program.predecessors(3))


def test_operands_show_what_differs_from_its_default(timeline):
    distinct = page_data(timeline, "")["distinct"]
    matmul = next(row for row in distinct if row["opcode"] == "nc_matmul")
    assert matmul["operands"] == [
        "dst = PSUM [128, 512] float32",
        "stationary = SBUF [128, 128] bfloat16",
        "moving = SBUF [128, 512] bfloat16",
    ]


def test_source_lines_come_with_their_text(timeline):
    lines = page_data(timeline, "")["lines"]
    assert any("NcMatmul" in line["text"] for line in lines)
    assert all(line["file"].endswith("conftest.py") for line in lines)


def test_an_unreadable_source_has_no_text(timeline):
    timeline.program.lines[0] = SourceLine("/nowhere/kernel.py", 7)
    assert page_data(timeline, "")["lines"][0] == {
        "file": "/nowhere/kernel.py",
        "line": 7,
        "text": "",
    }


def test_occupancy_stays_small_in_long_programs(kernel):
    for _ in range(3000):
        kernel.load(128, 8)
    memories = page_data(kernel.timeline(), "")["memories"]
    assert max(len(memory["time"]) for memory in memories) <= 4096
    assert max(memories[0]["bytes"]) > 0


def test_an_empty_program_has_a_page(kernel):
    assert "Timeline" in html(kernel.timeline(), "nothing")
