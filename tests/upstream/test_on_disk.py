import json

import on_disk
import on_disk_page
import on_disk_stage
import pytest


def outcome(**more):
    figures = {
        "calls": 3,
        "device_time_s": 0.25,
        "missing": {},
        "counters": {"UncachedCompile": 2, "CachedCompile": 5},
    }
    return {
        "number": 1,
        "status": 0,
        "is_running": True,
        "wall_s": 1.0,
        "figures": [figures],
        "own": [],
        "pairs": [],
        "last": [],
        **more,
    }


ROW = {"number": 1, "repository": "a/b", "commit": "c", "file": "d/e.py", "limit_s": 9}


def test_the_25_programs_have_what_a_run_needs():
    rows = on_disk.rows()
    assert [row["number"] for row in rows] == list(range(1, 26))
    assert all({"repository", "commit", "file", "limit_s"} <= row.keys() for row in rows)
    kinds = {kind.__name__ for kind in on_disk_stage.KINDS}
    assert {stage[0] for row in rows for stage in row.get("stage", [])} <= kinds
    for row in rows:  # what is counted beside the CPU is compared with something
        assert ("cpu" in row) == ("values" in row)


def test_a_notebook_is_its_code_without_commands(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": ["%env A=1\n", "!pip install x\n", "b = 1"]},
        {"cell_type": "code", "source": ["if b:\n", "    !ls\n"]},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    program = on_disk.notebook(path, 3)
    assert program.name == "notebook_3.py"
    assert program.read_text().split("\n") == [
        *("pass", "pass", "b = 1", "", "if b:", "    pass", "")
    ]


def test_ranks_are_torchruns():
    row = {"number": 3, "ranks": 2, "launcher": "torchrun", "arguments": ["-b", 1]}
    words = on_disk.command(row, on_disk.Path("x/a.py"))
    assert words[1:] == [
        *("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29603"),
        *("a.py", "-b", "1"),
    ]
    assert on_disk.command({"number": 3}, on_disk.Path("a.py"))[1:] == ["a.py"]


def test_values_that_a_program_prints_for_both_are_compared():
    row = {"pairs": [["cpu: (.*)", "neuron: (.*)"], ["no: (.*)", "neuron: (.*)"]]}
    assert on_disk.pairs(row, "cpu: [1.0, -2]\nneuron: [1.5, -2e0]\n") == [0.5, None]


def test_an_endless_program_is_stopped_at_its_limit(tmp_path):
    words = [on_disk.sys.executable, "-c", "import time\ntime.sleep(60)"]
    status, took_s = on_disk.run(words, tmp_path, dict(on_disk.os.environ), 0.2, tmp_path / "log")
    assert status is None
    assert took_s < 20


@pytest.mark.parametrize(
    ("row", "result", "words"),
    [
        ({}, {}, "none are compared"),
        ({"own": ["a"]}, {"own": [True]}, "own: equal"),
        ({"own": ["a", "b"]}, {"own": [True, False]}, "own: 1 of 2 lines"),
        ({}, {"counted": 4}, "own: 4 passed"),
        ({}, {"pairs": [0.5, None]}, "CPU: 0.5 apart; CPU: not printed"),
        ({}, {"values": {"device": [1.0, 2.0], "cpu": [1.0, 2.5]}}, "same: 0.5 apart in 2"),
        ({}, {"values": {"device": [1.0], "cpu": []}}, "same: 1 and 0 values"),
        ({}, {"values": {"fault": ["x"]}}, "same: stops on the CPU (x)"),
    ],
)
def test_values_in_words(row, result, words):
    assert on_disk_page.values(row, outcome(**result)) == words


def test_the_page_has_what_ran_and_where_others_stop():
    places = ["/root/build/on-disk/02/d/e.py:7 main", "/site-packages/x.py:3 f"]
    error = {"type": "AbsentImport", "message": "no  such\nname", "places": places}
    stopped = outcome(number=2, is_running=False, status=1, figures=[{"error": error}])
    page = on_disk_page.page([ROW, ROW | {"number": 2}], {1: outcome(), 2: stopped})
    assert "1 of 2 run." in page
    assert "| 1 | `b/d/e.py` | yes | none are compared | 7 | 2 | 0.25 |" in page
    assert "| 2 | `b/d/e.py` | no | - | - | - | - |" in page
    assert "- 2, `d/e.py`: AbsentImport: no such name, at `d/e.py:7 main`" in page


def test_a_stop_without_an_exception_is_the_last_line_or_the_limit():
    assert on_disk_page.stop(outcome(figures=[], status=3, last=["a", "b"])) == "b"
    assert on_disk_page.stop(outcome(figures=[], status=3)) == "ended with 3"
    assert on_disk_page.stop(outcome(figures=[], status=None)) == "still running at its time limit"


def test_calls_without_a_time_are_counted():
    figures = {"calls": 3, "device_time_s": 0.5, "missing": {"a": 2}}
    assert on_disk_page.seconds(outcome(figures=[figures])) == "0.5 (2 of 3 calls without a time)"
    assert on_disk_page.seconds(outcome(figures=[{"calls": 0}])) == "-"


def test_synthetic_digits_are_read_as_their_labels(tmp_path):
    on_disk_stage.mnist(tmp_path, "20", "10")
    raw = tmp_path / "MNIST" / "raw"
    assert (raw / "train-images-idx3-ubyte").stat().st_size == 16 + 20 * 28 * 28
    assert (raw / "t10k-labels-idx1-ubyte").stat().st_size == 8 + 10
