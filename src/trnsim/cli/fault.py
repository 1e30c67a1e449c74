"""`trnsim fault`: a hardware fault of the emulated instance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.cli.quantity_options import number, whole
from trnsim.cli.terminal import echo
from trnsim.errors import BadInput
from trnsim.formatting import counted
from trnsim.instance.state import hardware
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.reader import instance_of, read_all

app = parser()

_CLEAR = "clear"
_RESET = "reset"


_Kind = Annotated[
    str,
    typer.Argument(
        help="hbm-ecc, hang, dma or thermal; clear ends the faults that there are; reset also "
        "forgets them.",
        metavar="KIND",
    ),
]
_Device = Annotated[int | None, whole("The number of the device, as trnsim neuron-ls lists it.")]
_Core = Annotated[int | None, whole("A logical core of the device; default: all of them.")]
_LastsS = Annotated[
    float | None,
    number(
        "Seconds that the fault lasts; default: until it is cleared.",
        "--for",
        unit="s",
        example="30s",
    ),
]


@app.command()
def fault(
    kind: _Kind,
    device: _Device = None,
    core: _Core = None,
    lasts_s: _LastsS = None,
) -> None:
    """Inject a hardware fault into the emulated instance.

    Programs on the device meet it within a second, before their next launch, copy or exchange, as
    the error that AWS's runtime names; thermal has none, and programs go on. Counters and the log
    of the state have it at once.

    `clear` ends faults and keeps what they have counted. `reset` ends and forgets all: counters
    begin at 0 again and the log is empty, as where a driver was loaded anew.

    Example: trnsim fault hbm-ecc --device 3 --core 1 --for 30s
    """
    folder = state_folder()
    instance = instance_of(read_all(folder, listen_s=0))
    if kind not in (_CLEAR, _RESET):
        hardware.check_kind(kind)
    if device is not None:
        instance.device(device)
    if kind == _CLEAR:
        _refuse_options(kind, {"--core": core, "--for": lasts_s})
        count = hardware.clear(folder, device)
        echo(f"{counted(count, 'fault')} ended (emulated)")
        return
    if kind == _RESET:
        _refuse_options(kind, {"--device": device, "--core": core, "--for": lasts_s})
        count = hardware.reset(folder)
        echo(f"{counted(count, 'fault')} forgotten, counters are at 0 (emulated)")
        return
    if device is None:
        raise BadInput(f"trnsim fault {kind} needs a device", fix="--device 0")
    cores = instance.devices[device].cores
    if core is not None and not 0 <= core < cores:
        raise BadInput(
            f"--core {core}; legal on {instance.name} at LNC={instance.lnc}: 0 to {cores - 1}",
            fix="leave --core out for all of them",
        )
    if lasts_s is not None and lasts_s <= 0:
        raise BadInput(f"--for is {lasts_s:g}; legal: above 0 seconds", fix="write 30s or 500ms")
    new_fault = hardware.StoredFault(
        kind,
        device,
        core,
        time.time(),
        lasts_s,
        serial_number=instance.devices[device].serial_number,
    )
    stored_fault = hardware.inject(folder, new_fault)
    echo(hardware.log_line(stored_fault))


def _refuse_options(kind: str, options: Mapping[str, object]) -> None:
    """Raise `BadInput` if one of `options`, none of which `kind` takes, has a value."""
    option_names = [name for name, value in options.items() if value is not None]
    if option_names:
        raise BadInput(
            f"trnsim fault {kind} takes no {option_names[0]}", fix=f"leave {option_names[0]} out"
        )
