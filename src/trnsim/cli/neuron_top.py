"""``trnsim neuron-top``: a screen of what emulated programs do now."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from trnsim.cli.options import parser
from trnsim.errors import BadInput
from trnsim.tools.monitor.config import all_groups
from trnsim.tools.monitor.user_monitor import user_monitor
from trnsim.version import VERSION

app = parser()


@app.command()
def neuron_top() -> None:
    """Show what emulated programs do now: cores, vCPUs, memory; the key q ends it.

    Keys: a and d or 1 to 9 choose a program, f shows operations a second, arrows, enter and x move
    in the tree of memory. In `trnsim shell` this is `neuron-top`.

    Example: trnsim neuron-top
    """
    screen = _screen()
    # Textual reads keys from stdin and draws on stderr.
    if not (os.isatty(0) and os.isatty(2)) or os.environ.get("TERM") == "dumb":
        raise BadInput(
            "neuron-top needs a terminal that it can draw on",
            fix="trnsim neuron-monitor prints the same figures as JSON",
        )
    # The screen reads reports less often than each group's period, so each report has all groups.
    screen.run(user_monitor(all_groups(period_s=1.0)).report, VERSION)


def _screen() -> Any:
    try:
        return import_module("trnsim.tools.top.screen")
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] not in {"rich", "textual"}:
            raise
        raise BadInput(
            f"{missing} is not installed", fix="pip install 'trnsim[platform]'"
        ) from None
