"""Capacity check: the tensors of a program that are live at the same time must fit.

A tensor without an address is live from its first write to its last use, as a compiler would
allocate it; a Python variable that merely refers to a tensor is not a use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnsim.errors import OutOfMemory
from trnsim.memory import Memory

if TYPE_CHECKING:
    from trnsim.program.program import Program, StorageUse

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment at which most bytes of a memory are live.

    Attributes:
        bytes_per_partition: live bytes at that moment.
        index: the instruction that is issued then.
        live: the storages live then, largest first.
    """

    bytes_per_partition: int
    index: int
    live: tuple[StorageUse, ...]


def peak(program: Program, memory: Memory) -> Peak:
    """The moment of `program` at which most bytes of `memory` are live."""
    uses = [use for use in program.uses.values() if use.memory is memory]
    changes = sorted(
        [(use.first_write, 1, use.row_bytes) for use in uses]
        # A storage is freed after its last use: at one instruction, starts come before ends.
        + [(use.last_use, 2, -use.row_bytes) for use in uses]
    )
    level, highest, at = 0, 0, 0
    for index, _, change in changes:
        level += change
        if level > highest:
            highest, at = level, index
    live = [use for use in uses if use.first_write <= at <= use.last_use]
    live.sort(key=lambda use: -use.row_bytes)
    return Peak(highest, at, tuple(live))


def check_capacity(program: Program, is_strict: bool = True) -> list[OutOfMemory]:
    """An error for each of SBUF and PSUM that is exceeded; it lists what is live, with its lines.

    Raises:
        OutOfMemory: the first of them, if `is_strict`.
    """
    found: list[OutOfMemory] = []
    core = program.core
    capacities = {
        Memory.SBUF: int(core.sbuf_partition_bytes),
        Memory.PSUM: core.psum_banks * core.psum_bank_bytes,
    }
    for memory, capacity in capacities.items():
        fullest = peak(program, memory)
        if fullest.bytes_per_partition <= capacity:
            continue
        error = _overfull(program, memory, capacity, fullest)
        if is_strict:
            raise error
        found.append(error)
    return found


def _overfull(program: Program, memory: Memory, capacity: int, fullest: Peak) -> OutOfMemory:
    rows = "".join(
        f"\n    {use.row_bytes:>8} bytes {use.name or 'tensor'} from {use.line}"
        for use in fullest.live[:_SHOWN]
    )
    more = len(fullest.live) - _SHOWN
    rest = f"\n    and {more} more" if more > 0 else ""
    return OutOfMemory(
        f"{memory.value} of {program.core.name} holds {capacity} bytes a partition; "
        f"{fullest.bytes_per_partition} are live at {program.line(fullest.index)}:{rows}{rest}",
        fix=f"tile the kernel so that at most {capacity} bytes a partition live at once; with "
        'capacity="warn" it runs, as if the compiler spilled the rest to HBM in no time',
        source=program.core.sbuf_partition_bytes.provenance.source,
        line=fullest.live[0].line,
    )
