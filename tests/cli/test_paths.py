"""Every path that a command takes, with everything that a path can be instead of the right file."""

import errno
import io
import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from trnsim.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG, INVENTORY = EXAMPLES / "llama-3.1-8b.json", EXAMPLES / "inventory.csv"
KERNELS = EXAMPLES / "attention.py"
HEADER = "workload,model_config,kind,tokens_per_month,current_instance,usd_per_month\n"

READERS = {
    "run": ["run", "FILE"],
    "run --input": ["run", KERNELS, "--input", "FILE", "FILE", "FILE"],
    "compile": ["compile", "FILE"],
    "plan train": ["plan", "train", "FILE", "--on", "trn1"],
    "plan serve": ["plan", "serve", "FILE", "--on", "trn1"],
    "assess": ["assess", "FILE"],
    "assess, a model": ["assess", "inventory.csv"],
    "profile view": ["profile", "view", "FILE"],
    "profile summary": ["profile", "summary", "FILE"],
    "profile diff, before": ["profile", "diff", "FILE", "FILE"],
}
JSON = {name for name in READERS if name.startswith(("plan", "profile", "assess, a model"))}
NEEDS = {"compile": "torch"}


def archive():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("note.txt", "no model")
    return stream.getvalue()


CONTENTS = {
    "empty": b"",
    "blank": b" \n\n",
    "zeros": bytes(64),
    "binary": b"\x7fELF\x02\x01\x01\x00\xff\xfe\x00",
    "latin-1": "x = 'M\xfcll'\n".encode("latin-1"),
    "utf-16": "workload,model\n".encode("utf-16"),
    "archive": archive(),
    "cut off": b'{"hidden_size": 4096, ',
    "deep": b"[" * 100_000,
    "long number": b"9" * 5000,
    "array": b"[1, 2]\n",
    "string": b'"text"\n',
    "number": b"3\n",
    "null": b"null\n",
    "object": b"{}\n",
    "object of wrong types": b'{"hidden_size": "many", "format": 3, "profiles": 3}',
    "not a number": b'{"hidden_size": NaN}',
    "npy, cut off": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, "
    b"'shape': (9895604649984,), }".ljust(127)
    + b"\n",
    "csv, no columns": b"a,b\n1,2\n",
    "csv, no rows": HEADER.encode(),
    "csv, an open quote": HEADER.encode() + b'"a,b.json,train,1,p5.48xlarge,2\n',
}
PYTHON = ("null", "not a number", "csv, no columns", "csv, no rows")


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Runs a command, which must refuse: what it says."""

    def run(arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["trnsim", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr().err
        assert stopped.value.code == 2, said
        assert said.startswith("trnsim: error: "), said
        assert "Traceback" not in said
        return said

    return run


@pytest.fixture(params=READERS)
def reader(request, tmp_path):
    """A command, and the name of the file that it reads."""
    if request.param in NEEDS and find_spec(NEEDS[request.param]) is None:
        pytest.skip(f"needs {NEEDS[request.param]}")
    line = HEADER + "chat,FILE,serve,1e9,p5.48xlarge,80000\n"
    (tmp_path / "inventory.csv").write_text(line)
    return request.param, READERS[request.param], tmp_path / "FILE"


def test_a_missing_file_is_named(reader, refused):
    _, command, _ = reader
    assert "FILE" in refused(command)


def test_a_folder_in_place_of_a_file_is_named(reader, refused):
    _, command, path = reader
    path.mkdir()
    assert "FILE" in refused(command)


def test_a_file_in_place_of_a_folder_is_named(reader, refused):
    _, command, path = reader
    path.write_text("")
    inside = ["FILE/x.json" if word == "FILE" else word for word in command]
    if "FILE" in command:
        assert "FILE/x.json" in refused(inside)


def test_a_file_without_permission_is_named(reader, refused, monkeypatch):
    _, command, path = reader
    path.write_text("{}")

    def closing(opened):
        def closed(path, *arguments, **keywords):
            if Path(path).name == "FILE":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return opened(path, *arguments, **keywords)

        return closed

    monkeypatch.setattr(Path, "open", closing(Path.open))
    monkeypatch.setattr(os, "open", closing(os.open))
    assert "Permission denied" in refused(command)


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("content", CONTENTS)
def test_other_contents_are_refused(reader, refused, content):
    name, command, path = reader
    path.write_bytes(CONTENTS[content])
    if name == "run" and content in PYTHON:
        pytest.skip("that is a program, if one that fails")
    said = refused(command)
    assert "FILE" in said
    if name in JSON and content in ("latin-1", "binary", "utf-16"):
        assert "is no UTF-8 text" in said or "the file is UTF-16" in said


# Paths that are written

WRITERS = {
    "run --output": ["run", KERNELS, "--input", "q.npy", "q.npy", "q.npy", "--output", "PATH"],
    "assess --out": ["assess", INVENTORY, "--out", "PATH"],
}
FOLDERS = {
    "run --report": ["run", KERNELS, "--input", "q.npy", "q.npy", "q.npy", "--report", "PATH"],
    "compile --report": ["compile", "none.pt2", "--report", "PATH"],
    "demo --report": ["demo", "--report", "PATH/a.html"],
}


@pytest.fixture
def unused(monkeypatch):
    """Fails where a command computes before it has looked at its paths."""

    def ran(*_, **__):
        pytest.fail("the command ran, and would have lost what it computed")

    for name in (
        "trnsim.cli.script.call",
        "trnsim.cli.script.execute",
        "trnsim.cli.assess.assess_inventory",
        "trnsim.cli.demo.show_kernel",
    ):
        monkeypatch.setattr(name, ran)


@pytest.mark.usefixtures("unused")
@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (".", "Is a directory"),
        ("folder", "Is a directory"),
        ("none/o.npy", "No such file or directory"),
        ("file/o.npy", "Not a directory"),
        ("closed/o.npy", "Permission denied"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_at_once(
    command, given, reason, refused, tmp_path, monkeypatch
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr("trnsim.files.os.access", lambda path, _: "closed" not in str(path))
    arguments = [given if word == "PATH" else word for word in WRITERS[command]]
    assert f"cannot write {given}: {reason}" in refused(arguments)


@pytest.mark.usefixtures("unused")
@pytest.mark.parametrize("command", FOLDERS)
@pytest.mark.parametrize("given", ["file", "file/deep/er"])
def test_a_folder_that_cannot_be_made_is_refused_at_once(command, given, refused, tmp_path):
    if command.startswith("compile") and find_spec("torch") is None:
        pytest.skip("needs torch")
    (tmp_path / "file").write_text("mine")
    arguments = [str(word).replace("PATH", given) for word in FOLDERS[command]]
    assert f"cannot write to the folder {given}: " in refused(arguments)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_page_that_cannot_be_written_is_named(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("trnsim.cli.profile.load", lambda _: {})
    monkeypatch.setattr("trnsim.profile.report.html", lambda _: "page")
    (tmp_path / "file").write_text("")
    said = refused(["profile", "view", "x.json", "--output", "file/a.html"])
    assert "cannot write file/a.html: " in said


def test_numbers_of_the_wrong_kind_are_refused_by_name(refused, tmp_path):
    np.save(tmp_path / "FILE", np.zeros((512, 64)))
    (tmp_path / "FILE.npy").rename(tmp_path / "FILE")
    assert "argument `q` is float64" in refused(READERS["run --input"])
