"""What a page of seconds says of the rows that processes wrote."""

import json
from types import SimpleNamespace

import costs
import pytest


def rows(folder, *written):
    folder.mkdir(exist_ok=True)
    (folder / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
    return folder


def call(test, seconds):
    return {"kind": "call", "test": test, "cpu_s": seconds, "wall_s": 2 * seconds}


def test_the_dearest_test_comes_first_and_those_above_the_limit_are_counted(tmp_path):
    text = costs.page(rows(tmp_path, call("a", 0.5), call("b", 0.75), call("c", 0.25)))
    assert "3 tests, 1 of them above 0.5 s of CPU" in text
    assert "| call | 3 | 1.5 |" in text
    table = [line for line in text.splitlines() if line.endswith(("| a |", "| b |", "| c |"))]
    assert table == ["| 0.75 | 1.50 | b |", "| 0.50 | 1.00 | a |", "| 0.25 | 0.50 | c |"]


def test_a_fixture_of_one_test_is_part_of_the_test(tmp_path):
    fixture = {"kind": "fixture", "fixture": "f", "test": "t", "cpu_s": 1, "wall_s": 1}
    shown = costs.page(rows(tmp_path, fixture | {"scope": "module"}))
    hidden = costs.page(rows(tmp_path, fixture | {"scope": "function"}))
    assert "f for t" in shown
    assert "f for t" not in hidden


def test_parts_stand_before_what_they_hold(tmp_path):
    part = {"kind": "part", "part": "mypy", "cpu_s": 30, "wall_s": 40, "status": 0}
    (tmp_path / "tests").mkdir()
    rows(tmp_path / "tests", call("a", 1.0))
    lines = costs.page(rows(tmp_path, part)).splitlines()
    assert lines.index("| mypy | 30.0 | 40.0 |") < lines.index("| call | 1 | 1.0 |")


def test_only_the_fifty_dearest_are_listed(tmp_path):
    text = costs.page(rows(tmp_path, *(call(f"test{n}", n) for n in range(60))))
    assert text.count("| test") - 1 == costs.SLOWEST == 50
    assert "| test9 |" not in text


def test_a_recorder_writes_a_row_for_a_call_and_hands_on_its_result(tmp_path):
    recorder = costs.Recorder(tmp_path)
    calling = recorder.pytest_runtest_call(SimpleNamespace(nodeid="a test"))
    next(calling)
    with pytest.raises(StopIteration) as stopped:
        calling.send("result")
    assert stopped.value.value == "result"
    manager = SimpleNamespace(hasplugin=lambda _: True)
    recorder.pytest_unconfigure(SimpleNamespace(pluginmanager=manager))
    (row,) = costs.rows_of(tmp_path)
    assert (row["kind"], row["test"]) == ("call", "a test")
    assert row["wall_s"] >= 0
