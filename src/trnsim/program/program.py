"""Programs: the recorded instruction stream of one NeuronCore, in columns.

Instructions that are equal up to the addresses of their operands share one `Checked`, so each
instruction costs a few integers, and a program can be timed again without its values, for this
core or for another set of constants.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.errors import IllegalInstruction, SourceLine
from trnsim.isa import Cost, Dims, Engine, Instruction
from trnsim.memory import Memory, Storage, Tile
from trnsim.memory.storage import next_serial
from trnsim.program.dependencies import Before
from trnsim.program.edges import Ordering
from trnsim.program.parts import Touches

_HBM = Memory.HBM


@dataclass(frozen=True, slots=True)
class Checked:
    """A distinct instruction that passed every check, without its data.

    Attributes:
        instruction: the instruction; it has no data, but its cost can be computed again.
        dims: its axis lengths.
        cost: its cost on the core that it was checked for.
        engine: the engine that executes it.
        is_spill: true if it moves data that exceed SBUF, and is no instruction of the kernel.
    """

    instruction: Instruction
    dims: Dims
    engine: Engine
    cost: Cost
    is_spill: bool = False

    @property
    def opcode(self) -> str:
        """The instruction's name in nki.isa."""
        return self.instruction.opcode

    def describe(self) -> str:
        """The operands on one line, as a profiler shows them."""
        instruction = self.instruction
        return ", ".join(f"{name}={getattr(instruction, name)}" for name in instruction.operands)


@dataclass(slots=True)
class StorageUse:
    """The live range of a storage in the program, and its traffic.

    Attributes:
        row_bytes: bytes of a partition on chip, of a row in HBM.
        name: the user's name for it, or "".
        line: the line that allocated it.
        first_write: index of the first instruction that wrote it; -1 if it was read before.
        last_use: index of the last instruction that accessed it.
        reads: number of instructions that read it (HBM only; not counted on chip).
        written_bytes: bytes that instructions wrote to it (HBM only).
        is_spill: true if it holds data that exceed SBUF (HBM only).
    """

    memory: Memory
    row_bytes: int
    nbytes: int
    name: str
    line: SourceLine | None
    first_write: int
    last_use: int
    reads: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    is_spill: bool = False


class Successors:
    """By instruction, its successors: the later instructions that have it as a predecessor.

    Attributes:
        counts: by instruction, its number of predecessors.
    """

    def __init__(self, before: array[int], starts: array[int]) -> None:
        """`before` has the predecessors of all instructions; those of i begin at ``starts[i]``."""
        predecessors = np.asarray(before)
        self.counts = np.diff(np.asarray(starts))
        owners = np.repeat(np.arange(len(self.counts)), self.counts)
        later = owners[np.argsort(predecessors, kind="stable")]
        ends = np.cumsum(np.bincount(predecessors, minlength=len(self.counts)))
        self._later = array("l", later.astype("l").tobytes())
        self._start = array("l", [0])
        self._start.frombytes(ends.astype("l").tobytes())

    def of(self, index: int) -> Sequence[int]:
        """The successors of instruction `index`, ascending."""
        return self._later[self._start[index] : self._start[index + 1]]


@dataclass
class Program:
    """The instructions of one NeuronCore in issue order.

    Attributes:
        core: the core that the instructions were checked for.
        checked: distinct instructions; instruction i is `checked[which[i]]`.
        lines: distinct source lines; instruction i is from `lines[line_of[i]]`, or -1 for none.
        uses: serial -> use of each storage whose address the kernel did not fix.
        tensor_of: the serial of the HBM tensor that instruction i moves, or -1.
        first_serial: lower bound of the serials of its own storages.
        touches: the on-chip tiles that each instruction accesses, of the storages in `uses`.
        as_issued: the program before memory reuse or spills changed it; None if they did not.
        ordering: the edges that the kernel adds to the dependences of its data.
        without_edges: the program before these edges added dependences; None if they did not.
    """

    core: NeuronCore
    checked: list[Checked] = field(default_factory=list[Checked])
    which: array[int] = field(default_factory=lambda: array("l"))
    line_of: array[int] = field(default_factory=lambda: array("l"))
    lines: list[SourceLine] = field(default_factory=list["SourceLine"])
    uses: dict[int, StorageUse] = field(default_factory=dict[int, StorageUse])
    tensor_of: array[int] = field(default_factory=lambda: array("l"))
    first_serial: int = field(default_factory=next_serial)
    touches: Touches = field(default_factory=Touches)
    as_issued: Program | None = None
    ordering: Ordering = field(default_factory=Ordering)
    without_edges: Program | None = None
    _waits_for: array[int] = field(default_factory=lambda: array("l"))
    _waits_start: array[int] = field(default_factory=lambda: array("l", [0]))
    _follows: array[int] = field(default_factory=lambda: array("l"))
    _follows_start: array[int] = field(default_factory=lambda: array("l", [0]))
    _line_index: dict[SourceLine, int] = field(default_factory=dict["SourceLine", int])

    def __len__(self) -> int:
        return len(self.which)

    def append(self, which: int, before: Before, line: SourceLine | None) -> None:
        """Append one instruction."""
        self.which.append(which)
        self._waits_for.extend(before.waits_for)
        self._waits_start.append(len(self._waits_for))
        self._follows.extend(before.follows)
        self._follows_start.append(len(self._follows))
        index = -1
        if line is not None:
            index = self._line_index.setdefault(line, len(self.lines))
            if index == len(self.lines):
                self.lines.append(line)
        self.line_of.append(index)

    @property
    def issued(self) -> Program:
        """The program as the kernel issued it, before memory reuse and spills."""
        return self if self.as_issued is None else self.as_issued

    @property
    def is_spilled(self) -> bool:
        """True if some of its data are moved to another memory and back."""
        return any(checked.is_spill for checked in self.checked)

    def timing_key(self) -> Hashable:
        """A key: programs with equal keys take the same time, on equal cores with equal peers."""
        columns = self.which, self._waits_for, self._waits_start, self._follows, self._follows_start
        kinds = tuple(
            (checked.instruction.signature(), tuple(checked.dims.items()))
            for checked in self.checked
        )
        return kinds, tuple(column.tobytes() for column in columns)

    def instruction(self, index: int) -> Checked:
        """The distinct instruction of which instruction `index` is an instance."""
        return self.checked[self.which[index]]

    def line(self, index: int) -> SourceLine | None:
        """The user's line that issued instruction `index`."""
        line_index = self.line_of[index]
        return None if line_index < 0 else self.lines[line_index]

    def waits_for(self, index: int) -> Sequence[int]:
        """The instructions that instruction `index` waits for."""
        return self._waits_for[self._waits_start[index] : self._waits_start[index + 1]]

    def follows(self, index: int) -> Sequence[int]:
        """Further instructions that instruction `index` may not overtake (`Before.follows`)."""
        return self._follows[self._follows_start[index] : self._follows_start[index + 1]]

    def waiters(self) -> Successors:
        """By instruction, the instructions that wait for it."""
        return Successors(self._waits_for, self._waits_start)

    def followers(self) -> Successors:
        """By instruction, the instructions that may not overtake it (`follows`)."""
        return Successors(self._follows, self._follows_start)

    def with_waits(self, after: Iterable[tuple[int, Collection[int]]]) -> Program:
        """This program with further dependences: (instruction, instructions before it), ascending.

        An instruction waits for instructions on other engines, and may not overtake any on its own.
        """
        remaining = iter(after)
        first = next(remaining, None)
        if first is None:
            return self
        program = self.with_before(
            (index, self._merged_before(index, others))
            for index, others in chain((first,), remaining)
        )
        program.as_issued = self.issued
        return program

    def with_before(self, before: Iterable[tuple[int, Before]]) -> Program:
        """This program with other dependences of some instructions, ascending by index."""
        waits_for = _ChangedLists(self._waits_for, self._waits_start)
        follows = _ChangedLists(self._follows, self._follows_start)
        for index, others in before:
            waits_for.change(index, others.waits_for)
            follows.change(index, others.follows)
        return replace(
            self,
            _waits_for=waits_for.values(),
            _waits_start=waits_for.starts(),
            _follows=follows.values(),
            _follows_start=follows.starts(),
        )

    def without_instructions(self) -> Program:
        """A program without instructions, with the distinct ones and lines of this program."""
        return Program(
            self.core,
            self.checked,
            lines=self.lines,
            first_serial=self.first_serial,
            _line_index=self._line_index,
        )

    def _merged_before(self, index: int, others: Iterable[int]) -> Before:
        """The dependences of an instruction, with further instructions added."""
        waits_for, follows = set(self.waits_for(index)), set(self.follows(index))
        checked, which = self.checked, self.which
        engine = checked[which[index]].engine
        if engine is Engine.dma:
            waits_for.update(others)
        else:
            for earlier in others:
                is_own = checked[which[earlier]].engine is engine
                (follows if is_own else waits_for).add(earlier)
        return Before(sorted(waits_for), sorted(follows - waits_for))

    def note_use(self, index: int, reads: Iterable[Tile], writes: Iterable[Tile]) -> None:
        """Extend the live ranges of the storages that instruction `index` accesses."""
        uses, tensor = self.uses, -1
        for tile in writes:
            storage = tile.storage
            use = uses.get(storage.serial)
            if use is None:
                self._refuse_earlier(tile)
                if storage.is_placed:
                    continue
                use = uses[storage.serial] = _first_use(storage, index, index)
            use.last_use = index
            if use.memory is _HBM:
                use.written_bytes += tile.nbytes
                tensor = storage.serial
        for tile in reads:
            storage = tile.storage
            use = uses.get(storage.serial)
            if use is None:
                self._refuse_earlier(tile)
                if storage.memory is not _HBM:
                    continue
                use = uses[storage.serial] = _first_use(storage, -1, index)
            use.last_use = index
            if use.memory is _HBM:
                use.reads += 1
                use.read_bytes += tile.nbytes
                tensor = storage.serial
        self.touches.note(reads, writes, uses)
        self.tensor_of.append(tensor)

    def _refuse_earlier(self, tile: Tile) -> None:
        """Refuse a tile of an earlier run.

        Raises:
            IllegalInstruction: its storage was allocated before this program.
        """
        storage = tile.storage
        if storage.serial < self.first_serial:
            raise IllegalInstruction(
                f"{tile} belongs to an earlier run of a kernel (allocated at {storage.line})",
                fix="return it in shared HBM from that run, and pass the array that comes back",
            )


class _ChangedLists:
    """The columns of a list for each instruction, with other lists for some, ascending by index.

    The values of instruction i begin at ``starts[i]``.
    """

    def __init__(self, values: array[int], starts: array[int]) -> None:
        self._old_values, self._old_starts = values, starts
        self._values, self._counts = array("l"), np.diff(np.asarray(starts))
        self._next_index = 0

    def change(self, index: int, values: Sequence[int]) -> None:
        """Give instruction `index` the list `values`."""
        starts = self._old_starts
        self._values += self._old_values[starts[self._next_index] : starts[index]]
        self._values.extend(values)
        self._counts[index] = len(values)
        self._next_index = index + 1

    def values(self) -> array[int]:
        """The values of all instructions, after the last change."""
        return self._values + self._old_values[self._old_starts[self._next_index] :]

    def starts(self) -> array[int]:
        """The start of each instruction's values, and the end of the last."""
        starts = array("l", [0])
        starts.frombytes(np.cumsum(self._counts).astype("l").tobytes())
        return starts


def _first_use(storage: Storage, first_write: int, index: int) -> StorageUse:
    return StorageUse(
        storage.memory,
        storage.pitch_bytes,
        storage.nbytes,
        storage.name,
        storage.line,
        first_write,
        index,
    )
