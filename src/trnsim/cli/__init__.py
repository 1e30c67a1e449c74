"""The command line: ``trnsim COMMAND``. One command per file; each prints plain aligned text."""

from __future__ import annotations

import sys

import typer

from trnsim.cli import assess, claims, demo, explain, plan, profile, run
from trnsim.cli import compile as compile_
from trnsim.cli.faults import message
from trnsim.errors import EmulatorError

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
app.command("run", cls=run.RunCommand)(run.run_script)
app.command("compile")(compile_.compile_model)
app.command("explain")(explain.explain)
app.command("assess")(assess.assess)
app.command("claims")(claims.claims)
app.add_typer(plan.app, name="plan")
app.add_typer(profile.app, name="profile")


def main() -> None:
    """Run the command line; an error of the user's making goes to stderr with exit status 2."""
    try:
        app()
    except EmulatorError as error:
        sys.stderr.write(f"trnsim: error: {message(error)}\n")
        raise SystemExit(2) from None
