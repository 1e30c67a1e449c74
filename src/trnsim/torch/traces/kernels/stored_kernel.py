"""The stored form of an NKI kernel: its tensors and the instructions that it issues on them.

It is of one chip, and of the shapes of one call. The instructions are stored as the kernel issued
them: a kernel that issues them again (`issuer`) is checked, computed and timed as a user's is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from trnsim.isa import Instruction, Scalar, VirtualRegister
from trnsim.memory import Tile
from trnsim.memory.index import Register, ScalarIndex, SnakeIndex, VectorIndex
from trnsim.nki.indexing import MemoryRegion
from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.kernels.typed_json import field_types, from_json, legal_types, to_json


class TensorPlace(Enum):
    """The place of a kernel's tensor: what it is to the kernel, or its memory."""

    argument = "argument"
    constant = "constant"
    hbm = "HBM"
    shared_hbm = "shared HBM"
    sbuf = "SBUF"
    psum = "PSUM"


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of the kernel's program."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """A tensor of a kernel, without values.

    Attributes:
        dtype: its dtype's name in NKI.
        name: its name in messages, or "".
        address: first partition and byte within the partitions, where the kernel fixed them.
        content: the bytes of a constant, in base64; "" for others.
        line: the index of the line that made it.
    """

    place: TensorPlace
    shape: tuple[int, ...]
    dtype: str
    name: str
    address: tuple[int, int] | None
    content: str
    line: int | None


@dataclass(frozen=True, slots=True)
class StoredTile:
    """A tile: the elements of a tensor that an instruction accesses.

    Attributes:
        shape: lengths in elements.
        strides_bytes: a step for each dimension.
        offset_bytes: the place of the first element.
        index: the index of the accessed elements; its `source` is a stored tile or register.
    """

    tensor: int
    dtype: str
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    offset_bytes: int
    index: ScalarIndex | VectorIndex | SnakeIndex | None


@dataclass(frozen=True, slots=True)
class StoredRegister:
    """A register, or a scalar of the device, that an instruction reads or fills.

    Attributes:
        value: the integer that it holds; None for one that is filled, or comes from memory.
        origins: the instructions that its value comes from.
        dtype: a scalar's dtype; None for a register.
        is_comparison: whether it is a scalar that tells the result of a comparison.
    """

    value: int | None
    origins: tuple[int, ...]
    dtype: str | None
    is_comparison: bool


@dataclass(frozen=True, slots=True)
class StoredInstruction:
    """An instruction.

    Attributes:
        operands: the values of its fields; tiles and registers in their stored forms.
        line: the index of the line that issued it.
    """

    opcode: str
    operands: dict[str, Any]
    line: int | None


@dataclass(frozen=True, slots=True)
class StoredEdge:
    """An order between two instructions that the kernel asked for (`program.edges.Edge`)."""

    consumer: int
    producer: int
    waits: bool
    form: str
    text: str
    line: int | None


@dataclass(frozen=True, slots=True)
class KernelResult:
    """A tensor that the kernel returns."""

    tile: StoredTile
    region: MemoryRegion


@dataclass(frozen=True, slots=True)
class StoredCore:
    """The instructions of one core.

    Attributes:
        tensors: the tensors that it makes, in order; they are numbered after the arguments.
        blocks: first and end of the instructions of each `nl.no_reorder`.
        edges: the orders of issue and the semaphores that the kernel asked for.
        instructions: its instructions in order.
    """

    tensors: tuple[KernelTensor, ...]
    blocks: tuple[tuple[int, int], ...]
    edges: tuple[StoredEdge, ...]
    instructions: tuple[StoredInstruction, ...]


@dataclass(frozen=True)
class StoredKernel:
    """A kernel.

    Attributes:
        version: the version of NKI whose rules it follows.
        may_spill: False if it refuses to be spilled.
        line: the index of the line of its definition.
        cores: what each core that runs it issues.
        results: the tensors that it returns, of the first core.
    """

    title: str
    version: str
    may_spill: bool
    line: int | None
    lines: tuple[StoredLine, ...]
    arguments: tuple[KernelTensor, ...]
    cores: tuple[StoredCore, ...]
    results: tuple[KernelResult, ...]

    def to_json(self) -> Any:
        """The kernel as JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, value: Any, path: str) -> StoredKernel:
        """The kernel of JSON of the right types; `kernel_checks` checks what these leave open.

        Raises:
            MalformedProgram: for another name or type of a member; names the field.
        """
        kernel: StoredKernel = from_json(cls, value, path, FORMS)
        cores = tuple(
            replace(
                core,
                instructions=_with_typed_operands(core.instructions, f"{path}.cores[{number}]"),
            )
            for number, core in enumerate(kernel.cores)
        )
        return replace(kernel, cores=cores)


FORMS: Final[dict[Any, Any]] = {
    Tile: StoredTile,
    VirtualRegister: StoredRegister,
    Scalar: StoredRegister,
    Register: StoredRegister,
}
"""The types of operands, and the forms that stand for them."""


def is_storable(instruction_class: Any) -> bool:
    """True for a class of instructions whose operands all have a stored form; not collectives."""
    kinds = set[Any]().union(*map(legal_types, field_types(instruction_class).values()))
    stored_kinds = {*FORMS, str, bool, int, float, type(None)}
    return all(item in stored_kinds or issubclass(item, Enum) for item in kinds)


def _with_typed_operands(
    instructions: tuple[StoredInstruction, ...], path: str
) -> tuple[StoredInstruction, ...]:
    """Instructions of JSON with operands of the types of their classes' fields."""
    return tuple(
        replace(item, operands=_operands(item, f"{path}.instructions[{number}]"))
        for number, item in enumerate(instructions)
    )


def _operands(instruction: StoredInstruction, path: str) -> dict[str, Any]:
    """The operands of an instruction, of the types of its class's fields."""
    instruction_class: Any = Instruction.registry.get(instruction.opcode)
    if instruction_class is None or not is_storable(instruction_class):
        raise MalformedProgram(f"{path}.opcode: {instruction.opcode[:40]!r}, none of a kernel's")
    types, operands = field_types(instruction_class), instruction.operands
    if operands.keys() != types.keys():
        raise MalformedProgram(
            f"{path}.operands: {', '.join(operands)[:80]}; legal: {', '.join(types)}"
        )
    return {
        name: from_json(
            # None for an operator is read: the instruction knows whether it takes it.
            hint | None if hint is str else hint,
            operands[name],
            f"{path}.operands.{name}",
            FORMS,
        )
        for name, hint in types.items()
    }
