"""The cores on which traced programs run: in turn, in the order of their loading, or as requested.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX NeuronCore Placement APIs.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final, SupportsIndex

from trnsim.device.device_core import visible_core, visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX NeuronCore Placement APIs"
DEFAULT: Final = -1
"""AWS's -1: as a first core the next core in turn, as a number of cores one."""


class CoresRefused(BadInput, ValueError):
    """A number of NeuronCores that a process does not have."""


@dataclass
class Placement:
    """The cores of a loaded program, which it uses in turn."""

    cores: tuple[int, ...]
    _calls: count[int] = field(default_factory=count, repr=False)

    def next_core(self) -> int:
        """The core of the next call."""
        return self.cores[next(self._calls) % len(self.cores)]


class _DefaultPlacement:
    """The placement of programs that are loaded without a core of their own choice.

    Attributes:
        requested: the first core and the number of cores within `placing`; None outside of it.
    """

    def __init__(self) -> None:
        self._loads = count()
        self.requested: tuple[int, int] | None = None

    def next_placement(self) -> Placement:
        """The placement of a program that is loaded now."""
        if self.requested is not None:
            return placement_of(*self.requested)
        return Placement((next(self._loads) % len(visible_cores()),))


default_placement: Final = _DefaultPlacement()


def placement_of(start_nc: int = DEFAULT, nc_count: int = DEFAULT) -> Placement:
    """`nc_count` cores from `start_nc` on; -1 for the next core in turn, and for one core.

    Raises:
        NoSuchCore: for a first core that the process does not have.
        CoresRefused: for a number of cores that it does not have.
    """
    require_numbers(start_nc=start_nc, nc_count=nc_count)
    cores = len(visible_cores())
    number = 1 if nc_count == DEFAULT else nc_count
    if start_nc != DEFAULT:
        first = visible_core(start_nc)
    elif number == 1 and default_placement.requested is None:
        first = default_placement.next_placement().cores[0]
    else:
        first = 0
    if not 1 <= number <= cores - first:
        raise CoresRefused(
            f"nc_count={nc_count} from NeuronCore {first} on; this process has {cores}, so legal: "
            f"-1, or 1 to {cores - first}",
            fix="set NEURON_RT_VISIBLE_CORES before the program starts, or take fewer",
            source=_SOURCE,
            line=program_line(),
        )
    return Placement(tuple(range(first, first + number)))


def require_numbers(**values: object) -> None:
    """Refuse arguments, by their names, that are no numbers.

    Raises:
        CoresRefused: for the first of them.
    """
    for name, value in values.items():
        if not isinstance(value, SupportsIndex):
            raise CoresRefused(
                f"{name}={value!r}; legal: a number, as NeuronCores are numbered from 0 on",
                fix=f"{name}=0" if name != "nc_count" else f"{name}=1",
                source=_SOURCE,
                line=program_line(),
            )


@contextmanager
def placing(start_nc: int = DEFAULT, nc_count: int = DEFAULT) -> Generator[None]:
    """Context in which programs are loaded to `nc_count` cores from `start_nc` on."""
    placement_of(start_nc if start_nc != DEFAULT else 0, nc_count)  # refuses absent cores
    before, default_placement.requested = default_placement.requested, (start_nc, nc_count)
    try:
        yield
    finally:
        default_placement.requested = before
