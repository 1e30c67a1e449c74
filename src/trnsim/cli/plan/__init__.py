"""``trnsim plan``: time and USD of training or serving, platform by platform. A command a file.

A command is imported when it is called, or its help is asked for: together they take as long to
import as a short plan takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand

from trnsim.cli.options import parser
from trnsim.cli.parsing import CommandGroup

COMMANDS: Final = ("train", "serve", "fleet", "infer", "collective", "layer")
"""The commands, each of which is a function of its name in a file of this room."""


class PlanCommands(CommandGroup):
    """The commands by name; until one is asked for, only its name exists."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in COMMANDS:
            self.add_command(TyperCommand(name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, from its file; None of another name."""
        del ctx
        return _command(cmd_name) if cmd_name in COMMANDS else None


def _command(name: str) -> Any:
    """A command of this room."""
    alone = parser()
    alone.command(name)(getattr(import_module(f"{__name__}.{name}"), name))
    return typer.main.get_command(alone)


app = parser(cls=PlanCommands, no_args_is_help=True)


@app.callback()
def plan() -> None:
    """Estimate time and USD of training or serving a model, platform by platform."""
