"""Properties common to all instructions of a signature: operands, registers, state, execution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from operator import is_
from typing import Any, Final

from trnsim.arch import NeuronCore
from trnsim.arch.kept import KeptByCore
from trnsim.isa import DgeMode, Engine, Instruction, MatmulPerfMode, OobMode, ReduceCmd
from trnsim.isa.language.declaration import State
from trnsim.isa.language.fields import converted_fields
from trnsim.isa.language.machine import Plan
from trnsim.isa.language.overlap import is_streaming, keeps_order
from trnsim.memory import Tile, VectorIndex
from trnsim.program.program import Checked


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """The properties common to all instructions of a signature.

    Attributes:
        number: its number among the program's distinct signatures.
        checked: the program's entry for these instructions.
        has_index: true if an operand's address is computed when the instruction runs.
        gathered: names of the operands that a vector of indices addresses.
        writes_all: true if every element of every written operand is written.
        converted_fields: field -> value in the declared type, if passed in another legal type.
        read: names of the operands that are read, if each is a single tile; else None.
        written: names of the operands that are written; all of them where `read` is not None.
        reads_registers: true if the instructions may read registers.
        writes_registers: true if they write registers.
        states: the state of their engine that they use.
        streams: true if they read and write element by element (`isa.language.overlap`).
        keeps_order: true if each element is written to its own position.
        run: executes these instructions.
        is_planned: true if `run` is the instruction's plan (`Instruction.plan`), not its `execute`.
    """

    signature: tuple[object, ...]
    number: int
    checked: Checked
    has_index: bool
    gathered: tuple[str, ...]
    writes_all: bool
    converted_fields: dict[str, Any]
    read: tuple[str, ...] | None
    written: tuple[str, ...]
    reads_registers: bool
    writes_registers: bool
    states: tuple[State, ...]
    streams: bool
    keeps_order: bool
    run: Plan
    is_planned: bool

    def numbered(self, number: int) -> SignatureInfo:
        """The same properties with another number."""
        return replace(self, number=number)

    def accesses(self, instruction: Instruction) -> tuple[list[Tile], list[Tile]]:
        """The tiles that `instruction`, which has this signature, reads and writes."""
        if self.read is None:
            return instruction.accesses()
        operands = instruction.__dict__
        find = operands.__getitem__
        return list(map(find, self.read)), list(map(find, self.written))


_CONSTANTS: Final = frozenset(
    {type(None), bool, int, float, str, Engine, DgeMode, OobMode, MatmulPerfMode, ReduceCmd}
)
"""Types of fields that are compared by type and value."""


_MOST_INFOS: Final = 1 << 11
_cached_infos: Final = {
    has_values: KeptByCore[tuple[object, ...], SignatureInfo](_MOST_INFOS)
    for has_values in (False, True)
}
"""By core, in runs with and without values: the properties of legal signatures."""


def checked_info(
    signature: tuple[object, ...],
    number: int,
    instruction: Instruction,
    core: NeuronCore,
    has_values: bool,
) -> SignatureInfo:
    """The properties of `signature`, the `number`-th of a program; `instruction` is its first.

    They are cached for other kernels on the core if the fields are tiles and constants: then the
    signature determines legality and cost.

    Raises:
        EmulatorError: for any rule that the instruction violates.
    """
    infos = _cached_infos[has_values].on(core)
    info = infos.get(signature)
    if info is not None:
        instruction.__dict__.update(info.converted_fields)
        return info.numbered(number)
    values = converted_fields(instruction)
    instruction.__dict__.update(values)
    dims = instruction.verify(core)
    outline = instruction.outline()
    cost = outline.price(core, dims)
    checked = Checked(outline, dims, outline.chosen_engine(core), cost)
    info = signature_info(signature, number, checked, instruction, values)
    if not instruction.meets_ranks and all(map(_is_in_signature, instruction.__dict__.values())):
        infos[signature] = info
    return info


def is_constant(value: object) -> bool:
    """True for a value that is compared by type and value, and for tuples of such; not for NaN."""
    if isinstance(value, tuple):
        return type(value) is tuple and all(map(is_constant, value))
    return type(value) in _CONSTANTS and value == value  # noqa: PLR0124  NaN


def _is_in_signature(value: object) -> bool:
    """True for a value of a field that a signature determines."""
    return isinstance(value, Tile) or is_constant(value)


def signature_info(
    signature: tuple[object, ...],
    number: int,
    checked: Checked,
    instruction: Instruction,
    values: dict[str, Any],
) -> SignatureInfo:
    """The properties of `signature`, computed from `instruction`, the first that has it."""
    kind, operands = type(instruction), instruction.__dict__
    plan = [step for step in kind.access_plan if operands[step[0]].__class__ is not tuple]
    is_plain = kind.accesses is Instruction.accesses and len(plan) == len(kind.access_plan)
    tiles = [step for step in plan if isinstance(operands[step[0]], Tile)]
    has_index = any(tile.index is not None for tile in chain(*instruction.accesses()))
    planned_run = instruction.plan()
    return SignatureInfo(
        signature,
        number,
        checked,
        has_index=has_index,
        gathered=tuple(n for n, *_ in tiles if isinstance(operands[n].index, VectorIndex)),
        writes_all=_writes_all(instruction, has_index=has_index),
        converted_fields=values,
        read=tuple(name for name, is_read, _ in tiles if is_read) if is_plain else None,
        written=tuple(name for name, _, is_written in tiles if is_written),
        reads_registers=has_index or "read" in kind.registers.values(),
        writes_registers="write" in kind.registers.values(),
        states=instruction.private_state(),
        streams=is_streaming(instruction),
        keeps_order=keeps_order(instruction),
        run=planned_run or kind.execute,
        is_planned=planned_run is not None,
    )


def _writes_all(instruction: Instruction, *, has_index: bool) -> bool:
    """True if all instructions of a signature write every element of their written operands."""
    kind = type(instruction)
    if kind.fully_written_tiles is Instruction.fully_written_tiles:
        return True
    if has_index or not kind.has_fixed_writes:
        return False
    written_tiles, declared = list(instruction.fully_written_tiles()), instruction.accesses()[1]
    return len(written_tiles) == len(declared) and all(map(is_, written_tiles, declared))
