import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.neuron_parallel_compile import PROGRAM
from trnsim.compiler.compile_cache import cache_settings, extract_graph
from trnsim.device.graph_file import GraphFile, graph_bytes
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput
from trnsim.graph import Graph

FLAGS = ["--target=trn1", "--logical-nc-config=1"]
STORE = (
    "import sys; from pathlib import Path;"
    "from trnsim.compiler.compile_cache import cache_settings, extract_graph;"
    "extract_graph(Path(sys.argv[1]).read_bytes(), ['--target=trn1'], cache_settings());"
    "sys.exit(int(sys.argv[2]))"
)


def graph_of(columns):
    graph = Graph()
    x = graph.input((128, columns), "float32")
    graph.outputs = [graph.elementwise("tanh", x)]
    return graph_bytes(Subject("m", GraphFile(graph, names={0: "x"})))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEURON_CC_FLAGS", raising=False)
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(*words):
    return CliRunner().invoke(app, [PROGRAM, *map(str, words)])


def report_in(text):
    return json.loads("{" + text.rpartition("||: {")[2].partition("\n}\n")[0] + "}")


def test_stored_graphs_are_compiled_and_reported_as_awss():
    paths = [
        str(extract_graph(graph_of(columns), FLAGS, cache_settings(), tell=lambda *_: None))
        for columns in (32, 64)
    ]
    done = run("--command", "compile", "--num_parallel", 1)
    assert done.exit_code == 0
    assert report_in(done.stdout) == {
        "compilation_summary": {"true": 2},
        "compilation_report": {path: {"status": True, "retry": 0} for path in paths},
    }
    assert "Current remaining items are 2, locked are 0, failed are 0, done are 0, total is 2" in (
        done.stdout
    )
    assert done.stdout.endswith("||: Total failed compilations: 0\n")
    again = run("--command", "compile")
    assert "master grab hlos to compile: []" in again.stdout


def test_a_graph_that_fails_is_told_and_tried_again(monkeypatch):
    good = extract_graph(graph_of(32), FLAGS, cache_settings(), tell=lambda *_: None)
    bad = extract_graph(b"trnsim graph 1\n", FLAGS, cache_settings(), tell=lambda *_: None)
    monkeypatch.setenv("NEURON_PARALLEL_COMPILE_MAX_RETRIES", "2")
    monkeypatch.setenv("NEURON_PARALLEL_COMPILE_DUMP_RESULTS", "1")
    done = run("--command", "compile", "--num_parallel", 1)
    assert done.exit_code == 1
    report = report_in(done.stdout)
    assert report["compilation_summary"] == {"true": 1, "false": 1}
    rows = report["compilation_report"]
    assert (rows[str(good)]["status"], rows[str(good)]["retry"]) == (True, 0)
    assert (rows[str(bad)]["status"], rows[str(bad)]["retry"]) == (False, 2)
    assert rows[str(good)]["compile_time"] > 0
    assert f"{bad}: the graph was cut off or changed" in done.stderr
    assert "Got a cached failed neff at" in run("--command", "compile").stderr


@pytest.mark.slow
def test_a_program_is_run_and_its_graphs_compiled(tmp_path):
    (tmp_path / "graph").write_bytes(graph_of(32))
    done = run(sys.executable, "-c", STORE, "graph", 0)
    assert done.exit_code == 0
    assert report_in(done.stdout)["compilation_summary"] == {"true": 1}
    collected = run("--command", "collect", sys.executable, "-c", STORE, "graph", 0)
    assert collected.exit_code == 0
    assert "compilation_summary" not in collected.stdout


@pytest.mark.slow
def test_a_program_that_fails_ends_it_unless_that_is_ignored(tmp_path, monkeypatch):
    (tmp_path / "graph").write_bytes(graph_of(32))
    done = run(sys.executable, "-c", STORE, "graph", 3)
    assert done.exit_code == 3
    assert "the program ended with status 3, and nothing was compiled" in done.stderr
    monkeypatch.setenv("NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE", "1")
    done = run(sys.executable, "-c", STORE, "graph", 3)
    assert done.exit_code == 0
    assert report_in(done.stdout)["compilation_summary"] == {"true": 1}


@pytest.mark.slow
def test_an_analysis_writes_result_json(tmp_path):
    (tmp_path / "graph").write_bytes(graph_of(32))
    words = ("--command", "analyze", "--analyze-output", "out", "--analyze-verbosity", 1)
    done = run(*words, sys.executable, "-c", STORE, "graph", 0)
    assert done.exit_code == 0
    stored = json.loads((tmp_path / "out" / "result.json").read_text())
    assert stored["supported_operators"]["xla"] == ["f32[128,32]{1,0} tanh(f32[128,32]{1,0})"]
    assert "Removing existing report" not in done.stdout
    again = run(*words, sys.executable, "-c", STORE, "graph", 0)
    assert "Removing existing report" in again.stdout


def test_the_cache_is_cleaned_and_its_locks_are_cleared(cache):
    path = extract_graph(graph_of(32), FLAGS, cache_settings(), tell=lambda *_: None)
    Path(f"{path}.lock").write_text("1\n")
    assert "Removed 1 locks in" in run("--command", "clear-locks").stdout
    assert not Path(f"{path}.lock").exists()
    assert "Removed 1 graphs in" in run("--command", "clean").stdout
    assert list(cache.iterdir()) == []
    assert "Removed 0 graphs in" in run("--command", "clear-cache").stdout


def test_a_cache_without_graphs_is_told(cache):
    done = run("--command", "compile", "--cache-url", cache / "other")
    assert done.exit_code == 0
    assert "no graph is stored in" in done.stderr
    assert str(cache / "other") in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--command", "wash"], "argument --command: invalid choice: 'wash'; legal: collect"),
        (
            ["--analyze-output", "x", "true"],
            "--analyze-output without --command analyze, which writes it",
        ),
        ([], "no program is named to run"),
        (["--command", "clean", "--cache-url", "s3://b"], "no cache of trnsim is in S3"),
    ],
)
def test_what_is_asked_wrong_is_refused(words, message):
    done = run(*words)
    assert message in str(done.exception)


def test_a_number_of_retries_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("NEURON_PARALLEL_COMPILE_MAX_RETRIES", "-1")
    with pytest.raises(BadInput, match="NEURON_PARALLEL_COMPILE_MAX_RETRIES is '-1'; legal: a wh"):
        CliRunner().invoke(app, [PROGRAM, "--command", "compile"], catch_exceptions=False)


def test_an_interrupted_compilation_says_so(monkeypatch):
    extract_graph(graph_of(32), FLAGS, cache_settings(), tell=lambda *_: None)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trnsim.jax.parallel_compilation.compile_program", interrupt)
    done = run("--command", "compile")
    assert done.exit_code == 130
    assert "the compilation was interrupted (Ctrl-C)" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT to a group of processes")
def test_ctrl_c_ends_the_program_too(tmp_path):
    sleeping = (
        "import pathlib, time; pathlib.Path('began').write_text(''); time.sleep(60);"
        "pathlib.Path('ended').write_text('')"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "trnsim", PROGRAM, sys.executable, "-c", sleeping],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "began").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert f"{sys.executable} was interrupted (Ctrl-C), and nothing was compiled" in told
    assert not (tmp_path / "ended").exists()
