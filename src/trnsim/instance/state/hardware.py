"""Hardware faults of the emulated instance: injected faults, their counters and their log.

A fault is a file in the folder `faults` of the state. Counters count those files: an error of the
hardware stays counted after the program that met it has ended, until `reset`. The file `neuron.log`
has a line for each in the form of the driver's log, marked as emulated.

Source: aws-neuron-sdk neuron-runtime/nrt-troubleshoot.rst, Hardware Errors; the names of
NEURON_HW_ERR come from src/k8/neuron-problem-detector.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, Final

from trnsim.document.values import json_line
from trnsim.errors import BadInput
from trnsim.files import append, write
from trnsim.instance import INSTANCE_ID

FOLDER: Final = "faults"
LOG: Final = "neuron.log"


@dataclass(frozen=True)
class FaultKind:
    """A kind of hardware fault.

    Attributes:
        status: the runtime's status with its number, or "" where programs go on.
        log_name: the name after NEURON_HW_ERR= in the driver's log.
        counter: the counter of neuron-monitor's hardware group that it adds to, or "".
        execution: the status under which neuron-monitor counts an execution that the fault ends;
            "" where programs go on.
        error: the kind of error under which neuron-monitor counts the fault.
    """

    status: str
    message: str
    log_name: str
    counter: str
    execution: str
    error: str


KINDS: Final[Mapping[str, FaultKind]] = {
    "hbm-ecc": FaultKind(
        "NRT_EXEC_HW_ERR_HBM_UE (1201)",
        "Uncorrectable HBM memory error is detected. Execution results may be invalid.",
        "HBM_UNCORRECTABLE_ERROR",
        "mem_ecc_uncorrected",
        "completed_with_err",
        "hardware",
    ),
    "hang": FaultKind(
        "NRT_TIMEOUT (5)",
        "execution timeout (30000 ms), waiting for execution completion notification",
        "HANG_ON_COLLECTIVES",
        "",
        "timed_out",
        "hardware",
    ),
    "dma": FaultKind(
        "NRT_EXEC_HW_ERR_DMA_ABORT (1203)",
        "DMA TX engine 0 is in an abort state",
        "DMA_ERROR",
        "",
        "completed_with_err",
        "hardware",
    ),
    "thermal": FaultKind("", "the device is throttled", "THERMAL", "", "", "transient"),
}
"""Kinds of faults by their name in `trnsim fault` and `trnsim launch --fault`."""
COUNTERS: Final[tuple[str, ...]] = (
    "mem_ecc_corrected",
    "mem_ecc_uncorrected",
    "sram_ecc_uncorrected",
    "sram_ecc_corrected",
)


@dataclass(frozen=True)
class StoredFault:
    """An injected fault of a device, as stored in its file.

    Attributes:
        kind: one of `KINDS`.
        core: the logical core within the device; None for all of them.
        at: the time of its beginning, in seconds since 1970.
        for_s: its duration in seconds; None until it is cleared, 0 for a single event.
        is_cleared: whether it was cleared by the user.
        name: name of its file.
        serial_number: serial number of the device, as in sysfs.
    """

    kind: str
    device: int
    core: int | None
    at: float
    for_s: float | None
    is_cleared: bool = False
    name: str = ""
    serial_number: str = ""

    def is_active(self) -> bool:
        """True if it affects its device now.

        If its beginning lies in the future, the clock was set back: a fault with a duration is then
        over.
        """
        if self.is_cleared:
            return False
        return self.for_s is None or 0 <= time.time() - self.at < self.for_s

    def strikes(self, core_in_device: int, device: int) -> bool:
        """True if it affects a core."""
        return device == self.device and self.core in (None, core_in_device)


def inject(folder: Path, fault: StoredFault) -> StoredFault:
    """Write a fault into the state folder, and its line into the log.

    Returns:
        The fault with the name of its file.

    Raises:
        BadInput: the folder cannot be written to.
    """
    stored_fault = replace(fault, name=f"{time.time_ns()}-{secrets.token_hex(4)}.json")
    path = folder / FOLDER / stored_fault.name
    write(path, json_line(stored_fault) + "\n", parents=True)
    try:
        append(folder / LOG, log_line(stored_fault))
    except BadInput:
        path.unlink(missing_ok=True)  # a fault that is refused has no effect
        raise
    return stored_fault


def log_line(fault: StoredFault) -> str:
    """The driver's line in the log, as a node's problem detector looks for it."""
    kind = KINDS[fault.kind]
    core = "" if fault.core is None else f" nc-id={fault.core}"
    action = " action=TERMINATE_INSTANCE" if kind.counter else ""
    return (
        f"{fault.at:.6f} trnsim: emulated: NEURON_HW_ERR={kind.log_name} instance-id={INSTANCE_ID} "
        f"hostname=emulated nd-id={fault.device}{core} serial-num={fault.serial_number}{action}"
    )


def injected_faults(folder: Path) -> list[StoredFault]:
    """All faults so far, in order; other files are skipped."""
    faults = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        with suppress(OSError, ValueError, TypeError, OverflowError, RecursionError):
            row = json.loads(path.read_bytes())
            if _is_fault(row):
                faults.append(StoredFault(**(row | {"name": path.name})))
    return faults


def _is_fault(row: Any) -> bool:
    """True if the content of a file is a fault."""
    if not isinstance(row, dict) or row.get("kind") not in KINDS:
        return False
    numbers: list[Any] = [row.get("device"), row.get("core") or 0]
    seconds: list[Any] = [row.get("at"), row.get("for_s") or 0.0]
    return all(type(number) is int and number >= 0 for number in numbers) and all(
        map(isfinite, seconds)
    )


def clear(folder: Path, device: int | None = None) -> int:
    """End the active faults of a device, or of all, and return their number; counters stay.

    Raises:
        BadInput: the folder cannot be written to.
    """
    ended_faults = [
        row for row in injected_faults(folder) if row.is_active() and device in (None, row.device)
    ]
    for row in ended_faults:
        write(folder / FOLDER / row.name, json_line(replace(row, is_cleared=True)) + "\n")
    return len(ended_faults)


def reset(folder: Path) -> int:
    """Remove all faults and empty the log, as a reload of the driver does; return their number.

    Raises:
        BadInput: the folder cannot be written to.
    """
    count = len(injected_faults(folder))
    for path in (folder / FOLDER).glob("*.json"):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"cannot remove {path}: {error.strerror}") from error
    if (folder / LOG).exists():
        write(folder / LOG, "")
    return count


def counters(faults: Iterable[StoredFault], devices: int) -> list[dict[str, int]]:
    """neuron-monitor's counters of ECC events of each device."""
    counts: list[dict[str, int]] = [dict.fromkeys(COUNTERS, 0) for _ in range(devices)]
    for fault in faults:
        counter = KINDS[fault.kind].counter
        if counter and 0 <= fault.device < devices:
            counts[fault.device][counter] += 1
    return counts


def changed_ns(folder: Path) -> int:
    """Time in ns at which the folder of faults changed last; 0 without a folder."""
    try:
        return os.stat(folder / FOLDER).st_mtime_ns  # noqa: PTH116  cheap: it is called every second
    except OSError:
        return 0


def check_kind(name: str) -> None:
    """Refuse a name that no kind of fault has.

    Raises:
        BadInput: `name` is not in `KINDS`.
    """
    if name not in KINDS:
        similar_kinds = get_close_matches(name[:100], KINDS, 1)
        raise BadInput(
            f"fault {name!r} is not known; legal: {', '.join(KINDS)}",
            fix=f"perhaps {similar_kinds[0]}"
            if similar_kinds
            else "for example trnsim fault hang --device 0",
        )
