"""Injected faults: a rank that is killed, a memory that fails, a bad link.

`trnsim launch --fault` passes them to all ranks by TRNSIM_FAULTS. An injector checks them before
each step of a program. A fault strikes once: restarted ranks go on without it.

`trnsim fault` writes the same kinds into the state folder (`instance/state/hardware`). A process
reads it once a second (`device/watch`); faults of its cores are in `pending_faults`, which is
checked before each launch, copy and collective.

Source: aws-neuron-sdk neuron-runtime/nrt-troubleshoot.rst, HBM Uncorrectable.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.errors import BadInput, UndefinedBehavior
from trnsim.instance.cores import environment_number

if TYPE_CHECKING:
    from trnsim.instance.state.hardware import FaultKind, StoredFault

FAULTS_VARIABLE: Final = "TRNSIM_FAULTS"
RESTART_VARIABLE: Final = "TRNSIM_RESTART"
"""The number of restarts of the ranks."""
_SEPARATOR: Final = ";"
_FIX: Final = (
    "--fault rank=3,step=5 (killed), --fault hbm-ecc=rank:3,step=5 (its HBM fails; likewise hang, "
    "dma, thermal) or "
    '--fault "link=chip 0 to chip 1,factor=0.5" (0, or no factor: dead); of an adapter of one node '
    '--fault "link=instance 0, EFA 0, out"'
)
_SOURCE: Final = "aws-neuron-sdk neuron-runtime/nrt-troubleshoot.rst"


class HardwareFault(UndefinedBehavior, RuntimeError):
    """Hardware that failed by an injected fault; AWS leaves its state undefined from then on."""


@dataclass(frozen=True)
class LaunchFault:
    """A fault of `trnsim launch --fault`.

    Attributes:
        kind: "rank", "link", or one of the kinds of `instance/state/hardware`.
        rank: the rank that it strikes; -1 for a link.
        step: the step before which it strikes; the first is 1.
        link: the name of the link or EFA adapter, as in a report.
        factor: fraction of the link's bandwidth that is left.
    """

    kind: str
    rank: int = -1
    step: int = 0
    link: str = ""
    factor: float = 0.0


def parse(text: str) -> LaunchFault:
    """The fault that `text` describes.

    Raises:
        BadInput: it describes none.
    """
    first, *parts = text.split(",")
    kind, _, value = first.partition("=")
    settings: dict[str, str] = {}
    for part in parts:
        name, has_value, setting = part.strip().partition("=")
        if has_value:
            settings[name] = setting
        else:  # the names of a report's links have commas themselves
            value = f"{value}, {name}"
    try:
        if kind == "link" and value and settings.keys() <= {"factor"}:
            return LaunchFault(
                kind, link=value.strip(), factor=_factor(settings.get("factor", "0"))
            )
        if kind in _kinds() and value.startswith("rank:") and settings.keys() == {"step"}:
            return LaunchFault(
                kind, _number(value.removeprefix("rank:"), 0), _number(settings["step"], 1)
            )
        if kind == "rank" and settings.keys() == {"step"}:
            return LaunchFault(kind, _number(value, 0), _number(settings["step"], 1))
    except ValueError as error:
        raise BadInput(f"--fault {text!r}: {error}", fix=_FIX) from None
    raise BadInput(f"--fault {text!r} is no fault", fix=_FIX)


def _kinds() -> Mapping[str, FaultKind]:
    """The kinds of hardware faults, which are loaded when a fault is met."""
    from trnsim.instance.state.hardware import KINDS  # noqa: PLC0415  most processes meet none

    return KINDS


def _number(text: str, minimum: int) -> int:
    if not text.isdecimal() or int(text) < minimum:
        raise ValueError(f"{text!r} is no whole number of at least {minimum}")
    return int(text)


def _factor(text: str) -> float:
    factor = float(text)
    if not 0 <= factor <= 1:
        raise ValueError(f"factor {text} is not between 0 and 1")
    return factor


def variable_value(texts: Iterable[str]) -> str:
    """The value of TRNSIM_FAULTS for faults in the words of the command line."""
    return _SEPARATOR.join(texts)


def requested_faults() -> list[LaunchFault]:
    """The faults in TRNSIM_FAULTS."""
    texts = os.environ.get(FAULTS_VARIABLE, "").split(_SEPARATOR)
    return [parse(text) for text in texts if text]


def link_factors(faults: Iterable[LaunchFault]) -> dict[str, float]:
    """The fraction of bandwidth left of each link that has a fault."""
    return {fault.link: fault.factor for fault in faults if fault.kind == "link"}


class Injector:
    """The faults of one rank."""

    def __init__(self, faults: Iterable[LaunchFault], rank: int) -> None:
        self._faults = [fault for fault in faults if fault.rank == rank]

    def before_step(self, step: int) -> None:
        """Apply the faults that are due before a step.

        Raises:
            HardwareFault: the hardware fails.
        """
        for fault in self._faults:
            if fault.step == step and fault.kind == "rank":
                os.kill(os.getpid(), signal.SIGKILL)
            elif fault.step == step:
                for listener in listeners:
                    listener(fault.kind, None)
                raise_fault(fault.kind, f"on rank {fault.rank} before step {fault.step}")


listeners: Final[list[Callable[[str, StoredFault | None], None]]] = []
"""Listeners for faults that strike: called with the kind, and the stored fault if it is one."""

pending_faults: Final[dict[int, StoredFault]] = {}
"""Stored faults by the index of PyTorch's device that they strike; empty almost always."""


def strike_fault(index: int) -> None:
    """Apply the active fault of PyTorch's device `index`, if any.

    Callers check `pending_faults` first, which is cheap.

    Raises:
        HardwareFault: the hardware fails.
    """
    fault = pending_faults.get(index)
    if fault is None or not fault.is_active():
        return
    for listener in listeners:
        listener(fault.kind, fault)
    place = f"device {fault.device}" + ("" if fault.core is None else f", core {fault.core}")
    raise_fault(fault.kind, f"on {place} (neuron:{index})")


def raise_fault(kind: str, place: str) -> None:
    """Raise the error of a kind of fault; nothing is raised for a kind that programs survive.

    Raises:
        HardwareFault: the hardware fails.
    """
    fault_kind = _kinds()[kind]
    if fault_kind.status:
        raise HardwareFault(
            f"{fault_kind.status} {place}: {fault_kind.message}",
            fix="replace the instance, and go on from a checkpoint",
            source=_SOURCE,
        )


def injector() -> Injector:
    """The injector of this process; after a restart of the ranks it has no faults."""
    is_first = os.environ.get(RESTART_VARIABLE, "0") == "0"
    return Injector(requested_faults() if is_first else (), environment_number("RANK"))
