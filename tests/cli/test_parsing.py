from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.options import parser


@pytest.fixture
def run():
    app = parser(name="trnsim")

    @app.command()
    def copy(
        source: Annotated[str, typer.Argument(help="A file.", metavar="FILE")],
        times: Annotated[int, typer.Option(min=1, metavar="COUNT")] = 1,
    ):
        """Copy a file."""
        typer.echo(f"{source} {times}")

    @app.command()
    def remove():
        """Remove everything."""

    return lambda *words: CliRunner().invoke(app, words, prog_name="trnsim")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["copy"], "Missing argument 'FILE': a file\n  fix: trnsim copy --help"),
        (["copy", "a", "--tims", "2"], "No such option: --tims\n  fix: perhaps --times; "),
        (["copy", "a", "--times", "0"], "Invalid value for '--times': "),
        (["cpy"], "No such command 'cpy'; legal: copy, remove\n  fix: perhaps trnsim copy; "),
    ],
)
def test_a_usage_error_is_as_all_errors(words, said, run):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"trnsim: error: {said}")


def test_a_group_lists_its_commands_and_a_command_runs(run):
    told = run("--help").output
    assert "Commands:\n  copy    Copy a file.\n  remove  Remove everything." in told
    assert run("copy", "a", "--times", "2").output == "a 2\n"


def test_the_usage_error_is_the_callers_where_it_asks_for_it():
    app = parser(name="trnsim")
    app.command()(lambda: None)
    with pytest.raises(typer.BadParameter.__mro__[1]):
        app(args=["--none"], standalone_mode=False)


def test_a_former_spelling_is_not_among_the_near_names():
    result = CliRunner().invoke(app, ["models", "--outpt", "x.csv"])
    assert "No such option: --outpt\n  fix: perhaps --output; trnsim models --help" in result.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--report", ""], "--report"),
        (["--report="], "--report"),
        (["--input", "a", "--input", ""], "--input"),
        ([""], "FILE"),
    ],
)
def test_an_empty_path_is_refused_by_its_name(words, name):
    app = parser(name="trnsim")

    @app.command()
    def copy(
        source: Annotated[Path, typer.Argument(metavar="FILE")] = Path("here"),
        report: Annotated[Path | None, typer.Option(metavar="DIR")] = None,
        inputs: Annotated[list[Path] | None, typer.Option("--input", metavar="FILE")] = None,
        title: str = "none",
    ):
        typer.echo(f"{source} {report} {inputs} {title}")

    result = CliRunner().invoke(app, words, prog_name="trnsim")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"trnsim: error: Invalid value for '{name}': '' names no file and no folder\n  fix: "
    )
    assert CliRunner().invoke(app, ["--report", ".", "--title", ""]).output == "here . None \n"
