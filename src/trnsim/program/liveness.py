"""Capacity: the tensors of a program that are live at the same time must fit.

A tensor without an address is live from its first write to its last use, as a compiler would
allocate it; a Python variable that merely refers to a tensor is not a use. The tensors to which the
kernel gives addresses share one storage, which is all of their memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from trnsim.errors import OutOfMemory
from trnsim.memory import Memory, capacity_bytes, capacity_source
from trnsim.program.edges import apply_edges
from trnsim.program.memory_reuse import add_reuse_waits
from trnsim.program.program import Program, StorageUse
from trnsim.program.spill import NEXT, Spill, insert_spills

_MOST_TENSORS = 8
"""Maximum number of kinds of live tensors that an error lists."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The instant at which most bytes of a memory are live.

    Attributes:
        bytes_per_partition: live bytes at that instant.
        index: the instruction that is issued then.
        live: the storages live then, largest first.
    """

    bytes_per_partition: int
    index: int
    live: tuple[StorageUse, ...]


def peak(program: Program, memory: Memory) -> Peak:
    """The instant of `program` at which most bytes of `memory` are live."""
    uses = [use for use in program.uses.values() if use.memory is memory]
    changes = sorted(
        [(use.first_write, 1, use.row_bytes) for use in uses]
        # A storage is freed after its last use: at one instruction, starts come before ends.
        + [(use.last_use, 2, -use.row_bytes) for use in uses]
    )
    level, highest_level, peak_index = 0, 0, 0
    for index, _, change in changes:
        level += change
        if level > highest_level:
            highest_level, peak_index = level, index
    live_uses = [use for use in uses if use.first_write <= peak_index <= use.last_use]
    live_uses.sort(key=lambda use: -use.row_bytes)
    return Peak(highest_level, peak_index, tuple(live_uses))


def fit_programs(
    programs: Sequence[Program], capacity_policy: str
) -> tuple[list[Program], tuple[OutOfMemory, ...]]:
    """The programs of a launch with edges and spills as AWS's compiler has them, and the errors.

    Each memory of a core that is exceeded gives an error.

    A tensor that reuses bytes of another gets a dependence on that tensor's accesses, so the live
    data fit in SBUF and in PSUM in every order in which the instructions may start.

    Args:
        programs: the programs of all cores.
        capacity_policy: "spill" to move the excess of SBUF to HBM, and of PSUM to SBUF, and back;
            "warn" to leave the programs unchanged; "raise" to refuse them.

    Raises:
        OutOfMemory: if SBUF or PSUM is exceeded without spills, or by a single instruction.
    """
    programs = [apply_edges(program) for program in programs]
    if capacity_policy == "warn":
        return list(programs), tuple(
            error for program in programs for error in capacity_errors(program).values()
        )
    programs_that_fit: list[Program] = []
    errors: list[OutOfMemory] = []
    for program in programs:
        written_by_others = _serials_written_by(peer for peer in programs if peer is not program)
        program_that_fits, spill_errors = _fit(
            program, written_by_others, may_spill=capacity_policy == "spill"
        )
        programs_that_fit.append(program_that_fits)
        errors += spill_errors
    return programs_that_fit, tuple(errors)


def _fit(
    program: Program, written_by_others: Collection[int], *, may_spill: bool
) -> tuple[Program, list[OutOfMemory]]:
    """The program with spills and dependences on reused bytes, and an error for each spill."""
    memories_that_fit: list[Memory] = []
    spill_errors: list[OutOfMemory] = []
    for memory in (Memory.PSUM, Memory.SBUF):  # data spilled from PSUM need room in SBUF
        error = _capacity_error(program, memory)
        if error is None:
            memories_that_fit.append(memory)
            continue
        if not may_spill:
            raise error
        spill = insert_spills(program, written_by_others, memory)
        spill_errors.append(_spill_warning(program, memory, spill))
        program = spill.program
    return add_reuse_waits(program, memories_that_fit), spill_errors


def _serials_written_by(programs: Iterable[Program]) -> set[int]:
    """The serials of the tensors in HBM that `programs` write."""
    return {
        serial for program in programs for serial, use in program.uses.items() if use.written_bytes
    }


def capacity_errors(program: Program) -> dict[Memory, OutOfMemory]:
    """An error for each of SBUF and PSUM that is exceeded: the live tensors, with their lines."""
    errors = {memory: _capacity_error(program, memory) for memory in (Memory.SBUF, Memory.PSUM)}
    return {memory: error for memory, error in errors.items() if error is not None}


def _capacity_error(program: Program, memory: Memory) -> OutOfMemory | None:
    """The error for a memory that is exceeded, else None."""
    core = program.core
    capacity, fullest = capacity_bytes(core, memory), peak(program, memory)
    if fullest.bytes_per_partition <= capacity:
        return None
    return OutOfMemory(
        _overfull_text(program, memory, capacity, fullest),
        fix=f'{_tiling_fix(capacity)}; with capacity="spill" it runs, and the time of the spills '
        "is estimated",
        source=capacity_source(core, memory),
        line=fullest.live[0].line,
    )


def _tiling_fix(capacity: int) -> str:
    """The remedy: to tile the kernel."""
    return f"tile the kernel so that at most {capacity} bytes a partition live at once"


def _overfull_text(program: Program, memory: Memory, capacity: int, fullest: Peak) -> str:
    """The overflow of a memory in words, with its live tensors."""
    counts = Counter((use.row_bytes, use.name or "tensor", use.line) for use in fullest.live)
    groups = list(counts.items())[:_MOST_TENSORS]
    rows = "".join(
        f"\n    {row_bytes:>8} bytes {name} from {line}{f', {number} times' * (number > 1)}"
        for (row_bytes, name, line), number in groups
    )
    hidden_count = len(fullest.live) - sum(number for _, number in groups)
    rest = f"\n    and {hidden_count} more" if hidden_count > 0 else ""
    return (
        f"{memory.value} of {program.core.name} holds {capacity} bytes a partition; "
        f"{fullest.bytes_per_partition} are live at {program.line(fullest.index)}:{rows}{rest}"
    )


def _spill_warning(program: Program, memory: Memory, spill: Spill) -> OutOfMemory:
    """The error that reports a spill, at the line of the largest spilled tensor."""
    capacity, fullest = capacity_bytes(program.core, memory), peak(program, memory)
    text = "nothing, as parts of these tensors suffice at any time"
    if spill.largest is not None:
        text = (
            f"{spill.saved_bytes:,} bytes saved to {NEXT[memory].value} and "
            f"{spill.reloaded_bytes:,} reloaded in {spill.transfers:,} transfers, "
            f"most of them of {spill.largest.name or 'the tensor'} from {spill.largest.line}"
        )
    return OutOfMemory(
        f"{_overfull_text(program, memory, capacity, fullest)}\n"
        f"  AWS's compiler spills what has no room. Its choice is not public; estimated: {text}",
        fix=_tiling_fix(capacity),
        source="memory-hierarchy-overview.rst, note on capacity",
        line=(spill.largest or fullest.live[0]).line,
    )
