"""Reduction across partitions on the GpSimd Engine: tensor_partition_reduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import as_stored, lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operands import check_bitvec
from trnsim.isa.language.operator_tables import ALU
from trnsim.memory import Tile

PARTITION_REDUCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "add": np.add.reduce,
    "average": np.mean,
    "maximum": np.maximum.reduce,
    "bitwise_or": np.bitwise_or.reduce,
    "bitwise_and": np.bitwise_and.reduce,
}
"""Legal `op` -> its reduction along axis 0."""

_BITVEC: Final = ("bitwise_or", "bitwise_and")


class TensorPartitionReduce(Instruction, engines=(Engine.gpsimd,)):
    """``dst = reduce(op, data) over the partition axis``.

    dst is [1, F], data [P, F]; both in SBUF, as GpSimd cannot access PSUM. Arithmetic is float32.
    """

    result_depends_on = "same element"

    dst: Tile = writes("1 F", SBUF)
    op: str
    data: Tile = reads("P F", SBUF)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`op` is add, average, maximum, bitwise_or or bitwise_and.

        - Bitvec operators take integers.
        """
        del core, n
        if self.op not in PARTITION_REDUCTIONS:
            self.refuse(
                f"op {self.op}; legal: {', '.join(PARTITION_REDUCTIONS)}", "use one of them"
            )
        if self.op in _BITVEC:
            check_bitvec(self, ALU[self.op], self.data, self.dst)

    def execute(self, machine: Machine) -> None:
        """Float32, or bits as stored for bitvec operators; rounded once on write."""
        del machine
        reduce = PARTITION_REDUCTIONS[self.op]
        if self.op in _BITVEC:
            bits = reduce(self.data.bits(), axis=0)
            self.dst.store(as_stored(bits, self.dst.dtype.dtype))
        else:
            self.dst.store(reduce(self.data.load(), axis=0))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """150 + F GpSimd Engine cycles: assumed, a column of 16 partitions per core and cycle."""
        return lane_cost(core, Engine.gpsimd, core.gpsimd_overhead_cycles + n.F)
