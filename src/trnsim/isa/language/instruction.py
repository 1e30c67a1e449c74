"""The base class of instructions.

An instruction is one class: its operands are fields, its legality is `check`, its meaning is
`execute`, its price is `cost`. All else (argument checks, hazard sets, timing, profiler labels, the
reference page) is derived from its fields, so no code outside the class switches on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import Any, ClassVar, Final, NoReturn, Self, dataclass_transform

from trnsim.arch import NeuronCore
from trnsim.dtypes import INT64, Array
from trnsim.errors import IllegalInstruction, InternalError
from trnsim.isa.language.declaration import (
    READ_ACCESSES,
    WRITE_ACCESSES,
    Operand,
    State,
    StateUse,
    mentions_many,
    names,
    reads,
    reads_many,
    reads_register,
    updates,
    vector_or_number,
    writes,
    writes_many,
    writes_register,
)
from trnsim.isa.language.definedness import Dependence, Movement, written_results
from trnsim.isa.language.fields import is_too_large, tensor_fix, wrong_field
from trnsim.isa.language.indirection import check_indirection
from trnsim.isa.language.machine import BatchPlan, Machine, Plan
from trnsim.isa.language.meeting import Meeting
from trnsim.isa.language.modes import DgeMode, Engine, MatmulPerfMode, OobMode, ReduceCmd
from trnsim.isa.language.shapes import check_partition_step, refuse_length
from trnsim.isa.language.strides import is_far_apart
from trnsim.isa.language.width import refuse_int64
from trnsim.memory import Memory, ScalarIndex, Tile
from trnsim.memory.index import Register

SBUF: Final = Memory.SBUF
PSUM: Final = Memory.PSUM
HBM: Final = Memory.HBM
ON_PARTITIONS: Final = frozenset({Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd})
"""Engines whose tiles may start only at certain partitions; DMA engines start anywhere."""
FREE_DIMENSIONS: Final = 4
"""Maximum dimensions of a pattern within a partition. Source: nki-aps.rst, Hardware Capability."""
_SHARED_PORTS: Final = {
    SBUF: (Engine.vector, Engine.gpsimd),
    PSUM: (Engine.vector, Engine.scalar),
}


class Dims(dict[str, int]):
    """Axis letter -> length, readable as attributes: ``n.K``."""

    def __getattr__(self, axis: str) -> int:
        try:
            return self[axis]
        except KeyError:
            raise AttributeError(axis) from None


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of an instruction.

    Attributes:
        interval_s: initiation interval: the time until the engine can start another instruction.
        latency_s: time from the end of the interval until the result can be read.
        flops: floating-point operations on the Tensor Engine.
        hbm_bytes: bytes that cross the HBM interface.
        ports: memories whose port, shared by two engines, it blocks for the other while it runs.
        table: the table of activation functions that the engine must hold; "" for none.
        held_read: index, among the tiles that it reads, of the tile that the engine must hold.
        held_load_s: time to load the table or the tile first, if the engine holds another one.
        issue_s: a transfer's time in its DMA queue; its interval is the time on the DMA engines.
        engine_share: the part, 0 to 1, of the DMA engines that a collective takes while it runs.
    """

    interval_s: float
    latency_s: float
    flops: float = 0.0
    hbm_bytes: int = 0
    ports: tuple[Memory, ...] = ()
    table: str = ""
    held_read: int | None = None
    held_load_s: float = 0.0
    issue_s: float = 0.0
    engine_share: float = 0.0


@dataclass_transform(
    eq_default=False,
    field_specifiers=(
        reads,
        writes,
        updates,
        names,
        mentions_many,
        reads_many,
        writes_many,
        vector_or_number,
        reads_register,
        writes_register,
        field,
    ),
)
@dataclass(eq=False, repr=False)
class Instruction:
    """Base of all instructions. A subclass declares an instruction and is registered."""

    engines: ClassVar[tuple[Engine, ...]]  # the engines that can execute it, the default first
    source: ClassVar[str]  # the document that describes it
    opcode: ClassVar[str]  # AWS's name
    is_in_nki_isa: ClassVar[bool]  # nki.isa has a function for it
    result_depends_on: ClassVar[Dependence] = ""  # elements of operands that a result element needs
    state: ClassVar[tuple[StateUse, ...]] = ()  # hidden state that it accesses
    # Operands whose flags of written elements affect its values, or the elements that it writes.
    written_flags_used: ClassVar[tuple[str, ...]] = ()
    # True if the signature alone decides which elements it writes, unless an operand has an index.
    has_fixed_writes: ClassVar[bool] = False
    # Operands that `.indirect()` may scatter and gather, "" for none; () if `check` has its rules.
    indirect: ClassVar[tuple[str, ...]] = ("", "")
    operands: ClassVar[dict[str, Operand]]  # field -> declaration of a tile operand
    access_plan: ClassVar[tuple[tuple[str, bool, bool], ...]]  # (operand, is read, is written)
    fences: ClassVar[tuple[str, ...]]  # operands with access "name", which only order it
    registers: ClassVar[dict[str, str]]  # register field -> "read" or "write"
    runs_without_values: ClassVar[bool]  # executed in shape-only runs too, for control flow
    # True if its tiles may be int64, which memory and scalars have and no engine computes with.
    takes_int64: ClassVar[bool] = False
    # True if it meets the cores of other ranks; `meeting` then numbers the cores of all ranks.
    meets_ranks: ClassVar[bool] = False
    registry: ClassVar[dict[str, type[Instruction]]] = {}

    def __init_subclass__(
        cls,
        *,
        engines: tuple[Engine, ...],
        source: str = "",
        opcode: str = "",
        is_in_nki_isa: bool = True,
    ) -> None:
        """Declare and register an instruction, or without engines the abstract base of a family.

        Args:
            engines: the engines that can execute it, the default first.
            source: the document that describes it.
            opcode: AWS's name, where it does not follow from the class's.
            is_in_nki_isa: whether `nki.isa` has it.
        """
        dataclass(eq=False, repr=False)(cls)
        cls.engines = engines
        cls.opcode = opcode or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        cls.source = source or f"nki.isa.{cls.opcode}"
        cls.is_in_nki_isa = is_in_nki_isa
        cls.operands = _metadata(cls, "operand")
        cls.access_plan = tuple(
            (name, operand.access in READ_ACCESSES, operand.access in WRITE_ACCESSES)
            for name, operand in cls.operands.items()
        )
        cls.fences = tuple(n for n, operand in cls.operands.items() if operand.access == "name")
        cls.registers = _metadata(cls, "register")
        meets = cls.meeting is not Instruction.meeting
        cls.runs_without_values = meets or "write" in cls.registers.values()
        if engines:
            Instruction.registry[cls.opcode] = cls

    # Overridden by a family

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Constraints beyond the declared memories, dtypes and axes."""

    def execute(self, machine: Machine) -> None:  # noqa: ARG002
        """Compute the values: read operands, write results."""
        raise InternalError(f"{self.opcode} declares no values")

    def plan(self) -> Plan | None:
        """A faster `execute` for all instructions with this signature; None if there is none."""
        return None

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:  # noqa: ARG002
        """A way to execute many instructions of these fields and shapes at once, or None."""
        return None

    def cost(self, core: NeuronCore, n: Dims) -> Cost:  # noqa: ARG002
        """The price without shared ports and strides, which `price` adds; each class has one."""
        raise InternalError(f"{self.opcode} declares no cost")

    def price(self, core: NeuronCore, n: Dims) -> Cost:
        """The cost, with slow strides and with the ports that it blocks for another engine.

        Before v3 the Vector Engine shares its port to SBUF with GpSimd and the one to PSUM with the
        Scalar Engine, and elements more than 16 bytes apart halve the rate (`strides`).

        Source: trainium_inferentia2_arch.rst, on accesses that must be serialized.
        """
        cost, engine = self.cost(core, n), self.chosen_engine(core)
        if is_far_apart(engine, {name: getattr(self, name) for name in self.operands}):
            cost = replace(cost, interval_s=cost.interval_s * core.strided_slowdown)
        if core.vector_port_engines == 1:
            return cost
        memories = {tile.memory for _, tile in self.tiles()}
        ports = [m for m, engines in _SHARED_PORTS.items() if m in memories and engine in engines]
        return replace(cost, ports=tuple(ports)) if ports else cost

    def chosen_engine(self, core: NeuronCore) -> Engine:  # noqa: ARG002  families need the core
        """The engine that the kernel named, else the first one declared."""
        engine: Engine = getattr(self, "engine", Engine.unknown)
        return self.engines[0] if engine is Engine.unknown else engine

    def meeting(self, core: int) -> Meeting | None:  # noqa: ARG002  the cores' instructions need it
        """The meeting at which core number `core` waits before it starts, if there is one."""
        return None

    # Derived from the declaration

    def tiles(self) -> Iterator[tuple[Operand, Tile]]:
        """(operand, tile) for each tile among the operands of this instance."""
        for name, operand in self.operands.items():
            value = getattr(self, name)
            if isinstance(value, Tile):
                yield operand, value
            elif isinstance(value, tuple):
                yield from ((operand, item) for item in value if isinstance(item, Tile))

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """The tiles that it reads and the tiles that it writes."""
        read_tiles: list[Tile] = []
        written_tiles: list[Tile] = []
        values = self.__dict__
        for name, is_read, is_written in self.access_plan:
            value = values[name]
            if isinstance(value, Tile):
                if is_read:
                    read_tiles.append(value)
                if is_written:
                    written_tiles.append(value)
            elif isinstance(value, tuple):
                tiles = [tile for tile in value if isinstance(tile, Tile)]
                read_tiles += tiles if is_read else ()
                written_tiles += tiles if is_written else ()
        return read_tiles, written_tiles

    def registers_read(self) -> list[Register]:
        """The registers that it reads, as operands or as indices of its tiles."""
        values = [getattr(self, n) for n, access in self.registers.items() if access == "read"]
        values += [t.index.source for _, t in self.tiles() if isinstance(t.index, ScalarIndex)]
        return [value for value in values if not isinstance(value, Tile | int)]

    def registers_written(self) -> list[Register]:
        """The registers that it fills."""
        return [getattr(self, name) for name, mode in self.registers.items() if mode == "write"]

    def fully_written_tiles(self) -> Iterable[Tile]:
        """The tiles that are fully written afterwards: by default each written operand."""
        return self.accesses()[1]

    def movement(self) -> Movement | None:
        """The movement, if it only moves bits, so that unwritten elements may move; else None."""
        return None

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The elements written afterwards, if operand `tile` is written only where `flags` holds.

        Public kernels process whole tiles of which they use a part. A result element that depends
        on an unwritten element is unwritten itself; the others are written.

        Returns:
            The written operands in order, each with a boolean per element; None if the operand must
            be fully written, or no result would be written.
        """
        movement = self.movement()
        if movement is not None and tile is movement.src:
            results = [(movement.dst, movement.arrange(flags))]
        else:
            results = written_results(self, tile, flags)
        return results if any(written_flags.any() for _, written_flags in results) else None

    def private_state(self) -> tuple[State, ...]:
        """Hidden state of its engine that it uses; the engine keeps the order of its users."""
        is_idle = getattr(self, "reduce_cmd", None) is ReduceCmd.idle
        return tuple(
            use.state
            for use in self.state
            if use.state is State.generators or (use.state is State.accumulators and not is_idle)
        )

    def result(self) -> object:
        """The return value of the call in a kernel: None, unless the call makes a register."""
        return None

    def resolved(self) -> Instruction | None:
        """The instruction with its scalar indices applied; None if it is to be skipped.

        Raises:
            IllegalInstruction: for an index out of bounds, unless `oob_mode` is skip.
        """
        indices = [t.index for _, t in self.tiles() if isinstance(t.index, ScalarIndex)]
        if not indices:
            return self
        is_skipped = getattr(self, "oob_mode", None) is OobMode.skip
        if is_skipped and not all(0 <= index.value < index.limit for index in indices):
            return None
        return self.with_tiles(Tile.resolved)

    def signature(self) -> tuple[object, ...]:
        """A key of all that legality and cost depend on; equal signatures are checked once.

        It includes the types of numbers: 1, 1.0 and True are equal, but not equally legal.
        """
        return (
            self.__class__,
            *[
                value
                if value.__class__ in _ATOMS
                else value.layout.signature
                if isinstance(value, Tile) and value.index is None
                else (value.__class__, value)
                if value.__class__ in _NUMBERS and value == value  # noqa: PLR0124  NaN is not
                else _signature_part(value)
                for value in self.__dict__.values()
            ],
        )

    def refuse(self, reason: str, fix: str, source: str = "") -> NoReturn:
        """Raise `IllegalInstruction` with the instruction's name and source."""
        raise IllegalInstruction(f"{self.opcode}: {reason}", fix=fix, source=source or self.source)

    def verify(self, core: NeuronCore) -> Dims:
        """The axis lengths; raises an error if the hardware or the compiler would refuse it."""
        n = Dims()
        for name, operand in self.operands.items():
            self._verify_operand(core, name, operand, n)
        wrong = wrong_field(self)
        try:
            self._verify_rules(core, n)  # its messages are better than the general one
        except (AttributeError, TypeError, ValueError, OverflowError):
            if wrong is None:
                raise
        if wrong is not None:
            name, value, legal = wrong
            self.refuse(f"`{name}` is {value}; legal: {legal}", "pass a value of that kind")
        return n

    def _verify_rules(self, core: NeuronCore, n: Dims) -> None:
        """Check the engine, then the family's rules, then `.indirect()` views."""
        engine = self.chosen_engine(core)
        if engine not in self.engines:
            legal = ", ".join(f"nisa.engine.{e.name}" for e in self.engines)
            label = getattr(engine, "label", repr(engine))
            self.refuse(f"engine {label}; legal: {legal}", "name one of these engines")
        self.check(core, n)
        if self.indirect:
            check_indirection(self, core, *self.indirect)

    def outline(self) -> Instruction:
        """The instruction without values: enough to price it again, on this core or another."""
        return self.with_tiles(Tile.without_bytes)

    def with_tiles(self, change: Callable[[Tile], Tile]) -> Self:
        """The instruction with `change` applied to each of its tiles."""
        duplicate = object.__new__(type(self))
        duplicate.__dict__.update(self.__dict__)
        for name in self.operands:
            value = getattr(self, name)
            if isinstance(value, Tile):
                value = change(value)
            elif isinstance(value, tuple):
                value = tuple(change(item) if isinstance(item, Tile) else item for item in value)
            setattr(duplicate, name, value)
        return duplicate

    def _verify_operand(self, core: NeuronCore, name: str, operand: Operand, n: Dims) -> None:
        value = getattr(self, name)
        if operand.is_many and isinstance(value, tuple) and value:
            for tile in value:
                self._verify_tile(core, name, operand, tile, n)
        elif operand.is_many:
            self._verify_number(name, operand, value)
        else:
            self._verify_tile(core, name, operand, value, n)

    def _verify_tile(
        self, core: NeuronCore, name: str, operand: Operand, tile: object, n: Dims
    ) -> None:
        if not isinstance(tile, Tile):
            self._verify_number(name, operand, tile)
            return
        if 0 in tile.shape:
            self.refuse(
                f"`{name}` is {tile}, which has no elements; legal: at least one on each axis",
                "leave the instruction out where there is nothing to do",
                "nki.language.NkiTensor.slice",
            )
        behaviour = dict(operand.formerly).get(tile.memory)
        if behaviour is not None:
            behaviour.require(core.nki, f"{self.opcode}: `{name}` is {tile}")
        elif tile.memory not in operand.memories:
            self.refuse(
                f"`{name}` is {tile}; legal: {' or '.join(m.value for m in operand.memories)}",
                operand.memory_fix,
            )
        if operand.dtypes and tile.dtype not in operand.dtypes:
            self.refuse(
                f"`{name}` is {tile}; legal dtypes: {' or '.join(map(str, operand.dtypes))}",
                operand.dtype_fix,
            )
        if tile.dtype is INT64 and not self.takes_int64:
            refuse_int64(self, name, tile)
        if tile.memory.is_on_chip and ON_PARTITIONS.intersection(self.engines):
            self._verify_start(core, name, tile)
            self._verify_pattern(name, tile)
        if operand.axes:
            self._bind(name, operand.axes, tile, n)

    def _verify_number(self, name: str, operand: Operand, value: object) -> None:
        """Refuse a value that is no tile, unless it is a legal number or a default of None."""
        is_left_out = value is None and getattr(type(self), name, self) is None
        is_number = operand.is_immediate and isinstance(value, int | float)
        if is_left_out or (is_number and not is_too_large(value)):
            return
        kind = "a list of tensors" if operand.is_many else "a tensor"
        kind += " or a number" if operand.is_immediate else ""
        text, fix = type(value).__name__, "pass a tensor made by nl.ndarray, or a view of one"
        if is_number:
            text, kind, fix = "an integer too large", f"{kind} of float64", "pass float('inf')"
        self.refuse(f"`{name}` is {text}; legal: {kind}", tensor_fix(value, fix))

    def _verify_start(self, core: NeuronCore, name: str, tile: Tile) -> None:
        """Refuse a tile of too many partitions, at an illegal start partition, or with gaps."""
        start, length, quadrant = tile.start_partition, tile.partitions, core.quadrant_partitions
        if length > core.partitions:
            self.refuse(
                f"`{name}` is {tile}, of {length} partitions; legal: up to {core.partitions}",
                "tile the partition axis",
                f"{self.source}, Tile size",
            )
        step = next(int(s) for s in (quadrant, 2 * quadrant, 4 * quadrant) if length <= s)
        if start % step:
            legal = range(0, int(core.partitions), step)
            self.refuse(
                f"`{name}` starts at partition {start} and spans {length}; legal starts for "
                f"{length} partitions: {', '.join(map(str, legal))}",
                "move the tile to a legal start partition",
                "trainium_inferentia2_arch.rst, accessing SBUF/PSUM tensors: start_partition",
            )
        check_partition_step(self, name, tile)

    def _verify_pattern(self, name: str, tile: Tile) -> None:
        """Refuse an access pattern of more than four dimensions within a partition."""
        dimensions = tile.pattern.free_dimensions
        if dimensions > FREE_DIMENSIONS:
            self.refuse(
                f"`{name}` is {tile}, whose free axes are {dimensions} dimensions in memory; "
                f"legal: up to {FREE_DIMENSIONS}",
                "use an instruction for each part, or copy the view into a tile of its own by DMA",
                "nki-aps.rst, Hardware Capability",
            )

    def _bind(self, name: str, axes: tuple[str, ...], tile: Tile, n: Dims) -> None:
        """Enter the lengths of a tile's axes in `n`, and refuse one that differs from its entry."""
        lengths = (tile.shape[0], prod(tile.shape[1:]))
        for axis, length in zip(axes, lengths, strict=True):
            expected = 1 if axis == "1" else n.setdefault(axis, length)
            if expected != length:
                refuse_length(self, name, axis, expected, tile)


_ATOMS: Final = frozenset(
    {type(None), bool, str, Engine, DgeMode, OobMode, MatmulPerfMode, ReduceCmd}
)
"""Types whose values a signature holds as they are: they equal no value of another type."""
_NUMBERS: Final = frozenset({int, float})


def _metadata(cls: type[Instruction], key: str) -> dict[str, Any]:
    """Field name -> the field's metadata under `key`, for the fields that have it."""
    return {f.name: f.metadata[key] for f in fields(cls) if key in f.metadata}


def _signature_part(value: object) -> object:
    """The key of a field's value: a number with its type, the signature of a tile or register."""
    kind = value.__class__
    if kind is float or kind is int:
        return (kind, value) if value == value else (kind, None)  # noqa: PLR0124  NaN is not
    if kind in _ATOMS:
        return value
    if isinstance(value, Tile):
        return value.signature
    if isinstance(value, tuple):
        return tuple(_signature_part(item) for item in value)
    return kind, getattr(value, "signature", value)
