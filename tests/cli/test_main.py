import subprocess
import sys

import pytest
from typer.testing import CliRunner

from trnsim.cli import _message, app, main
from trnsim.errors import BadInput, SourceLine


def test_an_error_of_the_user_goes_to_stderr_with_status_two(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trnsim", "plan", "train", "none.json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("trnsim: error: none.json: No such file or directory\n  fix: ")


def test_a_bug_propagates(monkeypatch):
    monkeypatch.setattr("trnsim.cli.plan.read", lambda _: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["trnsim", "plan", "train", "none.json"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_the_line_of_a_kernel_is_shown_and_the_launchers_is_not():
    user = BadInput("what", source="a page", line=SourceLine("kernel.py", 3))
    assert _message(user) == "what\n  source: a page\n  at kernel.py:3"
    launcher = BadInput("what", line=SourceLine(sys.argv[0], 8))
    assert _message(launcher) == "what"


@pytest.mark.parametrize(
    "command",
    [[], ["claims"], ["plan"], ["plan", "train"], ["plan", "serve"], ["assess"], ["explain"]],
)
def test_help_teaches(command):
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    if command and command != ["plan"]:
        assert f"Example: trnsim {' '.join(command)}" in result.output


def test_the_installed_command_answers():
    code = "from trnsim.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "claims"], capture_output=True, text=True, check=True
    )
    assert "34 claims" in done.stdout
