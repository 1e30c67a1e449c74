"""Calls of no framework, of which all is made up."""

from dataclasses import dataclass

import pytest

from trnsim.device.call_log import Scope, StepPhase
from trnsim.device.call_time import CallTime
from trnsim.errors import NotModelled
from trnsim.lower import Cost


@dataclass(frozen=True)
class MadeUp:
    """A call whose kernels take the given times; on trn1 twice as long.

    Attributes:
        name: its name.
        kernels_s: the time of each kernel; none for a call that no chip has a time for.
        missing: what has no time beside the kernels.
        is_one_launch: as of `CallTime`.
    """

    name: str
    kernels_s: tuple[float, ...] = (1e-3,)
    missing: str = ""
    is_one_launch: bool = False

    @property
    def operation(self):
        return self.name.rpartition("::")[2]

    def time(self, target):
        if not self.kernels_s:
            raise NotModelled(f"{self.name} has no time")
        factor = 2 if target == "trn1" else 1
        kernels = tuple(
            Cost(f"{self.operation}-{number}", factor * time_s, 1e-5, 10, 1e6, 256)
            for number, time_s in enumerate(self.kernels_s)
        )
        return CallTime(kernels, self.missing, self.is_one_launch)


@pytest.fixture(scope="session")
def made_up():
    """Makes a call: `made_up("aten::add", (1e-3, 2e-3))`."""
    return MadeUp


@pytest.fixture(scope="session")
def at():
    """Makes what a framework answers to where the program is: `at("encoder", "backward")`."""

    def make(module="", phase="forward"):
        return lambda: Scope(module, StepPhase(phase))

    return make
