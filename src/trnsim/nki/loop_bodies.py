"""The one body of a device loop: every turn has the same instructions.

AWS traces the body once, and the device runs that copy in each turn (nki-dynamic-loops.rst,
Hardware Lowering). Here Python runs the body in each turn, so a body whose Python has a state of
its own would issue other instructions in later turns. That of nl.fori_loop and nl.while_loop is
refused, for instructions of nki.isa: those of nki.language depend on where its functions have left
their results, and are not compared. In loops of nl.dynamic_range numbers may come from the
register, as in nl.ds(i * 64, 64), so that turns cannot be compared.

A matmul has one flag for all turns: to overwrite or to add. With accumulate=None the compiler
infers it. Where the first turn would overwrite and a later one add, no document says which it is.
"""

from __future__ import annotations

from typing import Final, overload

from trnsim.errors import IllegalInstruction, Unspecified
from trnsim.isa import Instruction, NcMatmul, NcMatmulMx, Scalar, VirtualRegister
from trnsim.isa.tensor.tensor_engine import is_fresh, is_started
from trnsim.memory import Memory, Tile
from trnsim.nki.notices import is_simulator
from trnsim.nki.scalars import running_turns
from trnsim.nki.tensor import NkiTensor
from trnsim.program import current_core
from trnsim.program.edges import Nesting

_ISSUED: Final = "instruction"
_SUM: Final = "sum"
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
    if running_turns():
        nesting = current_core().nesting
        note = _parts(tuple(instruction.__dict__.values()), nesting)
        if nesting.earlier(_ISSUED, (instruction.__class__, note)) != (instruction.__class__, note):
            _refuse(f"{instruction.opcode} in a later turn of a device loop, where earlier turns")
    if isinstance(instruction, NcMatmul | NcMatmulMx):
        _check_sum(instruction)


def check_loop(loop: str, *bounds: object) -> None:
    """Refuse a device loop in another's body that earlier turns have not had there.

    Bounds that are numbers are those of Python, and compared; registers and scalars may differ.

    Args:
        loop: name of the function, such as "nl.fori_loop".
        bounds: first value, end and step, if it has them.

    Raises:
        IllegalInstruction: for such a loop.
    """
    if is_simulator() or not running_turns():
        return
    nesting = current_core().nesting
    is_fixed = running_turns() == len(nesting.turns)
    note = (loop, tuple(bound if is_fixed else None for bound in _parts(bounds, nesting)))
    if nesting.earlier(_ISSUED, note) != note:
        _refuse(f"{loop} in a later turn of a device loop, where earlier turns")


def check_end_of_turn() -> None:
    """Refuse a turn of a device loop with fewer instructions than those before it.

    Raises:
        IllegalInstruction: for such a turn.
    """
    if not is_simulator() and not current_core().nesting.ends_alike(_ISSUED):
        _refuse("a turn of a device loop that ends where earlier turns")


def _refuse(what: str) -> None:
    raise IllegalInstruction(
        f"{what} had another instruction, or the same with other operands; legal: the same "
        "instructions in each turn, as the body is traced once and its Python runs once",
        fix=_FIX,
        source=_SOURCE,
    )


@overload
def _parts(value: tuple[object, ...], nesting: Nesting) -> tuple[object, ...]: ...
@overload
def _parts(value: object, nesting: Nesting) -> object: ...
def _parts(value: object, nesting: Nesting) -> object:
    """The properties of an operand that must not change from turn to turn.

    The number of a register, or of a tensor that the body allocates, may change. In a loop of
    nl.dynamic_range the access pattern may change too, and only its shape is compared.
    """
    if isinstance(value, Tile):
        serial = value.storage.root_serial
        is_fixed = running_turns() == len(nesting.turns)
        part = value.pattern if is_fixed else value.shape
        index = value.index and (value.index.__class__, _parts(value.index.source, nesting))
        return (serial if serial < nesting.since else None, part, value.dtype, index)
    if isinstance(value, tuple):
        return tuple(_parts(part, nesting) for part in value)
    if isinstance(value, VirtualRegister | Scalar):
        return value.__class__
    return (value.__class__, repr(value) if isinstance(value, float) else value)


def _check_sum(matmul: NcMatmul | NcMatmulMx) -> None:
    core, dst = current_core(), matmul.dst
    if matmul.accumulate is not None or not core.has_values:
        return
    is_psum = isinstance(dst, NkiTensor) and dst.memory is Memory.PSUM and dst.index is None
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
