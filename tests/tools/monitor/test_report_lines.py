import io
import json
import os
from pathlib import Path

from trnsim.tools.monitor.report_lines import is_redirected, reports

REPORT = {
    "neuron_runtime_data": [], "system_data": {}, "instance_info": {}, "neuron_hardware_info": {},
}  # fmt: skip


def test_lines_that_are_no_reports_are_named_and_left_out():
    said = []
    lines = ["", "{", "[]", '{"system_data": {}}', '"\\udcff"', "[" * 100_000, json.dumps(REPORT)]
    text = "\n".join([json.dumps(REPORT), *lines])
    assert list(reports(io.StringIO(text), said.append)) == [REPORT, REPORT]
    assert [one.split(":")[0] for one in said] == [
        "line 3 is no JSON",
        "line 4 is no report of neuron-monitor",
        "line 5 is no report of neuron-monitor",
        "line 6 has text that is no Unicode",
        "line 7 is no JSON",
    ]


def test_a_line_that_is_no_utf_8_is_named_and_left_out():
    messages = []
    content = b"\xff\n" + json.dumps(REPORT).encode()
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
    assert list(reports(stream, messages.append)) == [REPORT]
    assert len(messages) == 1
    assert messages[0].startswith("line 1 is no JSON")


def test_pipes_and_files_feed_and_nothing_does_not(tmp_path):
    read, write = os.pipe()
    with os.fdopen(read) as pipe, os.fdopen(write, "w"):
        assert is_redirected(pipe)
    (tmp_path / "a").write_text("")
    with (tmp_path / "a").open() as file, Path(os.devnull).open() as null:
        assert is_redirected(file)
        assert not is_redirected(null)
    assert not is_redirected(io.StringIO())
