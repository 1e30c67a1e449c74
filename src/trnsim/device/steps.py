"""The steps of a program, before which faults are injected and listeners called.

A step is a step of an optimizer; in a program without one, it is a synchronization with the device.
A program is assumed to have an optimizer once one has stepped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from trnsim.device import faults

STEP_VARIABLE: Final = "TRNSIM_STEP_FILE"
"""Variable for a file of three numbers: the step, 1 once a peer is lost, and 1 while waiting."""
_INT64: Final = struct.Struct("<q")


class StepCounter:
    """The steps of this process so far.

    Attributes:
        number: number of the present step; the first is 1.
        listeners: functions that are called before each step.
        has_work: true if the program has given the device work since it last waited (`note_work`).
    """

    def __init__(self) -> None:
        self.number = 0
        self.listeners: list[Callable[[], None]] = []
        self._optimizer_steps = 0
        self.has_work = False
        self._injector: faults.Injector | None = None

    @property
    def are_of_optimizers(self) -> bool:
        """True if an optimizer has stepped."""
        return self._optimizer_steps > 0

    def note_optimizer_step(self) -> None:
        """Count a step of an optimizer, before it begins.

        Raises:
            HardwareFault: for an injected fault.
        """
        if not self._optimizer_steps:
            self.number = 0  # what came before were no steps
        self._optimizer_steps += 1
        self._begin()

    def note_synchronization(self) -> None:
        """Count a synchronization as a step, if the program has no optimizer.

        Raises:
            HardwareFault: for an injected fault.
        """
        if not self._optimizer_steps:
            self._begin()

    def note_work(self) -> None:
        """Note new work for the device, for which the program does not wait."""
        self.has_work = True

    def note_wait(self) -> None:
        """Note a wait for a result: the first wait after new work is a synchronization.

        Raises:
            HardwareFault: for an injected fault.
        """
        if self.has_work:
            self.has_work = False
            self.note_synchronization()

    def _begin(self) -> None:
        self.number += 1
        tell_step(self.number)
        if self._injector is None:
            self._injector = faults.injector()
        self._injector.before_step(self.number)
        for listener in self.listeners:
            listener()


steps: Final = StepCounter()
"""The steps of this process."""


def are_watched() -> bool:
    """True if a launcher or an injected fault needs the steps of this process."""
    return bool(os.environ.get(STEP_VARIABLE) or os.environ.get(faults.FAULTS_VARIABLE))


def tell_step(number: int) -> None:
    """Write the number of the step to the launcher's file."""
    _tell(number, offset_bytes=0)


def tell_that_a_peer_is_lost() -> None:
    """Write that this process has lost a peer, so that its own end is a consequence."""
    _tell(1, offset_bytes=_INT64.size)


def tell_of_waiting(*, is_waiting: bool) -> None:
    """Write 1 to the launcher's file while this process waits for other ranks, else 0."""
    _tell(int(is_waiting), offset_bytes=2 * _INT64.size)


def _tell(number: int, offset_bytes: int) -> None:
    path = os.environ.get(STEP_VARIABLE)
    if path:
        with suppress(OSError), Path(path).open("r+b") as file:
            file.seek(offset_bytes)
            file.write(_INT64.pack(number))
