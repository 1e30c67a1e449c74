"""Core contexts: where instructions are issued, checked, executed and recorded.

Execution happens at issue, so a kernel can be printed from and stepped through. The current
context is a context variable, so that each thread has its own.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trnsim.errors import InternalError, UninitializedRead, user_line
from trnsim.isa.machine import Machine
from trnsim.memory import CoreMemory, Tile
from trnsim.program.dependencies import DependencyTable
from trnsim.program.recording import Checked, Program

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from trnsim.arch import NeuronCore
    from trnsim.isa import Instruction


class Observer(Protocol):
    """What walks a program while it is issued: timing, hazards."""

    def issued(self, index: int, checked: Checked, predecessors: Sequence[int]) -> None:
        """Instruction `index` has been executed and recorded."""


class CoreContext:
    """One emulated NeuronCore at work.

    Attributes:
        core: what it is.
        memory: its memories.
        program: what it has been asked to do so far.
        has_values: False in shape-only mode.
    """

    def __init__(
        self, core: NeuronCore, *, has_values: bool = True, observers: tuple[Observer, ...] = ()
    ) -> None:
        self.core = core
        self.has_values = has_values
        self.memory = CoreMemory(core, has_values=has_values)
        self.program = Program(core)
        self._observers = observers
        self._machine = Machine(core)
        self._dependencies = DependencyTable()
        self._known: dict[tuple[object, ...], int] = {}

    def issue(self, instruction: Instruction) -> None:
        """Check, execute and record `instruction`.

        Raises:
            EmulatorError: whatever the instruction violates, with the user's line.
        """
        indices = [source for _, tile in instruction.tiles() for source in tile.index_tiles()]
        for tile in indices:
            self._refuse_unreadable(instruction, tile)
        resolved = instruction.resolved() if self.has_values else instruction
        # What an out-of-bounds index skips is issued all the same, and touches its indices alone.
        instruction = resolved or instruction
        reads, writes = _accesses(instruction) if resolved else ([], [])
        reads += indices
        which = self._check(instruction)
        if self.has_values and resolved:
            for tile in reads:
                self._refuse_unreadable(instruction, tile)
            # Infinities and NaN are values to a NeuronCore, not warnings.
            with np.errstate(all="ignore"):
                instruction.execute(self._machine)
            for tile in instruction.written_tiles():
                tile.mark_written()
        self._record(which, reads, writes)

    def _record(self, which: int, reads: list[Tile], writes: list[Tile]) -> None:
        checked = self.program.checked[which]
        index = len(self.program)
        predecessors = self._dependencies.predecessors(index, checked.engine, reads, writes)
        ordered = sorted(predecessors)
        self.program.append(which, ordered, user_line())
        self.program.note_use(index, reads, writes)
        for observer in self._observers:
            observer.issued(index, checked, ordered)

    def _refuse_unreadable(self, instruction: Instruction, tile: Tile) -> None:
        """Raise where a tile holds what nothing wrote, or what another tensor overwrote."""
        if not self.has_values:
            return
        if not tile.is_written():
            raise UninitializedRead(
                f"{instruction.opcode} reads {tile}, of which no instruction has written every "
                f"element (allocated at {tile.storage.line})",
                fix="write the whole tile first: nisa.dma_copy, nisa.memset or a computation",
                source="nki_simulator.rst, Uninitialized Memory Detection",
            )
        culprit = tile.storage.overwritten_by(tile.box)
        if culprit is not None:
            raise UninitializedRead(
                f"{instruction.opcode} reads {tile} (allocated at {tile.storage.line}), whose "
                f"bytes a tensor at an overlapping address has overwritten since (allocated at "
                f"{culprit.line})",
                fix="place one of the two at another address, or read before overwriting",
                source="nki.language.ndarray, address",
            )

    def _check(self, instruction: Instruction) -> int:
        """Number of the instruction among the distinct ones; equal ones are checked once."""
        signature = instruction.signature()
        try:
            which = self._known.get(signature)
        except TypeError:  # an array or a list where a tile belongs: `verify` says which
            instruction.verify(self.core)
            raise
        if which is None:
            dims = instruction.verify(self.core)
            outline = instruction.outline()
            cost = outline.cost(self.core, dims)
            engine = outline.chosen_engine(self.core)
            which = self._known[signature] = len(self.program.checked)
            self.program.checked.append(Checked(outline, dims, engine, cost))
        return which


def _accesses(instruction: Instruction) -> tuple[list[Tile], list[Tile]]:
    """The tiles that it reads and the tiles that it writes, all within their storages."""
    reads: list[Tile] = []
    writes: list[Tile] = []
    for operand, tile in instruction.tiles():
        _ = tile.box
        if operand.access != "write":
            reads.append(tile)
        if operand.access != "read":
            writes.append(tile)
    return reads, writes


_current: ContextVar[CoreContext | None] = ContextVar("trnsim_core", default=None)


def current_core() -> CoreContext:
    """The context in which the running kernel issues.

    Raises:
        InternalError: outside a kernel.
    """
    context = _current.get()
    if context is None:
        raise InternalError("an instruction was issued outside a kernel")
    return context


def has_current_core() -> bool:
    """Whether a kernel is running."""
    return _current.get() is not None


@contextmanager
def issuing_to(context: CoreContext) -> Generator[CoreContext]:
    """Make `context` the current one."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
