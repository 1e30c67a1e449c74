"""Declarations of an instruction's accesses: tiles, registers, hidden state.

dst: Tile = writes("P F", SBUF, PSUM)
scale: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=1.0)
offset: int | VirtualRegister = reads_register(default=0)
state = (StateUse(State.accumulators, "update"),)
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from enum import Enum
from typing import Any, Final

from trnsim.behaviours import Behaviour
from trnsim.dtypes import Dtype
from trnsim.memory import Memory

_BUFFERS: Final = {
    Memory.SBUF: "nl.sbuf",
    Memory.PSUM: "nl.psum",
    Memory.HBM: "nl.shared_hbm",
}
"""Memory -> the buffer of `nl` in which a kernel allocates a tensor there."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The declaration of a tile operand.

    Attributes:
        access: "read", "write", "update" (a partial write, which leaves the other elements),
            "name" (no access, but ordered with other instructions' accesses), or "mention" (no
            access and no order).
        axes: a letter each for the partition axis and the flattened free axis, ("P", "F"); "1" for
            a length of one; empty if any shape is legal.
        memories: the memories in which the tile may lie.
        dtypes: legal dtypes; empty means any.
        is_immediate: whether a plain number may stand for the tile.
        is_many: whether the operand is a tuple of tiles.
        formerly: (memory, behaviour) for each memory that is legal only in the versions of NKI that
            follow the behaviour.
    """

    access: str
    axes: tuple[str, ...]
    memories: tuple[Memory, ...]
    dtypes: tuple[Dtype, ...]
    is_immediate: bool = False
    is_many: bool = False
    formerly: tuple[tuple[Memory, Behaviour], ...] = ()

    @property
    def memory_fix(self) -> str:
        """The advice for a tile in a memory that is not legal."""
        legal = self.memories[0]
        if self.access == "write":
            return f"allocate it in {_BUFFERS[legal]}, and copy the result on from there"
        return f"copy it to {legal.value} first"

    @property
    def dtype_fix(self) -> str:
        """The advice for a tile of a dtype that is not legal."""
        if self.access == "write":
            return "allocate it with a legal dtype, and cast the result with nisa.tensor_copy"
        return "cast it with nisa.tensor_copy into a tile of a legal dtype"


class State(Enum):
    """Hidden state: values, other than tiles and registers, that an instruction leaves for others.

    `accumulators` and `generators` belong to an engine, on which the instructions that use them
    keep their order. `accumulation` belongs to each tensor in PSUM, and is ordered with it.
    """

    accumulators = "the accumulator registers of its engine"
    generators = "the random number generators of its engine"
    accumulation = "which elements of `dst` a matmul has started"


@dataclass(frozen=True, slots=True)
class StateUse:
    """An access to hidden state that an instruction may make, depending on its parameters.

    Attributes:
        state: the state accessed.
        access: "read", "write" or "update" (both).
    """

    state: State
    access: str


READ_ACCESSES: Final = ("read", "update")
WRITE_ACCESSES: Final = ("write", "update")
"""Values of `Operand.access` with which the instruction reads the tile, and writes it."""


def _operand(operand: Operand, default: Any) -> Any:
    return field(default=default, metadata={"operand": operand})


def reads(
    axes: str,
    *memories: Memory,
    dtypes: tuple[Dtype, ...] = (),
    default: Any = MISSING,
    formerly: tuple[tuple[Memory, Behaviour], ...] = (),
) -> Any:
    """A tile that the instruction reads."""
    operand = Operand("read", tuple(axes.split()), memories, dtypes, formerly=formerly)
    return _operand(operand, default)


def writes(
    axes: str, *memories: Memory, dtypes: tuple[Dtype, ...] = (), default: Any = MISSING
) -> Any:
    """A tile of which the instruction writes every element."""
    return _operand(Operand("write", tuple(axes.split()), memories, dtypes), default)


def updates(axes: str, *memories: Memory, dtypes: tuple[Dtype, ...] = ()) -> Any:
    """A tile of which the instruction writes a part; it must have been written before."""
    return _operand(Operand("update", tuple(axes.split()), memories, dtypes), MISSING)


def names(axes: str, *memories: Memory) -> Any:
    """A tile that the instruction does not access, but orders: no access moves across it."""
    return _operand(Operand("name", tuple(axes.split()), memories, ()), MISSING)


def reads_many(*memories: Memory) -> Any:
    """A tuple of tiles, of any axes and dtypes, that the instruction reads."""
    return _operand(Operand("read", (), memories, (), is_many=True), MISSING)


def writes_many(*memories: Memory) -> Any:
    """A tuple of tiles, of any axes and dtypes, of which the instruction writes every element."""
    return _operand(Operand("write", (), memories, (), is_many=True), MISSING)


def mentions_many(*memories: Memory) -> Any:
    """A tuple of tiles that the instruction neither accesses nor orders, but checks."""
    return _operand(Operand("mention", (), memories, (), is_many=True), MISSING)


def vector_or_number(axes: str, *memories: Memory, default: Any = MISSING) -> Any:
    """A number, or a tile; ``"P 1"``: one element per partition, broadcast along the free axis."""
    return _operand(Operand("read", tuple(axes.split()), memories, (), is_immediate=True), default)


def reads_register(default: Any = MISSING) -> Any:
    """A register that the instruction reads, or a number in its place."""
    return _register("read", default)


def writes_register() -> Any:
    """A register that the instruction fills."""
    return _register("write", MISSING)


HIDDEN_REGISTER: Final = {"register": "write", "is_hidden": True}
"""Metadata of a new register that the instruction fills and that the call in a kernel returns."""


def _register(access: str, default: Any) -> Any:
    return field(default=default, metadata={"register": access})
