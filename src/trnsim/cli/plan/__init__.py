"""``trnsim plan``: time and USD of training or serving, platform by platform.

Each command is a module, imported when it is called or its help is printed: to import all takes as
long as a short plan.
"""

from __future__ import annotations

from typing import Final

from trnsim.cli.options import parser
from trnsim.cli.parsing import CommandsOfFiles

COMMANDS: Final = ("train", "serve", "fleet", "infer", "collective", "layer")
"""The commands: each is the function of its name in the module of that name."""


class PlanCommands(CommandsOfFiles):
    """The commands of `trnsim plan`."""

    room, names = __name__, COMMANDS


app = parser(cls=PlanCommands, no_args_is_help=True)


@app.callback()
def plan() -> None:
    """Estimate time and USD of training or serving a model, platform by platform."""
