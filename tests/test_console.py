import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from trnsim import __main__, console

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts of sh")


@pytest.fixture
def ran(monkeypatch):
    calls = []
    monkeypatch.setattr(sys, "argv", ["neuronx-cc", "--version"])
    monkeypatch.setattr(os, "execv", lambda file, words: calls.append((str(file), words)))
    monkeypatch.setattr(__main__, "main", lambda: calls.append(("own", sys.argv[1:])))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [])
    monkeypatch.delenv("TRNSIM_CONSOLE", raising=False)
    monkeypatch.setenv("PATH", "")
    return calls


def script(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_is_the_command_of_its_name(ran, monkeypatch):
    console.neuronx_cc()
    monkeypatch.setattr(sys, "argv", ["x", "--command", "clean"])
    console.neuron_parallel_compile()
    assert ran == [
        ("own", ["neuronx-cc", "--version"]),
        ("own", ["neuron_parallel_compile", "--command", "clean"]),
    ]


def test_awss_program_on_path_wins(ran, tmp_path, monkeypatch):
    own = script(tmp_path / "a" / "neuronx-cc", "from trnsim.console import neuronx_cc")
    other = script(tmp_path / "b" / "neuronx-cc", "exit 0")
    monkeypatch.setenv("PATH", os.pathsep.join([str(own.parent), str(other.parent)]))
    console.neuronx_cc()
    assert ran[0] == (str(other), [str(other), "--version"])
    assert os.environ.pop("TRNSIM_CONSOLE") == "neuronx-cc"


def test_two_environments_with_trnsim_do_not_call_each_other(ran, tmp_path, monkeypatch):
    script(tmp_path / "a" / "neuronx-cc", "from trnsim.console import neuronx_cc")
    monkeypatch.setenv("PATH", str(tmp_path / "a"))
    assert console.other_program("neuronx-cc", os.environ["PATH"]) is None
    script(tmp_path / "a" / "neuronx-cc", "exit 0")
    monkeypatch.setenv("TRNSIM_CONSOLE", "neuronx-cc")  # it was started by one of ours
    console.neuronx_cc()
    assert [name for name, _ in ran] == ["own"]


def test_what_cannot_be_run_is_no_program(tmp_path):
    folder = tmp_path / "a"
    script(folder / "neuronx-cc", "exit 0").chmod(0o644)
    assert console.other_program("neuronx-cc", f"{folder}{os.pathsep}{tmp_path / 'none'}") is None


class Point:
    def __init__(self, name):
        self.dist = type("Distribution", (), {"name": name})()

    def load(self):
        return lambda: 7


def test_an_installed_package_of_awss_wins(ran, monkeypatch):
    points = [Point("trnsim")]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)
    console.neuronx_cc()
    assert [name for name, _ in ran] == ["own"]
    points.append(Point("neuronx-cc"))
    with pytest.raises(SystemExit) as ended:
        console.neuronx_cc()
    assert ended.value.code == 7


def test_the_package_declares_both_programs():
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert 'neuronx-cc = "trnsim.console:neuronx_cc"' in text
    assert 'neuron_parallel_compile = "trnsim.console:neuron_parallel_compile"' in text


def test_a_program_in_a_folder_called_trnsim_is_not_this_packages(tmp_path):
    folder = tmp_path / "trnsim"
    other = script(folder / "neuronx-cc", f"exec {folder}/python -m neuronxcc")
    assert console.other_program("neuronx-cc", str(folder)) == other


def test_without_a_path_no_program_of_the_working_folder_runs(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "neuronx-cc", "exit 0")
    console.neuronx_cc()
    assert [name for name, _ in ran] == ["own"]
