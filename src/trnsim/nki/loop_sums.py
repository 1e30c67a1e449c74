"""Sums in PSUM over the turns of a device loop.

A device loop has one copy of its body, so a matmul in it has one flag for all turns: to overwrite
or to add. With accumulate=None the compiler infers the flag. Where the first turn would overwrite
and a later one add, no document says which it is.

Source: nki-dynamic-loops.rst, Hardware Lowering; nki/migration/index.rst, Rules for migrated loops
("Keep cross-iteration state in SBUF or HBM"); nki.isa.nc_matmul, Accumulation mode.
"""

from __future__ import annotations

from trnsim.errors import Unspecified
from trnsim.isa import NcMatmul, NcMatmulMx
from trnsim.isa.tensor.tensor_engine import is_fresh, is_started
from trnsim.memory import Memory
from trnsim.nki.notices import is_simulator
from trnsim.nki.tensor import NkiTensor
from trnsim.program import current_core


def refuse_turns_that_differ(matmul: NcMatmul | NcMatmulMx) -> None:
    """Refuse a matmul in a device loop that overwrites in one turn and adds in another.

    AWS's simulator, whose loops are Python's, and runs without values are left alone.

    Raises:
        Unspecified: for such a matmul with accumulate=None.
    """
    core, dst = current_core(), matmul.dst
    if matmul.accumulate is not None or not core.nesting.turns or not core.has_values:
        return
    is_psum = isinstance(dst, NkiTensor) and dst.memory is Memory.PSUM and dst.index is None
    if not is_psum or is_simulator() or getattr(matmul, "is_transpose", False):
        return
    if core.nesting.agrees((is_fresh(dst), is_started(dst))):
        return
    raise Unspecified(
        f"{matmul.opcode}: accumulate=None onto {dst} in a device loop, of which one turn "
        "overwrites and another adds; AWS documents one copy of the body, and sums over turns in "
        "SBUF or HBM alone",
        fix="allocate dst in the body and add it to a tile in SBUF; or begin the sum before the "
        "loop with accumulate=False, and pass accumulate=True in the body",
        source="nki/migration/index.rst, Rules for migrated loops; nki-dynamic-loops.rst",
    )
