"""`trnsim shell`: an emulated instance that a program steps into."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from trnsim.cli.on import on_option, one_platform
from trnsim.cli.options import Lnc, parser
from trnsim.cli.parsing import ENDS_AT_PROGRAM
from trnsim.foreign_text import terminal_text
from trnsim.formatting import counted
from trnsim.instance.shell import session

app = parser()


@app.command(context_settings=ENDS_AT_PROGRAM)
def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="The program and its arguments; default: your shell.", metavar="-- COMMAND..."
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        on_option(
            "TRNSIM_INSTANCE, else the smallest of the target chip", "--instance", is_single=True
        ),
    ] = None,
    lnc: Lnc = None,
) -> None:
    """Run a program, or your shell, where Neuron's clients find an instance's devices.

    On Linux it has /dev/neuron*, the driver's line in /proc/devices, the devices in sysfs with
    counters that follow what emulated programs do, the instance type in DMI, and neuron-ls and its
    like in /opt/aws/neuron/bin. None of it is visible outside, and nothing of it stays. Where the
    system has no private mounts, PATH and variables alone are set, and a line says what is missing.

    Example: trnsim shell --on trn2.48xlarge -- python train.py
    """
    instance_session = session.enter(one_platform(on).instance if on else None, lnc)
    if instance_session.notice:
        _say(instance_session.notice)
    if not command and os.isatty(2):
        model = instance_session.model
        devices = counted(len(model.devices), "device")
        cores = counted(model.cores, "logical core")
        _say(f"{model.name}, emulated: {devices}, {cores}")
    environment = session.variables(instance_session, lnc)
    raise SystemExit(session.become(instance_session, command or (), environment, _say))


def _say(text: str) -> None:
    with suppress(OSError):  # such as that of a full disk
        sys.stderr.write(terminal_text(f"trnsim: {text}\n"))
        sys.stderr.flush()
