"""The command line: ``trnsim COMMAND``. One command per file; each prints plain aligned text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trnsim.cli import assess, claims, demo, explain, plan, profile, run
from trnsim.cli import compile as compile_
from trnsim.errors import EmulatorError

if TYPE_CHECKING:
    from trnsim.errors import SourceLine

__all__ = ["app", "main"]

app = typer.Typer(
    name="trnsim",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def trnsim() -> None:
    """A Trainium you can pip install: run its programs, estimate their time and their cost."""


app.command("demo")(demo.demo)
app.command("run", context_settings=run.SETTINGS)(run.run_script)
app.command("compile")(compile_.compile_model)
app.command("explain")(explain.explain)
app.command("assess")(assess.assess)
app.command("claims")(claims.claims)
app.add_typer(plan.app, name="plan")
app.add_typer(profile.app, name="profile")


def main() -> None:
    """Run the command line; an error of the user's making goes to stderr with exit status 2."""
    try:
        app(args=run.with_repeated_option(sys.argv[1:], "--input"))
    except EmulatorError as error:
        sys.stderr.write(f"trnsim: error: {_message(error)}\n")
        raise SystemExit(2) from None


def _message(error: EmulatorError) -> str:
    """The error as text; without its line where that is the launcher's or the parser's."""
    parts = [error.reason]
    if error.fix:
        parts.append(f"fix: {error.fix}")
    if error.source:
        parts.append(f"source: {error.source}")
    if error.line is not None and _is_users(error.line):
        parts.append(f"at {error.line}")
    return "\n  ".join(parts)


def _is_users(line: SourceLine) -> bool:
    """Whether a line belongs to the user's program, and not to what started this command."""
    file = Path(line.file)
    # Recent releases of typer carry click inside them; older ones need it as a package.
    if file == Path(sys.argv[0]) or {"typer", "click"} & {part.name for part in file.parents}:
        return False
    return file.suffix == ".py"
