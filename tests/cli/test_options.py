from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli.options import command, long_dtype, parser, short_dtype


@dataclass(frozen=True, kw_only=True)
class Copied:
    source: Annotated[Path, typer.Argument(metavar="FILE")]
    times: Annotated[int, typer.Option(help="How often.")] = 2
    kind: Annotated[str | None, typer.Option("--as")] = None


@pytest.mark.parametrize(
    ("short", "long"), [("bf16", "bfloat16"), ("fp16", "float16"), ("fp32", "float32")]
)
def test_a_type_has_the_name_of_plans_or_that_of_frameworks(short, long):
    assert [short_dtype(name) for name in (short, long)] == [short, short]
    assert [long_dtype(name) for name in (short, long)] == [long, long]
    assert (short_dtype("fp8"), long_dtype("x")) == ("fp8", "x")


def test_the_fields_of_a_dataclass_are_the_options_of_a_command():
    @command(Copied)
    def copy(given):
        """Copy a file."""
        typer.echo(given)

    app = parser()
    app.command()(copy)
    run = CliRunner().invoke
    told = run(app, ["--help"]).output
    assert "Copy a file." in told
    assert "How often.  [default: 2]" in told
    assert run(app, ["a.txt"]).output == f"{Copied(source=Path('a.txt'))}\n"
    given = Copied(source=Path("b.txt"), times=3, kind="text")
    assert run(app, ["b.txt", "--times", "3", "--as", "text"]).output == f"{given}\n"
    assert "Missing argument 'FILE'" in run(app, []).output
