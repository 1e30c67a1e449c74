"""The body of a device loop: every turn (iteration) has the same instructions.

AWS traces the body once, and the device runs that copy in each turn (nki-dynamic-loops.rst,
Hardware Lowering). Here Python runs the body in each turn, so a body whose Python has a state of
its own would issue other instructions in later turns, and is refused. Functions of nki.language are
compared by the instructions that they issue, before broadcasts that were left in PSUM replace their
copies in SBUF as operands (`settling`). Once Python has read a register (int(i), before NKI 0.7),
turns may differ with its value, and no more turns of the outermost loop are compared.

A matmul has one flag for all turns: to overwrite or to add. With accumulate=None the compiler
infers it. No document says which it is if the first turn would overwrite and a later one add.
"""

from __future__ import annotations

from typing import Final

from trnsim.errors import IllegalInstruction, Unspecified
from trnsim.isa import Instruction, NcMatmul, NcMatmulMx, Scalar, VirtualRegister
from trnsim.isa.tensor.tensor_engine import is_fresh, is_started
from trnsim.memory import Memory, Tile
from trnsim.nki.notices import is_simulator
from trnsim.nki.register_loops import leave_ended_loops
from trnsim.program import current_core
from trnsim.program.edges import Nesting

_ISSUED: Final = "instruction"
"""Key under which the nesting of loops records the instructions of the first turn."""
_SUM: Final = "sum"
"""Key under which the nesting of loops records the states of sums in PSUM."""
_SOURCE: Final = "nki-dynamic-loops.rst, Hardware Lowering; nki/migration/index.rst, fori_loop"
_FIX: Final = (
    "keep what changes from turn to turn in SBUF or HBM, or use the loop's variable; make "
    "constants before the loop; or unroll the loop: for i in range(n)"
)


def check_turn(instruction: Instruction) -> None:
    """Refuse an instruction of a device loop's body that earlier turns have not had there.

    Raises:
        IllegalInstruction: for such an instruction, which the kernel's Python chose.
        Unspecified: for a matmul that overwrites in one turn and adds in another.
    """
    if is_simulator():
        return
    check_call(instruction.opcode, *instruction.__dict__.values())
    if isinstance(instruction, NcMatmul | NcMatmulMx):
        _check_sum(instruction)


def check_call(name: str, *operands: object) -> None:
    """Refuse a call in a device loop's body that differs from the one of earlier turns.

    Numbers and tensors, which Python chooses, are compared; the values of registers and scalars
    may differ.

    Args:
        name: name of the instruction or the function, such as "nl.fori_loop".
        operands: its operands.

    Raises:
        IllegalInstruction: for such a call.
    """
    core = current_core()
    nesting = core.nesting
    if nesting.turns:
        leave_ended_loops(core)
    if not nesting.turns or nesting.is_read or is_simulator():
        return
    call = (name, _fixed_properties(operands, nesting))
    if nesting.earlier(_ISSUED, call) != call:
        _refuse(f"{name} in a later turn of a device loop, where earlier turns")


def check_end_of_turn() -> None:
    """Refuse a turn of a device loop with fewer instructions than those before it.

    Raises:
        IllegalInstruction: for such a turn.
    """
    nesting = current_core().nesting
    if not nesting.is_read and not is_simulator() and not nesting.ends_alike(_ISSUED):
        _refuse("a turn of a device loop that ends where earlier turns")


def _refuse(usage: str) -> None:
    raise IllegalInstruction(
        f"{usage} had another instruction, or the same with other operands; legal: the same "
        "instructions in each turn, as the body is traced once and its Python runs once",
        fix=_FIX,
        source=_SOURCE,
    )


def _fixed_properties(value: object, nesting: Nesting) -> object:
    """The properties of an operand that must not change from turn to turn.

    A tensor that the body allocates has another serial number in each turn, so it is identified by
    the number of running turns in which it was allocated; a tensor of an earlier turn differs. One
    that several cores share is not compared by serial, as another core may have allocated it.
    """
    if isinstance(value, Tile):
        storage, serial = value.storage, value.storage.serial
        identity: object = serial
        if storage.is_placed:
            identity = storage.memory  # its pattern has its address
        elif storage.is_shared and not storage.is_argument:
            identity = None
        elif serial > nesting.since:
            identity = "turn", nesting.depth(serial)
        index = value.index and (
            value.index.__class__,
            _fixed_properties(value.index.source, nesting),
        )
        return (identity, value.pattern, value.dtype, index)
    if isinstance(value, tuple):
        return tuple(_fixed_properties(part, nesting) for part in value)
    if isinstance(value, VirtualRegister):
        return (value.__class__, value.formula)
    if isinstance(value, Scalar):
        return value.__class__
    return (value.__class__, repr(value) if isinstance(value, float) else value)


def _check_sum(matmul: NcMatmul | NcMatmulMx) -> None:
    core, dst = current_core(), matmul.dst
    if matmul.accumulate is not None or not core.has_values:
        return
    is_tile = isinstance(dst, Tile)  # pyright: ignore[reportUnnecessaryIsInstance]  a user's object
    is_psum = is_tile and dst.memory is Memory.PSUM and dst.index is None
    if not is_psum or getattr(matmul, "is_transpose", False):
        return
    state = is_fresh(dst), is_started(dst)
    if core.nesting.earlier(_SUM, state) in (state, None):
        return
    raise Unspecified(
        f"{matmul.opcode}: accumulate=None onto {dst} in a device loop, of which one turn "
        "overwrites and another adds; AWS documents one copy of the body, and sums over turns in "
        "SBUF or HBM alone",
        fix="allocate dst in the body and add it to a tile in SBUF; or begin the sum before the "
        "loop with accumulate=False, and pass accumulate=True in the body",
        source="nki/migration/index.rst, Rules for migrated loops; nki-dynamic-loops.rst",
    )
