import json

import pytest

from trnsim.errors import SourceLine
from trnsim.profile.analysis.data import profile_data


def test_spans_are_columns_that_agree_with_the_timeline(timeline, ran):
    columns = profile_data(ran(timeline))["spans"]
    span = timeline.span(3)
    assert columns["start"][3] == round(span.start_s * 1e9, 2)
    assert columns["busy"][3] == round((span.busy_until_s - span.start_s) * 1e9, 2)
    assert columns["waited_for"][3] == span.waited_for
    first, last = columns["waits_from"][3:5]
    assert columns["waits"][first:last] == list(timeline.program.waits_for(3))


def test_operands_show_what_differs_from_its_default(timeline, ran):
    distinct = profile_data(ran(timeline))["distinct"]
    matmul = next(row for row in distinct if row["opcode"] == "nc_matmul")
    assert matmul["operands"] == [
        "dst = PSUM [128, 512] float32",
        "stationary = SBUF [128, 128] bfloat16",
        "moving = SBUF [128, 512] bfloat16",
    ]


def test_source_lines_come_with_their_text(timeline, ran):
    lines = profile_data(ran(timeline))["lines"]
    assert any("NcMatmul" in line["text"] for line in lines)
    assert all(line["file"].endswith("conftest.py") for line in lines)


def test_an_unreadable_source_has_no_text(timeline, ran):
    timeline.program.lines[0] = SourceLine("/nowhere/kernel.py", 7)
    assert profile_data(ran(timeline))["lines"][0] == {
        "file": "/nowhere/kernel.py",
        "line": 7,
        "text": "",
    }


def test_occupancy_stays_small_in_long_programs(kernel, ran):
    for _ in range(3000):
        kernel.load(128, 8)
    memories = profile_data(ran(kernel.timeline()))["memories"]
    assert max(len(memory["time"]) for memory in memories) <= 4096
    assert max(memories[0]["bytes"]) > 0


def test_it_is_plain_json(timeline, ran):
    data = profile_data(ran(timeline, warnings=("a race",)))
    assert json.loads(json.dumps(data)) == data
    assert (data["title"], data["kernel"], data["target"]) == ("matmul on trn2", "matmul", "trn2")
    assert data["warnings"] == ["a race"]


def test_gains_name_their_line(timeline, ran):
    data = profile_data(ran(timeline))
    for gain in data["gains"]:
        if gain["line"] >= 0:
            line = data["lines"][gain["line"]]
            assert gain["change"] == f"{line['file']}:{line['line']} for nothing"
        else:
            assert gain["change"].endswith(" twice as fast")


def test_opcodes_are_counted_busiest_first(timeline, ran):
    rows = profile_data(ran(timeline))["opcodes"]
    assert [(row["opcode"], row["engine"], row["count"]) for row in rows] == [
        ("dma_copy", "DMA", 9),
        ("tensor_copy", "Vector Engine", 4),
        ("nc_matmul", "Tensor Engine", 4),
    ]
    assert rows[1]["busy_ns"] == pytest.approx(4 * 512 / 0.96, abs=0.1)


def test_hbm_is_a_rate_in_steps(timeline, ran):
    hbm = profile_data(ran(timeline))["hbm"]
    assert len(hbm["time"]) == len(hbm["bytes_per_s"])
    assert max(hbm["bytes_per_s"]) == pytest.approx(368e9, rel=0.01)
    assert hbm["bytes_per_s"][-1] == 0
