"""Traffic of each distinct instruction: bytes by memory, FLOPs by kind.

Everything follows from an instruction's declared operands, cost and movement; no rule here names an
instruction's class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import FLOAT32
from trnsim.isa import Engine
from trnsim.isa.language.declaration import READ_ACCESSES, WRITE_ACCESSES
from trnsim.memory import Memory
from trnsim.program import Checked, Program
from trnsim.timing.occupancy import Integers

_FP32_WEIGHT: Final = 4.0
_MX_WEIGHT: Final = 0.25
_FP32_MATMULS: Final = 2


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes and FLOPs of one instruction.

    Attributes:
        flops: FLOPs of the Tensor Engine, transposes included.
        bf16_weight: number of BF16 FLOPs that take as long as one FLOP of the instruction.
    """

    hbm_read_bytes: int
    hbm_write_bytes: int
    sbuf_read_bytes: int
    sbuf_write_bytes: int
    psum_read_bytes: int
    psum_write_bytes: int
    flops: int
    transpose_flops: int
    bf16_weight: float

    @property
    def matmuls(self) -> int:
        """MATMUL instructions of the hardware: two of float32, each of two passes.

        Source: kernel-optimization.rst, v5-pe.png: 65,536 of 32,768 nc_matmul of float32.
        """
        if not self.flops:
            return 0
        return _FP32_MATMULS if self.bf16_weight == _FP32_WEIGHT else 1

    @property
    def psum_to_sbuf_bytes(self) -> int:
        """Bytes read from PSUM by an instruction that writes to SBUF."""
        return self.psum_read_bytes if self.sbuf_write_bytes else 0


def traffic_of(checked: Checked, core: NeuronCore) -> Traffic:
    """The traffic of one instruction on a core."""
    read_bytes, written_bytes = dict.fromkeys(Memory, 0), dict.fromkeys(Memory, 0)
    for operand, tile in checked.instruction.tiles():
        if operand.access in READ_ACCESSES:
            read_bytes[tile.memory] += tile.nbytes
        if operand.access in WRITE_ACCESSES:
            written_bytes[tile.memory] += tile.nbytes
    flops = round(checked.cost.flops)
    # The only data movement of the Tensor Engine is a transpose.
    is_transpose = checked.engine is Engine.tensor and checked.instruction.movement() is not None
    return Traffic(
        read_bytes[Memory.HBM],
        written_bytes[Memory.HBM],
        read_bytes[Memory.SBUF],
        written_bytes[Memory.SBUF],
        read_bytes[Memory.PSUM],
        written_bytes[Memory.PSUM],
        flops,
        flops if is_transpose else 0,
        _bf16_weight(checked, core) if flops else 1.0,
    )


def _bf16_weight(checked: Checked, core: NeuronCore) -> float:
    """BF16 FLOPs that take as long as one FLOP.

    Source: profile-schema-reference.rst, adjusted_hardware_flops.
    """
    dtypes = [t.dtype for operand, t in checked.instruction.tiles() if operand.access == "read"]
    if any(dtype.is_packed for dtype in dtypes):
        return _MX_WEIGHT
    if any(dtype is FLOAT32 for dtype in dtypes):
        return _FP32_WEIGHT
    if all(dtype.itemsize == 1 for dtype in dtypes):
        return float(core.features.fp8_bfloat16_flops)
    return 1.0


class Totals:
    """Sums over all issued instructions of a program.

    Attributes:
        by_distinct: the traffic of each distinct instruction.
        counts: the number of times that each distinct instruction was issued.
    """

    def __init__(self, program: Program) -> None:
        self.by_distinct = [traffic_of(checked, program.core) for checked in program.checked]
        issued_kinds = np.array(program.which, np.int64)
        self.counts: Integers = np.bincount(issued_kinds, minlength=len(program.checked))

    def of(self, name: str) -> int:
        """The sum of a property of `Traffic`."""
        return int(np.dot(self.column(name), self.counts))

    @property
    def model_flops(self) -> int:
        """FLOPs that are not transposes."""
        return self.of("flops") - self.of("transpose_flops")

    def weighted(self, name: str) -> int:
        """The sum of a FLOP property of `Traffic`, in BF16-equivalent FLOPs."""
        weights = np.array([traffic.bf16_weight for traffic in self.by_distinct], np.float64)
        return round(float(np.dot(self.column(name) * weights, self.counts)))

    def column(self, name: str) -> Integers:
        """A property of each distinct instruction, as an array."""
        return np.array([getattr(traffic, name) for traffic in self.by_distinct], np.int64)
