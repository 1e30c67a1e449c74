from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli.help_text import help_text
from trnsim.cli.options import parser

HELP = """Say something, in a sentence that is longer than a narrow terminal.

Example: trnsim say "good morning" --to everybody --loudly --again and-again

With a long label: trnsim say x

Begin with:
  trnsim say hi  a word
  trnsim say "a sentence of words"  many words
"""
AT_44 = """\
Usage: say [OPTIONS] WORDS [MORE...]

  Say something, in a sentence that is
  longer than a narrow terminal.

  Example: trnsim say "good morning" \\
             --to everybody --loudly \\
             --again and-again

  With a long label:
    trnsim say x

Begin with:
  trnsim say hi  a word
  trnsim say "a sentence of words"
                 many words

Arguments:
  WORDS    What.
  MORE...  More.

Options:
  --output NAME  Whom.  [default: nobody]
  --help         Show this message and exit."""


@pytest.fixture
def told(monkeypatch):
    app = parser()

    @app.command(help=HELP)
    def say(
        words: Annotated[str, typer.Argument(help="What.", metavar="WORDS")],
        more: Annotated[list[str] | None, typer.Argument(help="More.", metavar="[MORE]...")] = None,
        to: Annotated[
            str, typer.Option("--output", "--out", help="Whom.", metavar="NAME")
        ] = "nobody",
    ):
        typer.echo(f"{words} {more} {to}")

    def of(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        command = typer.main.get_command(app)
        return help_text(command, command.context_class(command, info_name="say"))

    of.app = app
    return of


def test_a_group_shows_the_first_example_of_its_commands(monkeypatch):
    app = parser()

    @app.command()
    def first():
        """Do a thing without an example."""

    @app.command()
    def second():
        """Do another.

        Example: trnsim group second --now
        """

    monkeypatch.setenv("COLUMNS", "80")
    command = typer.main.get_command(app)
    told = help_text(command, command.context_class(command, info_name="group"))
    assert "  second  Do another.\n\n  Example: trnsim group second --now\n\nOptions:" in told


def test_a_help_has_usage_prose_examples_arguments_and_options(told):
    assert told(44) == AT_44


@pytest.mark.parametrize("columns", [36, 40, 60, 100, 300])
def test_no_line_is_wider_than_the_terminal(columns, told):
    assert max(map(len, told(columns).splitlines())) <= min(columns, 100)


def test_a_former_name_is_read_and_not_listed(told):
    assert CliRunner().invoke(told.app, ["a", "--out", "b"]).output == "a None b\n"
    assert "--out," not in told(80)
