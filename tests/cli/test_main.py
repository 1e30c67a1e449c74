import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import trnsim
from trnsim.cli import COMMANDS, GROUPS, app, main, module_of
from trnsim.version import VERSION


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


def test_the_help_has_every_command_once_below_its_heading():
    lines = CliRunner().invoke(app, ["--help"]).output.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)
    assert set(GROUPS) <= {line.rstrip(":") for line in lines}
    modules = {path.stem for path in Path(trnsim.cli.__file__).parent.glob("*.py")}
    with_app = [name for name in modules if name != "__init__" and _is_command(name)]
    assert sorted([*with_app, "plan"]) == sorted(name.replace("-", "_") for name in COMMANDS)


def _is_command(module):
    return hasattr(import_module(f"trnsim.cli.{module}"), "app")


@pytest.mark.parametrize(
    ("command", "others"),
    [
        ("plan.serve", ["cli.plan.train"]),
        ("run", ["decide", "estimate", "graph", "lower", "system", "workload"]),
    ],
)
def test_a_command_imports_no_room_of_others(command, others):
    names = [f"trnsim.{other}" for other in others]
    line = f"import sys, trnsim.cli.{command}; print({{*{names}}} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_the_version_is_that_of_the_package():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"trnsim {VERSION}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_each_shell(shell, monkeypatch):
    monkeypatch.setenv("_TRNSIM_COMPLETE", f"source_{shell}")
    result = CliRunner().invoke(app, [], prog_name="trnsim")
    assert "_TRNSIM_COMPLETE=complete" in result.output or "_TRNSIM_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trnsim cl", {"claims"}),
        ("trnsim plan tr", {"train"}),
        ("trnsim plan layer --ph", {"--phase"}),
    ],
)
def test_commands_and_options_are_completed(line, expected, monkeypatch):
    monkeypatch.setenv("_TRNSIM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    result = CliRunner().invoke(app, [], prog_name="trnsim")
    assert set(result.output.split()) == expected


def test_a_misspelled_command_is_answered_with_those_like_it():
    result = CliRunner().invoke(app, ["claimz"])
    assert result.exit_code == 2
    assert "No such command 'claimz'\n  fix: perhaps trnsim claims; " in result.output


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
