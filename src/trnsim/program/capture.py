"""Capture: the instructions of a run with their operands, so that they can be executed again.

A program keeps distinct instructions and their dependences, not the address of each operand. A
capture keeps the addresses, on copies of the run's storages without bytes ("twins"); `Executable`
allocates the bytes.

Data reach the instruction stream in one way only: as integers that instructions read from memory,
into registers and scalars, or as the index of a tile. These integers are the capture's guards.
While they are the same, so are all addresses, loop counts and decisions that come from them, and
with these the dependences and the time. What a vector of indices picks is an input of its
instruction. Where the elements that are written depend on values, the storage is tracked: its
written elements are tracked and checked again in each execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NoReturn

from trnsim.dtypes import Array
from trnsim.errors import BadInput
from trnsim.isa import Instruction, OobMode, RegisterLoad, VirtualRegister
from trnsim.isa.language.declaration import WRITE_ACCESSES
from trnsim.isa.language.machine import Machine
from trnsim.memory import ScalarIndex, Storage, Tile


class Capture:
    """The instructions that a core has executed so far, with their operands.

    Attributes:
        instructions: the instructions in order, on the capture's own storages.
        places: the index of each in the program.
        guards: by number of an instruction, the integers that it reads into registers.
        storages: serial of a storage of the run -> its twin in the capture.
        initial_bytes: by serial, the bytes of storages with values from before the program.
        tracked: serials of storages of which values decide the written elements.
        inputs: the kernel's inputs, available after its return.
        result: the kernel's return value.
        is_broken: true if an instruction raised an error, which the kernel may have handled.
    """

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.places: list[int] = []
        self.guards: dict[int, tuple[int, ...]] = {}
        self.storages: dict[int, Storage] = {}
        self.initial_bytes: dict[int, Array | None] = {}
        self.tracked: set[int] = set()
        self.inputs: Sequence[Tile] = ()
        self.result: object = None
        self.is_broken = False

    def for_other_core(self) -> Capture:
        """A capture for another core of the launch, with the same storages."""
        other = Capture()
        other.storages, other.initial_bytes = self.storages, self.initial_bytes
        other.tracked = self.tracked
        return other

    def execute(
        self, place: int, instruction: Instruction, reads: Sequence[Tile], machine: Machine
    ) -> None:
        """Execute instruction `place` of the program and keep it.

        Raises:
            BadInput: if its written elements depend on values, and it has an address.
            EmulatorError: any error of the instruction; it breaks the capture, not the kernel.
        """
        for tile in _partly_written_tiles(instruction, reads):
            if tile.storage.is_placed:
                refuse_recording(
                    f"{instruction.opcode} uses {tile}, of which some elements were never written, "
                    "at an address that the kernel fixed"
                )
            self.tracked.add(tile.storage.serial)
        twin = self._with_values(instruction.with_tiles(self._twin_tile))
        number = len(self.instructions)
        target_registers = instruction.registers_written()
        if reads or not target_registers:
            self.places.append(place)
            self.instructions.append(twin)
        try:
            instruction.execute(machine)
        except BaseException:
            self.is_broken = True
            raise
        if reads and target_registers:
            self.guards[number] = tuple(register.value for register in target_registers)

    def guard(self, place: int, indices: Sequence[Tile]) -> None:
        """Guard the integers in memory that address the operands of instruction `place`.

        Raises:
            BadInput: for an index that is no integer.
        """
        for tile in indices:
            if tile.dtype.is_float:
                refuse_recording(f"the index {tile} is no integer")
            self.guards[len(self.instructions)] = (int(tile.array.reshape(-1)[0]),)
            self.places.append(place)
            self.instructions.append(RegisterLoad(VirtualRegister(), self._twin_tile(tile)))

    def _with_values(self, instruction: Instruction) -> Instruction:
        """`instruction` with registers of its own: their values now, and new ones to write."""
        for name, access in instruction.registers.items():
            register = getattr(instruction, name)
            if isinstance(register, VirtualRegister):
                new_register = register.duplicate() if access == "read" else VirtualRegister()
                setattr(instruction, name, new_register)
            elif access == "write":
                setattr(instruction, name, copy(register))
        return instruction

    def _twin_tile(self, tile: Tile) -> Tile:
        """The same tile of the capture's twin of its storage."""
        index = tile.index
        if index is not None and not isinstance(index, ScalarIndex):
            index = replace(index, source=self._twin_tile(index.source))
        twin = Tile(self._twin_of(tile.storage), tile.dtype, tile.pattern, index)
        twin.layout = tile.layout
        return twin

    def _twin_of(self, storage: Storage) -> Storage:
        twin = self.storages.get(storage.serial)
        if twin is None:
            if storage.written.is_full and not storage.is_placed:
                self.initial_bytes[storage.serial] = storage.data
            twin = self.storages[storage.serial] = storage.bare()
        return twin


def refuse_recording(reason: str) -> NoReturn:
    """Raise `BadInput` at the kernel's line: the kernel cannot be recorded."""
    raise BadInput(
        f"a kernel cannot be recorded where {reason}: with other values it may do something else",
        fix="call the kernel by trnsim.run, which calls its Python each time",
    )


def _partly_written_tiles(instruction: Instruction, reads: Sequence[Tile]) -> list[Tile]:
    """The partly written tiles of which values decide the elements that are written afterwards.

    They are tiles that the instruction reads or whose written flags it uses, and tiles that it may
    leave partly written: by a vector of indices, or by rows that it skips.
    """
    flagged = [getattr(instruction, name) for name in instruction.written_flags_used]
    changed = [tile for operand, tile in instruction.tiles() if operand.access in WRITE_ACCESSES]
    if getattr(instruction, "oob_mode", None) is OobMode.skip:
        flagged += changed
    flagged += [tile for tile in changed if tile.index is not None]
    return [
        tile
        for tile in (*reads, *flagged)
        if not tile.storage.written.covers(tile.footprint, tile.dtype.itemsize)
    ]
