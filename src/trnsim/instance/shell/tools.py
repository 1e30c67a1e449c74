"""AWS's tools by their bare names: scripts that call `trnsim neuron-ls` and its like."""

from __future__ import annotations

import shlex
import sys
from typing import Final

FOLDER: Final = "/opt/aws/neuron/bin"
TOOLS: Final = (
    *("neuron-ls", "neuron-top", "nccom-test"),
    *("neuron-monitor", "neuron-monitor-prometheus.py", "neuron-monitor-k8s-info.py"),
)
"""Tools that are commands of trnsim of the same name, without the suffix."""


def scripts(python: str = sys.executable) -> dict[str, str]:
    """The scripts by name; each runs the command with the interpreter `python`."""
    return {name: _script(name, python) for name in TOOLS}


def _script(name: str, python: str) -> str:
    command = f"exec {shlex.quote(python)} -P -m trnsim {name.removesuffix('.py')}"
    if not name.endswith(".py"):
        return f'#!/bin/sh\n{command} "$@"\n'
    # AWS's is a Python file, so `python FILE` works too: to Python the second line is a string.
    python_part = (
        f"import os, sys\nos.execv({python!r}, [{python!r}, '-P', '-m', 'trnsim', "
        f"{name.removesuffix('.py')!r}, *sys.argv[1:]])\n"
    )
    return f"#!/bin/sh\n''''{command} \"$@\" #'''\n{python_part}"
