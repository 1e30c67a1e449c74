"""The use of each device's HBM, in neuron-monitor's categories.

- tensors: tensors of the framework; while a kernel runs by `trnsim.run` or a plain call, its
  arguments and tensors in shared HBM.
- constants: arrays that are part of a program.
- model_code: the runtime's micro-code. AWS states no size of instructions, so they are left out.
- model_shared_scratchpad: the largest scratchpad of any loaded program, in whole pages: one program
  runs at a time, and all share one scratchpad.
- runtime_memory: 0, as AWS states no size.

A framework's program stays loaded until its process ends; a kernel outside of a framework is loaded
only while it runs.

Source: aws-neuron-sdk neuron-runtime/explore/device-memory.rst.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count as count_from
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

from trnsim.arch import makes_pairs
from trnsim.device import hbm
from trnsim.device.device_core import target
from trnsim.facts import count
from trnsim.instance.state.record import MEMORY, LoadedModel

if TYPE_CHECKING:
    from trnsim.program import Team


@dataclass(frozen=True, slots=True)
class _Running:
    """A running kernel.

    Attributes:
        number: its number among the programs of the process.
    """

    team: Team
    title: str
    number: int


_MIB: Final = 1 << 20
MICROCODE_BYTES: Final = count(
    96 * _MIB, "aws-neuron-sdk device-memory.rst, Overview: 96MB of a physical NeuronCore"
)
PAGE_BYTES: Final = count(
    64 * _MIB, "aws-neuron-sdk device-memory.rst, Contiguous shared scratchpad"
)
APART_PAGE_BYTES: Final = count(
    512 * _MIB,
    "aws-neuron-sdk device-memory.rst, Non-contiguous page allocations: the default at LNC=1 of "
    "chips with logical cores",
)


class Loadable(Protocol):
    """A program with the bytes of HBM that it needs beside the caller's tensors."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def constant_bytes(self) -> int:
        """Bytes of arrays that are part of it."""
        ...

    @property
    def scratchpad_bytes(self) -> int:
        """Bytes of tensors that are internal to it."""
        ...


_loaded_programs: Final[defaultdict[int, dict[Hashable, Loadable]]] = defaultdict(dict)
"""Programs of each device, by their keys."""
_running_kernels: Final[dict[tuple[int, int], _Running]] = {}
"""Running kernels outside of a framework, by thread and rank."""
_numbers: Final[dict[tuple[int, Hashable], int]] = {}
"""Numbers of programs, by device and key."""
_next_number: Final = count_from(1)
_load_counts: Final[Counter[int]] = Counter()
"""Programs that each device has loaded so far."""


def load(core: int, key: Hashable, program: Loadable) -> None:
    """Note that a program runs on neuron:`core`, and stays loaded; `key` identifies it."""
    programs = _loaded_programs[core]
    if key not in programs:
        _numbers[core, key] = next(_next_number)
        _load_counts[core] += 1
    programs[key] = program


def note_kernel_start(team: Team, title: str, rank: int) -> None:
    """Note that this thread begins to run a kernel on the device of a rank."""
    _running_kernels[get_ident(), rank] = _Running(team, title, next(_next_number))
    _load_counts[rank] += 1


def note_kernel_end() -> None:
    """Note that the kernels which this thread began to run are over."""
    thread = get_ident()
    for key in [key for key in list(_running_kernels) if key[0] == thread]:
        _running_kernels.pop(key, None)


def by_category(core: int, lnc: int) -> dict[str, float]:
    """The bytes of each category of `MEMORY` on neuron:`core`, of `lnc` physical cores."""
    memories = hbm.used_memories()
    kernels = [
        running.team.hbm for (_, rank), running in list(_running_kernels.items()) if rank == core
    ]
    programs = list(_loaded_programs[core].values()) if core in _loaded_programs else []
    tensors = memories[core].live_bytes if core < len(memories) else 0
    constants = sum(program.constant_bytes for program in programs)
    scratchpads = [program.scratchpad_bytes for program in programs]
    scratchpads += [kernel.scratchpad for kernel in kernels]
    page = APART_PAGE_BYTES if lnc == 1 and makes_pairs(target().core) else PAGE_BYTES
    category_bytes = {
        "tensors": tensors + sum(kernel.tensors for kernel in kernels),
        "constants": constants + sum(kernel.constants for kernel in kernels),
        "model_code": lnc * MICROCODE_BYTES,
        "model_shared_scratchpad": -(-max(scratchpads, default=0) // page) * page,
    }
    return {name: float(category_bytes.get(name, 0)) for name in MEMORY}


def loaded_models(core: int, number: int) -> list[LoadedModel]:
    """The programs that are loaded on neuron:`core`, the `number`-th core of the instance."""
    programs = list(_loaded_programs[core].items()) if core in _loaded_programs else []
    models = [
        LoadedModel(
            _numbers[core, key], program.name, number, program.constant_bytes, is_running=False
        )
        for key, program in programs
    ]
    return models + [
        LoadedModel(
            running.number, running.title, number, running.team.hbm.constants, is_running=True
        )
        for (_, rank), running in list(_running_kernels.items())
        if rank == core
    ]


def load_count(core: int) -> int:
    """The number of programs loaded on neuron:`core` so far."""
    return _load_counts[core]
