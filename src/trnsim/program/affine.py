"""Affine steps: equal instructions of a loop that one call of numpy executes.

A window is a run of captured instructions that repeats a shorter one, the turn of a loop. Within a
window the level of an instruction is one more than the highest level of an earlier one with which
it conflicts: both touch a rectangle of bytes, and one of them writes it. Instructions of one level
do not conflict, so a window may be executed level by level, and the instructions of a level in any
order. Those that stand at the same place of the turn are one step, if the addresses of each operand
are ``start + turn * stride``. Tensors that each turn allocates anew lie in one buffer for this.

docs/design/0063 has the proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from trnsim.arch import NeuronCore
from trnsim.context_values import context_value
from trnsim.isa import Instruction, ReduceCmd
from trnsim.isa.language.declaration import READ_ACCESSES, WRITE_ACCESSES, State
from trnsim.isa.language.machine import BatchPlan
from trnsim.memory import AccessPattern, Box, Storage, Tile, VectorIndex

MOST_BYTES: Final = 1 << 19
"""Maximum bytes of an operand of a step: larger operands exceed a processor's cache."""

MOST_TURNS: Final = 64
"""Maximum number of turns of a window."""

LONGEST_TURN: Final = 256
"""Maximum number of instructions of a turn."""
_LEAST_TURNS: Final = 2
"""Minimum number of turns of a window."""
_ALIGNED_BYTES: Final = 64

_is_on: ContextVar[bool] = ContextVar("affine steps", default=True)


def is_on() -> bool:
    """True outside `without_affine_steps`."""
    return _is_on.get()


def without_affine_steps() -> AbstractContextManager[None]:
    """Context in which each instruction is executed on its own."""
    return context_value(_is_on, False)


Touch: TypeAlias = tuple[Tile, bool, bool]
"""A tile, whether it is read, and whether it may be written."""


def touched(instruction: Instruction) -> Iterator[Touch]:
    """The tiles of an instruction, and the tiles that hold their indices."""
    for operand, tile in instruction.tiles():
        yield tile, operand.access in READ_ACCESSES, operand.access in WRITE_ACCESSES
        for source in tile.index_tiles():
            yield source, True, False


class AffineWindow(NamedTuple):
    """A run of instructions that may be executed level by level.

    Attributes:
        first: number of its first instruction.
        end: number of the instruction after its last.
        steps: the numbers of its instructions in the order of execution, grouped by step.
    """

    first: int
    end: int
    steps: Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class TensorFamily:
    """Tensors of equal size that lie in one buffer, at equal distances.

    Attributes:
        members: the tensors in order.
        distance_bytes: the bytes from a member to the next.
    """

    storage: Storage
    members: Sequence[Storage]
    distance_bytes: int


class AffineStep(NamedTuple):
    """Instructions of a core that are executed together.

    Attributes:
        instruction: an instruction on the tiles of all members; None for a single member.
        plan: the plan that executes it.
    """

    members: tuple[int, ...]
    instruction: Instruction | None = None
    plan: BatchPlan | None = None


class AffineSteps:
    """The steps of a core's captured instructions.

    Attributes:
        positions: by instruction, its place in the order of execution; the instructions of a
            window share one. Tensors whose lives have no place in common may share bytes, with and
            without steps.
        families: the tensors that lie in common buffers.
    """

    def __init__(
        self, instructions: Sequence[Instruction], core: NeuronCore, fixed: Collection[int],
        tracked: Collection[int], *, is_total: bool,
    ) -> None:  # fmt: skip
        """The steps of instructions.

        Args:
            instructions: the instructions of a core in program order.
            core: the core.
            fixed: the numbers of instructions that read guards (`Capture.guards`).
            tracked: serials of storages whose written elements are tracked.
            is_total: whether a window may only have instructions that no values make illegal.
        """
        self._instructions = instructions
        self._plans = [instruction.batch_plan(core) for instruction in instructions]
        may_move = self._may_move(fixed, tracked, is_total=is_total)
        self._windows = windows(instructions, may_move, [p is not None for p in self._plans])
        self.families: dict[int, tuple[TensorFamily, int]] = {}
        self.positions = self._positions()

    def make_families(self, internal: Collection[int]) -> list[TensorFamily]:
        """The families among the storages `internal` to the core."""
        families: list[TensorFamily] = []
        for window in self._windows:
            for members in window.steps:
                if len(members) == 1:
                    continue
                for tiles in zip(*(_tiles(self._instructions[m]) for m in members), strict=True):
                    storages = [tile.storage for tile in tiles]
                    if self._may_be_family(storages, internal):
                        families.append(self._family(storages))
        return families

    def steps(self) -> list[AffineStep]:
        """The steps in the order of execution."""
        result: list[AffineStep] = []
        windows = iter([*self._windows, None])
        window, number = next(windows), 0
        while number < len(self._instructions):
            if window is None or number < window.first:
                result.append(AffineStep((number,)))
                number += 1
                continue
            for group in window.steps:
                for members in self._progressions(group):
                    instruction = self._joint_instruction(members) if len(members) > 1 else None
                    if instruction is None:
                        result += [AffineStep((member,)) for member in members]
                    else:
                        plan = self._plans[min(members)]  # of one class, numbers and shapes
                        result.append(AffineStep(members, instruction, plan))
            number = window.end
            window = next(windows)
        return result

    def _may_move(
        self, fixed: Collection[int], tracked: Collection[int], *, is_total: bool
    ) -> list[bool]:
        """By instruction, whether it may change places with those that do not conflict with it.

        An instruction that uses the state of an engine may if no instruction reads that state.
        """
        plans, instructions = self._plans, self._instructions
        is_state_unread = all(
            plan is not None or not _uses_state(instruction)
            for plan, instruction in zip(plans, instructions, strict=True)
        )
        return [
            number not in fixed
            and not type(instruction).registers
            and not type(instruction).meets_ranks
            and type(instruction).meeting is Instruction.meeting
            and not instruction.written_flags_used
            and (is_state_unread or not _uses_state(instruction))
            and (not is_total or (plan is not None and not plan.may_refuse))
            and not any(
                tile.storage.is_placed or tile.storage.serial in tracked
                for tile, _, _ in touched(instruction)
            )
            for number, (instruction, plan) in enumerate(zip(instructions, plans, strict=True))
        ]

    def _positions(self) -> list[int]:
        positions: list[int] = []
        windows = iter([*self._windows, None])
        window, position = next(windows), -1
        for number in range(len(self._instructions)):
            if window is not None and number == window.end:
                window = next(windows)
            if window is None or number <= window.first:
                position += 1
            positions.append(position)
        return positions

    def _may_be_family(self, storages: Sequence[Storage], internal: Collection[int]) -> bool:
        serials = {storage.serial for storage in storages}
        return (
            len(serials) == len(storages)
            and len({storage.nbytes for storage in storages}) == 1
            and serials.issubset(internal)
            and serials.isdisjoint(self.families)
        )

    def _family(self, storages: Sequence[Storage]) -> TensorFamily:
        first = storages[0]
        distance = -(-first.nbytes // _ALIGNED_BYTES) * _ALIGNED_BYTES
        buffer = Storage(first.memory, distance * len(storages), distance * len(storages))
        family = TensorFamily(buffer, storages, distance)
        for number, storage in enumerate(storages):
            self.families[storage.serial] = family, number * distance
        return family

    def _progressions(self, members: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """`members` in runs, in each of which the addresses of operands are progressions."""
        places = [list(map(self._address, _tiles(self._instructions[m]))) for m in members]
        start = 0
        while start < len(members):
            end, steps = start + 1, None
            while end < len(members):
                step = _steps_between(places[end - 1], places[end])
                if step is None or (steps is not None and step != steps):
                    break
                end, steps = end + 1, step
            yield members[start:end]
            start = end

    def _joint_instruction(self, members: Sequence[int]) -> Instruction | None:
        """One instruction on the tiles of all members; None if `_affine_tile` gives none."""
        instructions = [self._instructions[member] for member in members]
        joint_instruction = copy(instructions[0])
        for name in joint_instruction.operands:
            values = [getattr(instruction, name) for instruction in instructions]
            if isinstance(values[0], Tile):
                tile = self._affine_tile(values)
                if tile is None:
                    return None
                setattr(joint_instruction, name, tile)
        return joint_instruction

    def _affine_tile(self, tiles: Sequence[Tile]) -> Tile | None:
        """The tile of one more dimension that has the elements of `tiles`, a progression.

        None where numpy might compute other values than for the single tiles.
        """
        first, index = tiles[0], tiles[0].index
        storage, offset = self._address(first)
        stride = self._address(tiles[1])[1] - offset
        shape, strides, _ = first.pattern
        inner_bytes = min(
            (
                step * length
                for length, step in zip(shape, strides, strict=True)
                if step and length > 1
            ),
            default=None,
        )
        if inner_bytes is None or 0 < abs(stride) < inner_bytes:
            return None  # numpy might take the elements in another order
        if index is None:
            pattern = AccessPattern((len(tiles), *shape), (stride, *strides), offset)
            return Tile(storage, first.dtype, pattern)
        sources = [tile.index.source for tile in tiles if isinstance(tile.index, VectorIndex)]
        source = self._affine_tile(sources) if len(sources) == len(tiles) else None
        if source is None or stride or not isinstance(index, VectorIndex):
            return None
        pattern = AccessPattern(shape, strides, offset)
        return Tile(storage, first.dtype, pattern, replace(index, source=source))

    def _address(self, tile: Tile) -> tuple[Storage, int]:
        """The storage that holds a tile, a family's if it has one, and the tile's offset there."""
        family, start = self.families.get(tile.storage.serial, (None, 0))
        storage = tile.storage if family is None else family.storage
        return storage, start + tile.pattern.offset_bytes


def _steps_between(
    places: Sequence[tuple[Storage, int]], others: Sequence[tuple[Storage, int]]
) -> list[int] | None:
    """The bytes from each of `places` to its counterpart in `others`; None in another storage."""
    pairs = list(zip(places, others, strict=True))
    if any(storage is not other for (storage, _), (other, _) in pairs):
        return None
    return [other_offset - offset for (_, offset), (_, other_offset) in pairs]


def windows(
    instructions: Sequence[Instruction], may_move: Sequence[bool], has_plan: Sequence[bool]
) -> list[AffineWindow]:
    """The windows of a program that have a step of several instructions.

    Args:
        instructions: the instructions in program order.
        may_move: by instruction, whether it may be part of a window.
        has_plan: by instruction, whether it can be executed with others.
    """
    result: list[AffineWindow] = []
    for first, end, turn in _repetitions(instructions, may_move):
        steps = _steps_by_level(instructions[first:end], turn, first, has_plan)
        if any(len(members) > 1 for members in steps):
            result.append(AffineWindow(first, end, steps))
    return result


def _repetitions(
    instructions: Sequence[Instruction], may_move: Sequence[bool]
) -> Iterator[tuple[int, int, int]]:
    """(first, end, length of a turn) of runs that repeat their first instructions."""
    kinds = _kinds(instructions)
    next_of_kind, last = [0] * len(kinds), dict[int, int]()
    for number in reversed(range(len(kinds))):
        next_of_kind[number] = last.get(kinds[number], number)
        last[kinds[number]] = number
    start, count = 0, len(kinds)
    while start < count:
        turn = next_of_kind[start] - start
        end = _end_of_loop(kinds, may_move, start, turn) if 0 < turn <= LONGEST_TURN else start
        tiles = (tile for n in range(start, start + turn) for _, tile in instructions[n].tiles())
        widest_bytes = max((tile.nbytes for tile in tiles), default=1) if end > start else 1
        turns = min(MOST_TURNS, MOST_BYTES // widest_bytes)
        if end == start or turns < _LEAST_TURNS:
            start += 1
            continue
        for first in range(start, end, turns * turn):
            if min(first + turns * turn, end) - first >= _LEAST_TURNS * turn:
                yield first, min(first + turns * turn, end), turn
        start = end


def _end_of_loop(kinds: Sequence[int], may_move: Sequence[bool], start: int, turn: int) -> int:
    """The end of the turns that begin at `start`; `start` if there are none, or a single one."""
    body, end = kinds[start : start + turn], start
    while kinds[end : end + turn] == body and all(may_move[end : end + turn]):
        end += turn
    return end if end - start >= _LEAST_TURNS * turn else start


def _kinds(instructions: Sequence[Instruction]) -> list[int]:
    """A number for each instruction: equal if only the addresses of tiles differ."""
    numbers: dict[Any, int] = {}
    return [
        numbers.setdefault(
            (type(instruction), *map(_operand_key, vars(instruction).values())), len(numbers)
        )
        for instruction in instructions
    ]


def _operand_key(value: Any) -> Any:
    """A key of all of an operand but its address: 1, 1.0 and True differ, and 0.0 and -0.0."""
    if isinstance(value, Tile):
        index, pattern = value.index, value.pattern
        parts = (value.memory, value.dtype.name, pattern.shape, pattern.strides_bytes)
        if index is None:
            return parts
        if isinstance(index, VectorIndex):
            return (*parts, index.stride_bytes, index.limit, _operand_key(index.source))
        return (*parts, id(index))
    if isinstance(value, tuple):
        return tuple(map(_operand_key, value))
    if isinstance(value, float):
        return value.hex()
    return type(value), value


def _steps_by_level(
    instructions: Sequence[Instruction], turn: int, first: int, has_plan: Sequence[bool]
) -> list[tuple[int, ...]]:
    """A window in the order of its levels, instructions at the same place of a turn together."""
    touches: dict[int, list[tuple[Box, int, bool]]] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for place, instruction in enumerate(instructions):
        accesses = list(touched(instruction))
        level = _level_above_conflicts(accesses, touches)
        for tile, _, is_written in accesses:
            entry = (tile.layout.box, level, is_written)
            touches.setdefault(tile.storage.serial, []).append(entry)
        groups.setdefault((level, place % turn), []).append(first + place)
    steps: list[tuple[int, ...]] = []
    for _, members in sorted(groups.items()):
        can_be_merged = all(has_plan[member] for member in members)
        steps += [tuple(members)] if can_be_merged else [(member,) for member in members]
    return steps


def _level_above_conflicts(
    accesses: Sequence[Touch], touches: Mapping[int, Sequence[tuple[Box, int, bool]]]
) -> int:
    """The lowest level above those of all earlier accesses with which `accesses` conflict."""
    level = 0
    for tile, _, is_written in accesses:
        box = tile.layout.box
        for other, other_level, was_written in touches.get(tile.storage.serial, ()):
            if other_level >= level and (is_written or was_written) and box.overlaps(other):
                level = other_level + 1
    return level


def _tiles(instruction: Instruction) -> list[Tile]:
    """The tiles of an instruction, with those that hold their indices."""
    return [tile for tile, _, _ in touched(instruction)]


def _uses_state(instruction: Instruction) -> bool:
    """True if an instruction uses state that is private to its engine."""
    is_idle = getattr(instruction, "reduce_cmd", None) is ReduceCmd.idle
    sees_nothing = is_idle and getattr(instruction, "reduce_res", None) is None
    return any(
        use.state is State.generators or (use.state is State.accumulators and not sees_nothing)
        for use in instruction.state
    )
