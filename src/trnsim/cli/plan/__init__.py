"""``trnsim plan``: time and USD of training or serving, platform by platform. A command a file.

A command is imported when it is called, or its help is asked for: together they take as long to
import as a short plan takes.
"""

from __future__ import annotations

from typing import Final

from trnsim.cli.options import parser
from trnsim.cli.parsing import CommandsOfFiles

COMMANDS: Final = ("train", "serve", "fleet", "infer", "collective", "layer")
"""The commands, each of which is a function of its name in a file of this room."""


class PlanCommands(CommandsOfFiles):
    """The commands of `trnsim plan`."""

    room, names = __name__, COMMANDS


app = parser(cls=PlanCommands, no_args_is_help=True)


@app.callback()
def plan() -> None:
    """Estimate time and USD of training or serving a model, platform by platform."""
