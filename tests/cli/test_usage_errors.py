from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli import app as commands
from trnsim.cli.options import parser
from trnsim.cli.quantity_options import whole
from trnsim.cli.usage_errors import refusal


@pytest.fixture
def run():
    app = parser(name="trnsim")

    @app.command()
    def copy(
        source: Annotated[str, typer.Argument(help="Python files. Several.", metavar="FILE")],
        width: Annotated[int | None, whole("Columns, ...")] = None,
        length: Annotated[int, whole("Rows.", unit="tokens", example="2k")] = 7,
        kind: Annotated[str, typer.Option(metavar="KIND", help="HLO or text.")] = "hlo",
        folder: Annotated[str | None, typer.Option(metavar="DIR|FILE.html")] = None,
        is_fast: Annotated[bool, typer.Option("--fast/--slow")] = True,
    ):
        """Copy a file.

        Example: trnsim copy a.py --width 80
        """

    @app.command()
    def name(new: Annotated[str, typer.Option("--new", metavar="NAME")]):
        """Name a file."""

    return lambda words: CliRunner().invoke(app, words.split(), prog_name="trnsim")


@pytest.mark.parametrize(
    ("words", "reason", "fix"),
    [
        (
            "copy",
            "Missing argument 'FILE': Python files",
            "for example trnsim copy a.py --width 80",
        ),
        ("name", "Missing option '--new'", "trnsim name --help"),
        (
            "copy a --width",
            "Option '--width' requires an argument: columns, ...",
            "for example --width 80",
        ),
        (
            "copy a --length",
            "Option '--length' requires an argument: rows",
            "for example --length 2k",
        ),
        (
            "copy a --kind",
            "Option '--kind' requires an argument: HLO or text",
            "for example --kind hlo",
        ),
        (
            "copy a --folder",
            "Option '--folder' requires an argument",
            "write --folder DIR|FILE.html",
        ),
        ("copy a --fast=1", "Option '--fast' does not take a value", "write --fast alone"),
        (
            "copy a --length 2q",
            "Invalid value for '--length': '2q' has the unit 'q'; legal: k, M, B, T, Ki, Mi, Gi",
            "for example --length 2k",
        ),
        (
            "copy a --widht 2",
            "No such option: --widht",
            "perhaps --width; trnsim copy --help lists all options",
        ),
        ("copy a -q", "No such option: -q", "trnsim copy --help lists all options"),
        (
            "copi a",
            "No such command 'copi'; legal: copy, name",
            "perhaps trnsim copy; trnsim --help lists all commands",
        ),
        (
            "zzz",
            "No such command 'zzz'; legal: copy, name",
            "trnsim --help lists all commands",
        ),
        (
            "copy a b c",
            "Got unexpected extra arguments: b c",
            "leave them out; usage: trnsim copy [OPTIONS] FILE",
        ),
    ],
)
def test_each_kind_of_usage_error_has_its_own_fix(words, reason, fix, run):
    result = run(words)
    assert result.exit_code == 2
    assert result.stderr == f"trnsim: error: {reason}\n  fix: {fix}\n"


def test_more_commands_than_twelve_are_not_listed():
    told = CliRunner().invoke(commands, ["plaan"]).stderr
    assert told == (
        "trnsim: error: No such command 'plaan'\n"
        "  fix: perhaps trnsim plan; trnsim --help lists all commands\n"
    )


def test_an_error_of_no_command_has_no_fix():
    assert refusal(typer.BadParameter("it is wrong.")) == ("Invalid value: it is wrong", "")


@pytest.mark.parametrize(
    ("words", "name", "own_name"),
    [
        ("plan serve llama-3.1-8b --tp 4", "--tp", "--tensor-parallel-size"),
        ("plan layer llama-3.1-8b --tp=4", "--tp", "--tensor-parallel-size"),
        ("compile llama-3.1-8b --tensor-parallel-size 4", "--tensor-parallel-size", "--tp"),
        ("plan train llama-3.1-8b --data-parallel-size 4", "--data-parallel-size", "--dp"),
        ("prices compare --price spot", "--price", "--kind"),
    ],
)
def test_an_option_of_another_command_is_named_as_this_one_spells_it(words, name, own_name):
    result = CliRunner().invoke(commands, words.split())
    assert f"No such option: {name}\n  fix: perhaps {own_name}; " in result.stderr
