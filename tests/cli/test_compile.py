import sys

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli import compile as command
from trnsim.errors import BadInput

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")


def run(*arguments):
    return CliRunner().invoke(app, ["compile", *map(str, arguments)])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model.pt2"
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
    torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), path)
    return path


def test_a_program_is_compiled_for_every_chip_that_is_named(program, tmp_path):
    done = run(program, "--on", "trn1,trn2", "--report", tmp_path / "out")
    assert done.exit_code == 0, done.output
    for chip in ("trn1", "trn2"):
        assert f"model.pt2 on {chip}: " in done.output
        assert (tmp_path / "out" / f"compile-{chip}.json").is_file()


def test_flags_reach_the_compiler_after_those_of_the_environment(program, monkeypatch):
    monkeypatch.setenv("NEURON_CC_FLAGS", "--auto-cast=all --no_cache")
    monkeypatch.setenv("COLUMNS", "200")
    plain = run(program, "--flags", "--auto-cast=none").output
    cast = run(program).output
    assert "convert" not in plain
    assert "convert" in cast
    for output in (plain, cast):
        assert "neuronx-cc\n  --no-cache has no effect: no binaries are kept" in output


def test_a_flag_that_does_not_exist_is_refused_by_name(program, monkeypatch):
    caught = run(program, "--flags", "--autocast all").exception
    assert isinstance(caught, BadInput)
    assert "--flags: --autocast is no flag of neuronx-cc" in str(caught)
    monkeypatch.setenv("NEURON_CC_FLAGS", "--fast-math none")
    caught = run(program).exception
    assert "NEURON_CC_FLAGS: --fast-math is a flag of neuron-cc, the compiler for Inf1" in str(
        caught
    )


def test_without_a_report_nothing_is_written(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(program).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_how_to_export():
    assert "torch.export.save" in run("--help").output


def test_a_missing_file_is_named(tmp_path):
    assert isinstance(run(tmp_path / "none.pt2").exception, BadInput)


def test_without_pytorch_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match="needs PyTorch"):
        command._room()
