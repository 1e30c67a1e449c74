"""Plain steps: instructions of a record that are compared field by field.

Most instructions have numbers, tuples of them, and tiles at fixed addresses or by a vector of
indices. Such an instruction equals the record's if the numbers are equal, and the tiles have the
same layouts in the same storages. Then the signatures are equal too: the new one need not be
computed, and the record's checks hold for it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import eq, is_, itemgetter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from trnsim.errors import SourceLine, is_of_user, user_line
from trnsim.isa import Engine, Instruction
from trnsim.memory import Storage, Tile, TileLayout, VectorIndex
from trnsim.program.signatures import SignatureInfo, is_constant


class StepOrigin:
    """The place in the user's program that issued a step: a line, and its offset in the bytecode.

    Python decodes a line number from a table; the offset costs nothing, so it is compared first.
    Functions of trnsim may lie between the instruction and the user's line, such as `nl.add`.

    Attributes:
        line: the line.
    """

    __slots__ = ("_place", "line")

    def __init__(self, line: SourceLine | None) -> None:
        self.line = line
        # The codes of trnsim's functions, then the code of the user's function and the offset.
        self._place: tuple[Sequence[CodeType], CodeType, int] | None = None

    def matches_bytecode(self, frame: FrameType) -> bool:
        """True if `frame`, or a caller, is at the bytecode offset that `matches_line` kept."""
        place = self._place
        if place is None:
            return False
        inner_codes, code, offset = place
        for function in inner_codes:
            caller = frame.f_back
            if frame.f_code is not function or caller is None:
                return False
            frame = caller
        return frame.f_code is code and frame.f_lasti == offset

    def matches_line(self, frame: FrameType) -> bool:
        """True if the user's line at `frame` is this line; keeps its bytecode offset."""
        if (
            user_line(depth=len(("matches_line", "next_plain", "issue_next", "its caller")))
            != self.line
        ):
            return False
        inner_codes: list[CodeType] = []
        place: FrameType | None = frame
        while place is not None and not is_of_user(place.f_code):
            inner_codes.append(place.f_code)
            place = place.f_back
        if place is not None:
            self._place = tuple(inner_codes), place.f_code, place.f_lasti
        return True


class InstructionCall:
    """A call of a function of `nki.isa` by keywords, which issued a plain step.

    A call at the same place of the bytecode makes the same instruction but for its tiles, if its
    other operands have the same types and values.
    """

    __slots__ = (
        "_code", "_constants", "_fields", "_kind", "_names", "_offset", "_operators", "_pick",
        "_types",
    )  # fmt: skip

    def __init__(
        self,
        place: FrameType,
        operands: Mapping[str, Any],
        instruction: Instruction,
        operators: Sequence[str],
    ) -> None:
        """The call in the frame `place` with `operands`, which made `instruction`.

        Each operand is the value of its field; those of `operators` have it as their name.
        """
        attributes = instruction.__dict__
        others = [name for name, value in operands.items() if not isinstance(value, Tile)]
        self._code, self._offset = place.f_code, place.f_lasti
        self._names = frozenset(operands)
        self._pick = _picker(tuple(others))
        self._constants = [operands[name] for name in others]
        self._types = list(map(type, self._constants))
        self._operators = operators
        self._kind = type(instruction)
        self._fields = {
            field.name: None if isinstance(attributes[field.name], Tile) else attributes[field.name]
            for field in fields(self._kind)
        }

    def instruction(self, frame: FrameType, operands: dict[str, Any]) -> Instruction | None:
        """The instruction of a call in `frame` with `operands`; None if the call differs.

        The caller compares the tiles.
        """
        if (
            frame.f_lasti != self._offset
            or frame.f_code is not self._code
            or operands.keys() != self._names
        ):
            return None
        constants = self._constants
        if constants:
            values = self._pick(operands)
            if not all(map(is_, values, constants)) and not self._are_same(values):
                return None
        instruction, fields = object.__new__(self._kind), self._fields
        attributes = instruction.__dict__
        attributes.update(fields)
        attributes.update(operands)
        for name in self._operators:
            attributes[name] = operands[name].name
            if attributes[name] is not fields[name]:
                return None
        return instruction

    def _are_same(self, values: Sequence[object]) -> bool:
        """True if values have the types and the values of the constants."""
        constants, types = self._constants, self._types
        if tuple in types:
            return all(map(_is_same, values, constants))
        return all(map(is_, map(type, values), types)) and all(map(eq, values, constants))


class PlainTile(NamedTuple):
    """A tile of a plain step.

    Attributes:
        field: the instruction's field with the tile; for a vector of indices, the field whose tile
            it addresses.
        number: the number of its storage in the record.
        shape: its shape if a vector of indices addresses it; else None.
        is_source: true if the tile is itself a vector of indices.
    """

    field: str
    number: int
    layout: TileLayout
    shape: tuple[int, ...] | None = None
    is_source: bool = False


@dataclass(slots=True)
class PlainStep:
    """A step whose instruction is compared field by field.

    It has no register, no wait for other cores (`Instruction.meeting`), and no operand that it
    names without accessing it.

    Attributes:
        origin: the place that issued it.
        constants: the values of the fields without tiles.
        pick: a function from the fields of an instruction to the values of the same fields.
        tiles: its tiles, in the order of a step's `touches`.
        direct: (field, number, layout) of each tile; () if a vector of indices addresses one.
        reads: the fields that it reads.
        writes: the fields that it writes.
        by_matmul: true if the Tensor Engine writes them.
        shared_reads: the fields of `reads` whose tiles lie in memory that cores share.
        shared_writes: the fields of `writes` whose tiles lie there.
        call: the call that issued it; None if it may not be compared in the instruction's place.
        is_learnt: true once `call` has been decided.
    """

    info: SignatureInfo
    origin: StepOrigin
    kind: type[Instruction]
    constants: tuple[object, ...]
    pick: Callable[[dict[str, Any]], Sequence[object]]
    tiles: tuple[PlainTile, ...]
    direct: tuple[tuple[str, int, TileLayout], ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    by_matmul: bool
    shared_reads: tuple[str, ...] = ()
    shared_writes: tuple[str, ...] = ()

    call: InstructionCall | None = None
    is_learnt: bool = False

    @property
    def line(self) -> SourceLine | None:
        """The user's line that issued it."""
        return self.origin.line

    def learn_call(
        self,
        operands: Mapping[str, Any],
        caller: FrameType,
        frame: FrameType,
        instruction: Instruction,
    ) -> None:
        """Keep the call with `operands` by `caller`, which made `instruction`.

        It is not kept if operands other than operators were converted, if the class may change
        them, or if `caller` is not the innermost frame of the user from `frame` on.
        """
        self.is_learnt = True
        place: FrameType | None = frame
        while place is not None and not is_of_user(place.f_code):
            place = place.f_back
        if place is not caller or (hasattr(self.kind, "__post_init__") and not self.direct):
            return
        attributes, operators = instruction.__dict__, list[str]()
        for name, value in operands.items():
            if name not in attributes:
                return
            if value is attributes[name]:
                if not (isinstance(value, Tile) or is_constant(value)):
                    return
            elif type(attributes[name]) is str and getattr(value, "name", None) is attributes[name]:
                operators.append(name)
            else:
                return
        self.call = InstructionCall(caller, operands, instruction, operators)

    def has_fields_of(self, instruction: Instruction) -> bool:
        """True if an instruction has this class, and the same values in fields without tiles."""
        if instruction.__class__ is not self.kind:
            return False
        values, constants = self.pick(instruction.__dict__), self.constants
        return all(map(is_, values, constants)) or all(map(_is_same, values, constants))

    def shared_tiles(self, operands: dict[str, Any]) -> tuple[Sequence[Tile], Sequence[Tile]]:
        """The tiles that it reads, and those that it writes, in memory that cores share."""
        reads, writes = self.shared_reads, self.shared_writes
        return [operands[name] for name in reads], [operands[name] for name in writes]

    def storages_of(self, instruction: Instruction) -> list[Storage] | None:
        """The storages of an instruction's tiles, if they have the step's layouts; else None."""
        operands = instruction.__dict__
        storages: list[Storage] = []
        for field, _, layout, shape, is_source in self.tiles:
            tile = operands[field]
            if not isinstance(tile, Tile):
                return None
            index = tile.index
            if index is not None and index.__class__ is not VectorIndex:
                return None
            is_indexed = is_source or shape is not None
            if is_indexed is (index is None) or (shape is not None and tile.shape != shape):
                return None
            if is_source:
                (tile,) = tile.index_tiles()
            if tile.layout is not layout and tile.layout != layout:
                return None
            storages.append(tile.storage)
        return storages


def plain_step(
    info: SignatureInfo,
    line: SourceLine | None,
    touches: Sequence[tuple[int, TileLayout]],
    common: Container[int] = (),
) -> PlainStep | None:
    """The plain step of an instruction; None if it has to be compared by its signature.

    Args:
        info: the properties of its signature.
        line: the line that issued it.
        touches: the storage and the layout of the tiles that it reads, then of those it writes.
        common: the storages that all cores share.
    """
    instruction, reads = info.checked.instruction, info.read
    kind = type(instruction)
    names = (*(reads or ()), *info.written)
    operands = vars(instruction)
    indexed = info.gathered
    others = {name: value for name, value in operands.items() if name not in names}
    if (
        reads is None
        or info.writes_registers
        or info.converted_fields
        or (info.has_index and not (indexed and info.is_planned))
        or not (info.writes_all or indexed)
        or kind.fences
        or kind.meeting is not Instruction.meeting
        or not all(map(is_constant, others.values()))
    ):
        return None
    fields = [(name, False) for name in reads] + [(name, True) for name in indexed]
    fields += [(name, False) for name in info.written]
    if len(fields) != len(touches):  # an index that is no vector has a tile of its own
        return None
    tiles = tuple(
        PlainTile(
            name,
            number,
            layout,
            operands[name].shape if name in indexed and not is_source else None,
            is_source,
        )
        for (name, is_source), (number, layout) in zip(fields, touches, strict=True)
    )
    by_matmul = info.checked.engine is Engine.tensor
    shared = {tile.field for tile in tiles if tile.number in common}
    if shared and indexed:
        return None
    direct = () if indexed else tuple((tile.field, tile.number, tile.layout) for tile in tiles)
    constants = tuple(others.values())
    pick = _picker(tuple(others))
    return PlainStep(
        info, StepOrigin(line), kind, constants, pick, tiles, direct, reads, info.written,
        by_matmul, tuple(filter(shared.__contains__, reads)),
        tuple(filter(shared.__contains__, info.written)),
    )  # fmt: skip


def _is_same(value: object, constant: object) -> bool:
    """True if a value has the type and the value of a constant: 1, 1.0 and True differ."""
    if value is constant:
        return True
    if type(value) is not type(constant):
        return False
    if isinstance(value, tuple) and isinstance(constant, tuple):
        return len(value) == len(constant) and all(map(_is_same, value, constant))
    return value == constant


def _picker(names: tuple[str, ...]) -> Callable[[dict[str, Any]], Sequence[object]]:
    """A function from a dictionary to the values of `names`."""
    if len(names) > 1:
        return itemgetter(*names)
    if names:
        (name,) = names
        return lambda fields: (fields[name],)
    return lambda _: ()
