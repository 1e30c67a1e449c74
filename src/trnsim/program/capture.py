"""Capture: the instructions of a run with their operands, so that they can be executed again.

A program keeps distinct instructions and their dependences, not the address of each operand. A
capture keeps the addresses, on twins of the run's storages without bytes; `Executable` gives them
bytes. The instruction stream must not depend on values: a capture refuses the first instruction
that other values could change, or whose set of written elements they could change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from trnsim.dtypes import Array
from trnsim.errors import BadInput
from trnsim.isa import Instruction
from trnsim.isa.language.machine import Machine
from trnsim.memory import ScalarIndex, Storage, Tile


class Capture:
    """The instructions that a run has executed so far, with their operands.

    Attributes:
        instructions: the instructions in order, on the capture's own storages.
        places: the index of each in the program.
        storages: serial of a storage of the run -> its twin in the capture.
        initial_bytes: by serial, the bytes of storages with values from before the program.
        entered: the kernel's inputs, available after its return.
        result: the kernel's return value.
        is_broken: true if an instruction raised an error, which the kernel may have handled.
    """

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.places: list[int] = []
        self.storages: dict[int, Storage] = {}
        self.initial_bytes: dict[int, Array | None] = {}
        self.entered: Sequence[Tile] = ()
        self.result: object = None
        self.is_broken = False

    def execute(
        self, place: int, instruction: Instruction, reads: Sequence[Tile], machine: Machine
    ) -> None:
        """Execute instruction `place` of the program and keep it.

        Raises:
            BadInput: if the instruction depends on values.
            EmulatorError: any error of the instruction; it breaks the capture, not the kernel.
        """
        reason = _dependence_on_values(instruction, reads)
        if reason:
            refuse(reason)
        self.places.append(place)
        self.instructions.append(instruction.with_tiles(self._twin_tile))
        try:
            instruction.execute(machine)
        except BaseException:
            self.is_broken = True
            raise

    def _twin_tile(self, tile: Tile) -> Tile:
        """A tile, moved to the capture's twin of its storage."""
        index = tile.index
        if index is not None and not isinstance(index, ScalarIndex):
            index = replace(index, source=self._twin_tile(index.source))
        bare = Tile(self._twin(tile.storage), tile.dtype, tile.pattern, index)
        bare.layout = tile.layout
        return bare

    def _twin(self, storage: Storage) -> Storage:
        twin = self.storages.get(storage.serial)
        if twin is None:
            if storage.written.is_full and not storage.is_placed:
                self.initial_bytes[storage.serial] = storage.data
            twin = self.storages[storage.serial] = storage.bare()
        return twin


def refuse(reason: str) -> NoReturn:
    """Raise `BadInput` at the kernel's line: the kernel cannot be recorded."""
    raise BadInput(
        f"a kernel cannot be recorded where {reason}: with other values it may do something else",
        fix="call the kernel by trnsim.run, which calls its Python each time",
    )


def _dependence_on_values(instruction: Instruction, reads: Sequence[Tile]) -> str:
    """The reason that an instruction's effect or written elements depend on values, or ""."""
    if instruction.registers_read() or instruction.registers_written():
        return f"{instruction.opcode} uses a register"
    tiles = [tile for _, tile in instruction.tiles()]
    if any(tile.index is not None for tile in tiles):
        certain = tiles
    else:
        looked_at = (getattr(instruction, name) for name in instruction.written_flags_used)
        certain = [*reads, *looked_at]
    for tile in certain:
        if not tile.storage.written.covers(tile.footprint, tile.dtype.itemsize):
            return f"{instruction.opcode} uses {tile}, of which some elements were never written"
    return ""
