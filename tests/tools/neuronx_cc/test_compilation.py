from pathlib import Path

import pytest

from trnsim.compiler import Flags
from trnsim.compiler.stand_in import parse_program
from trnsim.device.graph_file import GraphFile, graph_bytes
from trnsim.device.model_report import Subject, report_model
from trnsim.errors import BadInput, EmulatorError
from trnsim.graph import Graph
from trnsim.tools.neuronx_cc.arguments import CompileArguments
from trnsim.tools.neuronx_cc.compilation import check_files, compile_file, messages


def subject():
    graph = Graph()
    x, w = graph.input((128, 256), "float32"), graph.input((256, 64), "float32")
    graph.outputs = [graph.elementwise("tanh", graph.dot_general(x, w, (1, 0)))]
    return Subject("a model", GraphFile(graph, frozenset({w.number}), {0: "x", 1: "w"}, ("a", "b")))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.pb").write_bytes(graph_bytes(subject()))
    return tmp_path


def arguments(*words):
    return CompileArguments.of(["m.pb", "--framework=XLA", *(words or ("--target=trn1",))])


def test_the_answer_is_that_of_the_compiler(folder):
    compiled = compile_file(arguments("--target=trn2", "--lnc=1", "--auto-cast=all"))
    wanted = report_model(subject(), "trn2", Flags.parse("--auto-cast=all --lnc=1"))
    assert compiled.report.as_dict() == wanted.as_dict()
    stored = parse_program((folder / "file.neff").read_bytes(), "x")
    assert stored.report["estimate"] == wanted.as_dict()["estimate"]
    assert stored.flags == ("--target=trn2", "--logical-nc-config=1", "--auto-cast=all")
    assert stored.graph == (folder / "m.pb").read_bytes()
    assert (folder / "log-neuron-cc.txt").read_text() == f"{compiled.report.long_text()}\n"


@pytest.mark.slow
def test_a_work_folder_gets_the_whole_report(folder):
    compiled = compile_file(arguments("--target=trn1", "--workdir=out"))
    names = {path.name for _, path in compiled.files}
    assert {"m.html", "m.json", "m.txt", "m-figures.json", "file.neff"} <= names
    assert '"schema": "compile/1"' in (folder / "out" / "m-figures.json").read_text()


@pytest.mark.usefixtures("folder")
def test_messages_depend_on_the_level():
    compiled = compile_file(arguments("--target=trn1"))
    assert messages(compiled, 30, ("ignored",)) == (["Compiler status PASS"], [])
    out, told = messages(compiled, 20, ("ignored",))
    assert out == [compiled.report.text(), "Compiler status PASS"]
    assert told == ["ignored"]
    assert messages(compiled, 40, ()) == (["Compiler status PASS"], [])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--output=none/x.neff",), r"cannot write none"),
        (("--logfile=.",), r"cannot write \."),
        (("--workdir=m.pb",), r"cannot write to the folder m\.pb: it is a file"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_work(words, message):
    with pytest.raises(BadInput, match=message):
        check_files(arguments("--target=trn1", *words))


def test_a_file_that_is_missing_is_refused_before_work(folder):
    (folder / "m.pb").unlink()
    with pytest.raises(BadInput, match=r"cannot read m\.pb"):
        check_files(arguments())


def test_nothing_is_written_where_the_graph_is_damaged(folder):
    path = folder / "m.pb"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(EmulatorError, match="the graph was cut off or changed"):
        compile_file(arguments())
    assert [each.name for each in folder.iterdir()] == ["m.pb"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output=./m.pb"], "--output=m.pb is the file of the graph"),
        (["--output=a", "--logfile=a"], "--logfile=a is the file of --output"),
        (["--logfile=m.pb"], "--logfile=m.pb is the file of the graph"),
    ],
)
def test_no_file_is_written_over_another(words, message):
    with pytest.raises(BadInput, match=f"{message}, which would be lost"):
        check_files(arguments("--target=trn1", *words))


def test_no_file_of_the_workdir_is_written_over_the_graph(folder):
    (folder / "m.pb").rename(folder / "m.txt")
    words = ["m.txt", "--framework=XLA", "--target=trn1"]
    with pytest.raises(BadInput, match=r"gets a m\.txt, which is the file of the graph"):
        check_files(CompileArguments.of([*words, "--workdir=."]))
    (folder / "w").mkdir()
    check_files(CompileArguments.of([*words, "--workdir=w"]))
    with pytest.raises(BadInput, match=r"gets a m\.json, which is the file of --output"):
        check_files(CompileArguments.of([*words, "--workdir=w", "--output=w/m.json"]))
