"""The enumerations of `nki.isa`, under AWS's own names and values.

Source: nki.isa (engine, dge_mode, oob_mode, matmul_perf_mode, reduce_cmd, nc_version).
"""

from __future__ import annotations

from enum import Enum, IntEnum

from trnsim.arch import cores


class Engine(Enum):
    """Who executes an instruction."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6

    # Modes are part of what the issue path looks up; Enum's own hash is Python code.
    __hash__ = object.__hash__

    @property
    def label(self) -> str:
        """The name that people use: "Vector Engine"."""
        return _LABELS[self]


_LABELS = {
    Engine.unknown: "unknown engine",
    Engine.tensor: "Tensor Engine",
    Engine.scalar: "Scalar Engine",
    Engine.gpsimd: "GpSimd Engine",
    Engine.dma: "DMA",
    Engine.vector: "Vector Engine",
    Engine.sync: "Sync Engine",
}


class DgeMode(Enum):
    """Who makes the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class OobMode(Enum):
    """What an out-of-bounds index does."""

    error = 0
    skip = 1

    __hash__ = object.__hash__


class MatmulPerfMode(Enum):
    """Performance mode of the Tensor Engine."""

    none = "none"
    double_row = "double_row"

    __hash__ = object.__hash__


class ReduceCmd(Enum):
    """What an instruction does with its engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


class NcVersion(IntEnum):
    """NeuronCore generation: an order, so that kernels can ask for "gen3 and later".

    A member for each core of the table of targets: gen2, gen3, gen4.
    """

    vars().update({f"gen{core.generation}": core.generation for core in cores()})

    @classmethod
    def _missing_(cls, value: object) -> NcVersion | None:
        """The generation of a target that has joined the table since."""
        generations = {core.generation for core in cores()}
        if not isinstance(value, int) or value not in generations:
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"gen{value}", value
        return member
