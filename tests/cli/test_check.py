import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput

SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
DECLARED = """

def scaled_inputs():
    return (np.ones((128, 512), np.float32),)


def scaled_reference(x):
    return 2 * x
"""
PROGRAM = """

if __name__ == "__main__":
    for rows in (64, 128):
        assert (scaled(np.ones((rows, 64), np.float32)) == FACTOR).all(), "wrong"
"""
WORK = "    nisa.tensor_scalar(dst"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(SOURCE + DECLARED)
    return tmp_path


def write(text, name="scaled.py"):
    Path(name).write_text(text)


def invoke(*words):
    return CliRunner().invoke(app, ["check", *words])


def answer(*words):
    result = invoke(*words, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_a_kernel_is_checked_on_every_chip():
    status, values = answer("scaled.py", "--on", "trn2,trn3", "--max-us", "60")
    assert status == 0
    assert values["passed"]
    assert [kernel["chip"] for kernel in values["kernels"]] == ["trn2", "trn3"]
    assert values["max_s"] == pytest.approx(60e-6)
    assert values["kernels"][0]["values"] == [
        {"result": "", "error": 0.0, "tolerance": 0.01, "at": [0, 0], "why": ""}
    ]


def test_its_time_is_that_of_trnsim_run():
    write(SOURCE)
    np.save("x.npy", np.ones((128, 512), np.float32))
    command = ["run", "scaled.py", "--input", "x.npy", "--json"]
    run = CliRunner().invoke(app, command)
    (kernel,) = json.loads(run.stdout)["kernels"]
    write(SOURCE + DECLARED)
    _, values = answer("scaled.py")
    profile, times = kernel["profiles"][0], values["kernels"][0]["time_s"]
    for name in ("p10", "p50", "p90"):
        assert times[name] == profile["summary"][f"total_time_{name}_s"]
    assert values["kernels"][0]["bound_by"] == profile["summary"]["bound_by"]
    lines = values["kernels"][0]["lines"]
    assert [row["line"] for row in lines] == [11, 13, 12]
    for row, told in zip(lines, profile["by_line"], strict=True):
        assert told["line"].endswith(f"{row['file']}:{row['line']}")
        for column in ("instructions", "critical_s", "waiting_s", "busy_s"):
            assert row[column] == pytest.approx(told[column], rel=1e-3)


def test_the_answer_stands_alone_whatever_the_file_prints():
    write(SOURCE + DECLARED + "\nprint('from the file')\n")
    result = invoke("scaled.py", "--json")
    assert json.loads(result.stdout)["passed"]
    assert "from the file\n" in result.stderr


def test_a_program_is_checked_by_its_own_assertions():
    write(SOURCE + PROGRAM.replace("FACTOR", "2"))
    status, values = answer("scaled.py")
    assert status == 0
    assert [kernel["kernel"] for kernel in values["kernels"]] == ["scaled", "scaled#2"]
    write(SOURCE + PROGRAM.replace("FACTOR", "3"))
    status, values = answer("scaled.py")
    assert status == 1
    (finding,) = values["kernels"][-1]["findings"]
    assert finding["kind"] == "values"
    assert "AssertionError: wrong" in finding["text"]


def test_a_program_that_breaks_a_rule_fails_at_its_line():
    write((SOURCE + PROGRAM.replace("FACTOR", "2")).replace("operand0=2.0", "operand0='2'"))
    status, values = answer("scaled.py")
    assert status == 1
    (finding,) = values["kernels"][-1]["findings"]
    assert finding["line"] == 12


def test_a_file_without_kernels_and_inputs_is_refused():
    write(SOURCE)
    result = invoke("scaled.py")
    assert isinstance(result.exception, BadInput)
    assert "launches no kernel, and has inputs for none" in str(result.exception)
    assert "define NAME_inputs()" in result.exception.fix


def test_baselines_are_asked_for_written_and_compared():
    status, values = answer("scaled.py", "--baseline", "b.toml")
    assert status == 1
    (finding,) = values["kernels"][0]["findings"]
    assert finding["text"] == "b.toml has no baseline of scaled.py scaled on trn2"
    assert finding["fix"] == ("accept its time: trnsim check scaled.py --baseline b.toml --update")
    assert "wrote b.toml" in invoke("scaled.py", "--baseline", "b.toml", "--update").stdout
    status, values = answer("scaled.py", "--baseline", "b.toml")
    assert status == 0
    assert values["kernels"][0]["difference"]["total"]["change_s"] == 0
    write((SOURCE + DECLARED).replace(WORK, "    nisa.reciprocal(dst=tile, data=tile)\n" + WORK))
    result = invoke("scaled.py", "--baseline", "b.toml", "--output", "comment.md")
    assert result.exit_code == 1
    assert "FAIL slower: " in result.stdout
    comment = Path("comment.md").read_text()
    assert "| scaled (scaled.py) | trn2 |" in comment
    assert "nisa.reciprocal" in comment
    _, values = answer("scaled.py", "--baseline", "b.toml")
    assert values["kernels"][0]["difference"]["lines"][0]["line"] == 12


def test_a_failing_kernel_is_not_accepted():
    write(SOURCE + DECLARED.replace("2 * x", "3 * x"))
    result = invoke("scaled.py", "--baseline", "b.toml", "--update")
    assert result.exit_code == 1
    assert "scaled" not in Path("b.toml").read_text()


def test_baselines_of_deleted_kernels_are_named_and_dropped():
    invoke("scaled.py", "--baseline", "b.toml", "--update")
    write((SOURCE + DECLARED).replace("scaled", "doubled"))
    _, values = answer("scaled.py", "--baseline", "b.toml")
    assert values["gone"] == ["scaled.py scaled on trn2"]
    result = invoke("scaled.py", "--baseline", "b.toml", "--update")
    assert "(--update drops them): scaled.py scaled on trn2" in " ".join(result.stdout.split())
    assert "scaled on trn2" not in Path("b.toml").read_text()


def test_kernels_without_inputs_are_named():
    write(SOURCE + SOURCE.replace("def scaled", "def other") + DECLARED)
    _, values = answer("scaled.py")
    assert values["unchecked"] == ["scaled.py: other"]
    _, values = answer("scaled.py", "--kernel", "scaled")
    assert values["unchecked"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("scaled.py --update", "--update without --baseline"),
        ("scaled.py --baseline b.toml --against HEAD", "both say what times are compared"),
        ("scaled.py --kernel other", "has the kernels: scaled"),
        ("absent.py", "cannot read absent.py: No such file"),
        ("scaled.py --on p5en", "planned for and priced, not emulated"),
        ("scaled.py --baseline conflict.toml", "conflict.toml:1: a merge conflict is left"),
    ],
)
def test_wrong_input_is_refused_before_any_kernel_runs(words, message):
    Path("conflict.toml").write_text("<<<<<<< HEAD\n")
    result = invoke(*words.split())
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


def test_a_limit_of_no_time_is_refused():
    result = invoke("scaled.py", "--max-us", "0")
    assert result.exit_code == 2
    assert "'--max-us': '0' is not above 0; legal: numbers above 0" in result.output


@pytest.mark.slow
def test_a_revision_is_compared_with(folder):
    for command in (
        "git init -q",
        "git add .",
        "git -c user.name=a -c user.email=a@b commit -qm one",
    ):
        subprocess.run(command.split(), cwd=folder, check=True)
    write((SOURCE + DECLARED).replace(WORK, "    nisa.reciprocal(dst=tile, data=tile)\n" + WORK))
    write(SOURCE + DECLARED, "new.py")
    status, values = answer("scaled.py", "new.py", "--against", "HEAD")
    assert status == 1
    changed, new = values["kernels"]
    assert changed["difference"]["kernel"]["counts"]
    assert [finding["kind"] for finding in changed["findings"]] == ["slower"]
    assert [finding["text"] for finding in new["findings"]] == [
        "revision HEAD has no time of this kernel"
    ]
    assert new["passed"]


def test_baselines_of_kernels_that_a_failing_program_did_not_reach_stay():
    Path("p.py").write_text(SOURCE + PROGRAM.replace("FACTOR", "2"))
    assert invoke("p.py", "--baseline", "b.toml", "--update").exit_code == 0
    stored = Path("b.toml").read_text()
    assert "scaled#2" in stored
    Path("p.py").write_text(SOURCE + PROGRAM.replace("FACTOR", "3"))  # its first assertion fails
    result = invoke("p.py", "--baseline", "b.toml", "--update")
    assert result.exit_code == 1
    assert "scaled#2" in Path("b.toml").read_text()


def test_a_file_of_baselines_is_checked_before_any_kernel_runs(folder):
    (folder / "file").write_text("")
    for name in ("file/b.toml", "."):
        result = invoke("scaled.py", "--baseline", name, "--update")
        assert isinstance(result.exception, BadInput), name
