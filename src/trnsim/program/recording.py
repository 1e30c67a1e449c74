"""Programs: the recorded instruction stream of one NeuronCore, in columns.

What instructions share is stored once (`Checked`: equal operands up to their place in memory), so
that a record is a few integers an instruction and a program can be timed again, for this core or
for another set of constants, without its values.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnsim.isa import Cost, Dims, Engine, Instruction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnsim.arch import NeuronCore
    from trnsim.errors import SourceLine
    from trnsim.memory import Memory, Storage, Tile


@dataclass(frozen=True, slots=True)
class Checked:
    """An instruction that passed every check, without its bytes.

    Attributes:
        instruction: operands without storage, enough to price it again.
        dims: its axis lengths.
        engine: who executes it.
        cost: its price on the core that it was checked for.
    """

    instruction: Instruction
    dims: Dims
    engine: Engine
    cost: Cost

    @property
    def opcode(self) -> str:
        """Its name in nki.isa."""
        return self.instruction.opcode

    def describe(self) -> str:
        """Operands in a line, as a profiler shows them."""
        instruction = self.instruction
        return ", ".join(f"{name}={getattr(instruction, name)}" for name in instruction.operands)


@dataclass(slots=True)
class StorageUse:
    """A storage's life in the program: from its first write to its last use."""

    memory: Memory
    row_bytes: int
    name: str
    line: SourceLine | None
    first_write: int
    last_use: int


@dataclass
class Program:
    """The instructions of one NeuronCore in issue order.

    Attributes:
        core: the core that they were checked for.
        checked: distinct instructions; `which[i]` is the one of instruction i.
        lines: distinct source lines; `line_of[i]` is the one of instruction i, or -1.
        uses: what became of each on-chip storage that the kernel did not place itself.
    """

    core: NeuronCore
    checked: list[Checked] = field(default_factory=list[Checked])
    which: array[int] = field(default_factory=lambda: array("l"))
    line_of: array[int] = field(default_factory=lambda: array("l"))
    lines: list[SourceLine] = field(default_factory=list["SourceLine"])
    uses: dict[int, StorageUse] = field(default_factory=dict[int, StorageUse])
    _waits_for: array[int] = field(default_factory=lambda: array("l"))
    _waits_start: array[int] = field(default_factory=lambda: array("l", [0]))
    _line_index: dict[SourceLine, int] = field(default_factory=dict["SourceLine", int])

    def __len__(self) -> int:
        return len(self.which)

    def append(self, which: int, predecessors: Iterable[int], line: SourceLine | None) -> None:
        """Record one more instruction."""
        self.which.append(which)
        self._waits_for.extend(predecessors)
        self._waits_start.append(len(self._waits_for))
        index = -1
        if line is not None:
            index = self._line_index.setdefault(line, len(self.lines))
            if index == len(self.lines):
                self.lines.append(line)
        self.line_of.append(index)

    def instruction(self, index: int) -> Checked:
        """What instruction `index` is."""
        return self.checked[self.which[index]]

    def line(self, index: int) -> SourceLine | None:
        """The user's line that issued instruction `index`."""
        line_index = self.line_of[index]
        return None if line_index < 0 else self.lines[line_index]

    def predecessors(self, index: int) -> Sequence[int]:
        """The instructions that instruction `index` waits for."""
        return self._waits_for[self._waits_start[index] : self._waits_start[index + 1]]

    def note_use(self, index: int, reads: Iterable[Tile], writes: Iterable[Tile]) -> None:
        """Extend the lives of the on-chip storages that instruction `index` touches."""
        for tile in writes:
            storage = tile.storage
            use = self.uses.get(storage.serial)
            if use is not None:
                use.last_use = index
            elif storage.memory.is_on_chip and not storage.is_placed:
                self.uses[storage.serial] = _first_use(storage, index)
        for tile in reads:
            use = self.uses.get(tile.storage.serial)
            if use is not None:
                use.last_use = index


def _first_use(storage: Storage, index: int) -> StorageUse:
    return StorageUse(storage.memory, storage.pitch_bytes, storage.name, storage.line, index, index)
