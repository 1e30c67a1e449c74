import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.device.graph_file import GraphFile, graph_bytes
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput
from trnsim.graph import Graph

FLAGS = ["--framework", "XLA", "--target", "trn1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = Graph()
    x = graph.input((128, 64), "float32")
    graph.outputs = [graph.elementwise("tanh", x)]
    Path("m.pb").write_bytes(graph_bytes(Subject("m", GraphFile(graph, names={0: "x"}))))
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["neuronx-cc", *words])


def test_a_compilation_ends_as_awss_does(folder):
    done = run("compile", "m.pb", *FLAGS, "-O1", "--output", "a.neff")
    assert (done.exit_code, done.stdout) == (0, "Compiler status PASS\n")
    assert sorted(path.name for path in folder.iterdir()) == ["a.neff", "log-neuron-cc.txt", "m.pb"]


@pytest.mark.usefixtures("folder")
def test_the_level_info_prints_the_report_and_ignored_flags():
    done = run("compile", *FLAGS, "--verbose=info", "--enable-fast-context-switch", "m.pb")
    assert done.stdout.startswith("m on trn1\n  time ")
    assert done.stderr.startswith("--enable-fast-context-switch has no effect")


@pytest.mark.usefixtures("folder")
def test_the_answer_is_that_of_trnsim_compile():
    run("compile", "m.pb", *FLAGS, "--verbose=info")
    log = Path("log-neuron-cc.txt").read_text()
    done = CliRunner().invoke(app, ["compile", "m.pb", "--on", "trn1"])
    answer = [line.rstrip() for line in done.stdout.strip().splitlines()]
    assert [line.rstrip() for line in log.splitlines()][: len(answer)] == answer
    again = CliRunner().invoke(app, ["compile", "file.neff", "--on", "trn1"])
    assert again.stdout.partition("\n")[2] == done.stdout.partition("\n")[2]


@pytest.mark.usefixtures("folder")
def test_a_graph_that_is_damaged_ends_with_the_status_of_a_failure():
    Path("m.pb").write_bytes(Path("m.pb").read_bytes()[:-1])
    done = run("compile", "m.pb", *FLAGS)
    assert done.exit_code == 70
    assert done.stderr.startswith(
        "trnsim: error: neuronx-cc: m.pb: the graph was cut off or changed"
    )


def test_what_is_asked_wrong_is_refused_with_a_fix():
    with pytest.raises(BadInput, match="--auto-cats is no flag of neuronx-cc"):
        CliRunner().invoke(
            app, ["neuronx-cc", "compile", "m.pb", *FLAGS, "--auto-cats"], catch_exceptions=False
        )


@pytest.mark.usefixtures("folder")
def test_an_interrupted_compilation_writes_nothing_and_says_so(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trnsim.tools.neuronx_cc.compilation.compile_program", interrupt)
    done = run("compile", "m.pb", *FLAGS)
    assert done.exit_code == 130
    assert "the compilation of m.pb was interrupted (Ctrl-C); file.neff is not" in done.stderr
    assert not Path("file.neff").exists()


@pytest.mark.usefixtures("folder")
def test_a_full_disk_is_named(monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    done = run("compile", "m.pb", *FLAGS)
    assert done.exit_code == 70
    assert "cannot write log-neuron-cc.txt: No space left on device" in done.stderr
    assert [path.name for path in Path().iterdir()] == ["m.pb"]


def test_the_version_is_trnsims_in_place_of_awss():
    done = run("--version")
    assert done.stdout.startswith("neuronx-cc 2.27+trnsim")
    assert done.stdout.endswith(": trnsim's, in place of AWS's compiler\n")


def test_flags_are_listed():
    done = run("compile", "--list-flags")
    assert "--auto-cast-type " in done.stdout
    assert "bf16, fp16, tf32, fp8_e4m3" in done.stdout


def test_operators_of_another_framework_are_refused():
    with pytest.raises(BadInput, match="argument --framework: invalid choice: 'TF'; legal: XLA"):
        CliRunner().invoke(
            app, ["neuronx-cc", "list-operators", "--framework", "TF"], catch_exceptions=False
        )
