import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import trnsim
from trnsim.cli import COMMANDS, app, main, module_of


def test_an_error_of_the_user_goes_to_stderr_with_status_two(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trnsim", "plan", "train", "none.json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        "trnsim: error: cannot read none.json: No such file or directory\n  fix: "
    )


def test_a_bug_propagates(monkeypatch):
    monkeypatch.setattr("trnsim.cli.plan.train.read", lambda _: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["trnsim", "plan", "train", "none.json"])
    with pytest.raises(ZeroDivisionError):
        main()


@pytest.mark.parametrize(
    "command",
    [[], ["claims"], ["plan"], ["plan", "train"], ["plan", "serve"], ["assess"], ["explain"]],
)
def test_help_teaches(command):
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    if command and command != ["plan"]:
        assert f"Example: trnsim {' '.join(command)}" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(command):
    own = get_command(import_module(module_of(command)).app)
    assert own.get_short_help_str(limit=1000) == COMMANDS[command]


def test_a_misspelled_command_is_answered_with_those_like_it():
    result = CliRunner().invoke(app, ["claimz"])
    assert result.exit_code == 2
    assert "No such command 'claimz'. Did you mean 'claims'?" in result.output


@pytest.mark.slow
def test_the_installed_command_answers():
    code = "from trnsim.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "claims"], capture_output=True, text=True, check=True
    )
    assert "70 claims" in done.stdout


@pytest.mark.slow_cases("command1", "command2")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk that Linux has")
@pytest.mark.parametrize("command", [["--help"], ["neuron-ls", "-j"], ["neuron-monitor"]])
def test_output_that_cannot_be_written_is_one_line(command, tmp_path):
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "trnsim", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
            env=os.environ | {"TRNSIM_STATE": str(tmp_path), "TRNSIM_INSTANCE": "trn2.3xlarge"},
        )  # fmt: skip
    said = ran.stderr.removeprefix("emulated by trnsim\n")
    assert said == "trnsim: error: cannot write the output: No space left on device\n"
    assert ran.returncode == 1


STARTS = [[sys.executable, "-m", "trnsim"], [Path(sys.executable).with_name("trnsim")]]


@pytest.mark.slow
@pytest.mark.parametrize("command", STARTS, ids=["module", "script"])
def test_ctrl_c_while_the_command_line_is_imported_is_no_traceback(command, tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    ran = subprocess.run(
        [*command, "chips"], env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_no_module_asks_for_an_installed_distribution_of_trnsim():
    package = Path(trnsim.__file__).parent
    asking = [file for file in package.rglob("*.py") if 'version("trnsim")' in file.read_text()]
    assert asking == []
