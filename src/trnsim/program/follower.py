"""Followers: comparisons of a run with a record, instruction by instruction, as it issues them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from trnsim.errors import SourceLine
from trnsim.isa import Instruction
from trnsim.memory import Memory, Storage, Tile
from trnsim.memory.storage import next_serial
from trnsim.program.plain import PlainStep
from trnsim.program.records import KernelRecord, Step, TileRef, storage_description
from trnsim.program.signatures import SignatureInfo

if TYPE_CHECKING:
    from trnsim.program.joint import AgreeingCores


class Follower:
    """Compares a run with a record while it issues instructions.

    Attributes:
        position: number of instructions that have agreed so far.
        plains: the plain steps of the record, None for others; () if the inputs differ.
    """

    def __init__(
        self,
        record: KernelRecord,
        inputs: Sequence[Storage],
        first_serial: int,
        agreeing_cores: AgreeingCores | None = None,
    ) -> None:
        """Follow a run whose storages have serial numbers from `first_serial` on.

        `agreeing_cores` are the cores of the launch, if there are several.
        """
        self.record = record
        self._agreeing_cores = agreeing_cores
        self.position = 0
        self._first_serial = first_serial
        self._numbers: dict[int, int] = {}
        self._storages: list[ref[Storage]] = []
        self._accesses: dict[Memory, dict[tuple[object, int], Any]] = {}
        self._are_inputs_alike = len(inputs) == record.inputs and all(
            map(self._may_stand_in, inputs, range(len(inputs)))
        )
        self.plains = record.plain if self._are_inputs_alike else ()

    def agrees(
        self,
        info: SignatureInfo,
        line: SourceLine | None,
        reads: list[Tile],
        writes: list[Tile],
        fences: list[Tile],
        after: tuple[int, ...],
    ) -> bool:
        """True if this is the record's next instruction; the follower then advances past it."""
        steps, position = self.record.steps, self.position
        if position == len(steps) or not self._are_inputs_alike:
            return False
        step = steps[position]
        is_alike = step.info is info and step.after == after
        if not is_alike or (step.line is not line and step.line != line):
            return False
        tiles = [*reads, *writes, *fences] if fences else reads + writes
        if len(tiles) != len(step.touches):
            return False
        known_number = self._numbers.get
        for tile, (number, layout, _, _) in zip(tiles, step.touches, strict=False):
            storage = tile.storage
            recorded_number = known_number(storage.serial)
            if recorded_number != number and (
                recorded_number is not None or not self._may_stand_in(storage, number)
            ):
                return False
            if tile.layout is not layout and tile.layout != layout:
                return False
        self.position = position + 1
        return True

    def next_plain(self, instruction: Instruction, frame: FrameType) -> PlainStep | None:
        """The record's next step, if it is plain and `instruction` agrees.

        `frame` is that which called the function of the front end that issues it.
        """
        plains, position = self.plains, self.position
        plain = plains[position] if position < len(plains) else None
        if (
            plain is None
            or not (plain.origin.matches_bytecode(frame) or plain.origin.matches_line(frame))
            or not plain.has_fields_of(instruction)
        ):
            return None
        has_tiles = self.has_direct if plain.direct else self.has_gathered
        return plain if has_tiles(plain, instruction) else None

    def has_direct(self, plain: PlainStep, instruction: Instruction) -> bool:
        """True if an instruction has the tiles of a step without vectors of indices."""
        operands, known_number = instruction.__dict__, self._numbers.get
        for name, number, layout in plain.direct:
            tile = operands[name]
            if not isinstance(tile, Tile) or tile.index is not None:
                return False
            if tile.layout is not layout and tile.layout != layout:
                return False
            storage = tile.storage
            recorded_number = known_number(storage.serial)
            if recorded_number != number and (
                recorded_number is not None or not self._may_stand_in(storage, number)
            ):
                return False
        return True

    def has_gathered(self, plain: PlainStep, instruction: Instruction) -> bool:
        """True if an instruction has the tiles of a step with vectors of indices."""
        storages, known_number = plain.storages_of(instruction), self._numbers.get
        if storages is None:
            return False
        for storage, tile in zip(storages, plain.tiles, strict=True):
            number, recorded_number = tile.number, known_number(storage.serial)
            if not storage.written.is_full and (tile.is_source or tile.shape is not None):
                return False  # an operand by indices that is not written has more to be checked
            if recorded_number != number and (
                recorded_number is not None or not self._may_stand_in(storage, number)
            ):
                return False
        return True

    def would_agree(
        self,
        info: SignatureInfo,
        line: SourceLine | None,
        reads: list[Tile],
        writes: list[Tile],
        fences: list[Tile],
        after: tuple[int, ...],
    ) -> bool:
        """The result of `agrees`, before the instruction is executed; the position stays."""
        position = self.position
        is_alike = self.agrees(info, line, reads, writes, fences, after)
        self.position = position
        return is_alike

    def is_complete(self) -> bool:
        """True if the run has issued the entire record, and the record is of an entire program."""
        record = self.record
        is_whole = len(record.steps) == len(record.program)
        return self._are_inputs_alike and is_whole and self.position == len(record.steps)

    def agreed_steps(self) -> Iterator[tuple[Step, list[Tile], list[Tile], list[Tile]]]:
        """(step, reads, writes, fences) of each instruction that agreed, on this run's storages.

        A freed storage is replaced by a twin: the run will not access it again.
        """
        storages = [self._stand_in(number) for number in range(len(self._storages))]
        for step in self.record.steps[: self.position]:
            tiles = [_tile_of(storages[touch.number], touch) for touch in step.touches]
            first_fence = step.reads + step.writes
            yield step, tiles[: step.reads], tiles[step.reads : first_fence], tiles[first_fence:]

    def _may_stand_in(self, storage: Storage, number: int) -> bool:
        """True if a storage at its first use corresponds to storage `number` of the record.

        The pair is then kept.
        """
        descriptions = self.record.descriptions
        is_next = number == len(self._storages) and number < len(descriptions)
        is_of_run = storage.serial >= self._first_serial  # of an earlier run: an error elsewhere
        if not (is_next and is_of_run) or storage_description(storage) != descriptions[number]:
            return False
        agreeing_cores, common = self._agreeing_cores, self.record.common
        if (
            agreeing_cores is not None
            and storage.is_shared
            and not agreeing_cores.is_same(common.get(number), storage.serial)
        ):
            return False
        self._numbers[storage.serial] = number
        self._storages.append(ref(storage))
        if storage.is_placed:
            self._accesses[storage.memory] = storage.accesses
        return True

    def _stand_in(self, number: int) -> Storage:
        storage = self._storages[number]()
        if storage is None:
            storage = self.record.storages[number].bare()
            storage.serial = next_serial()  # it stands for a storage of this run
            if storage.is_placed:  # its bytes belong to a memory that others use
                storage.accesses = self._accesses[storage.memory]
        return storage


def _tile_of(storage: Storage, touch: TileRef) -> Tile:
    tile = Tile(storage, touch.dtype, touch.pattern)
    tile.layout = touch.layout
    return tile
