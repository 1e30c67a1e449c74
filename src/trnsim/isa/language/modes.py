"""The enumerations of `nki.isa`, under AWS's own names and values.

Source: nki.isa (engine, dge_mode, oob_mode, matmul_perf_mode, reduce_cmd, nc_version).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from trnsim.arch import cores
from trnsim.enumerations import Enumeration


class Engine(Enumeration, public="nisa.engine"):
    """An engine: the unit that executes an instruction."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6
    collective = 7

    # Members are dictionary keys on the hot issue path; Enum's own hash is slow Python code.
    __hash__ = object.__hash__

    @property
    def label(self) -> str:
        """The full name: "Vector Engine"."""
        return _LABELS[self]

    @classmethod
    def public_names(cls) -> list[str]:
        """The names of the engines for which programs may ask."""
        return [name for name in super().public_names() if name != cls.collective.name]


_LABELS = {
    Engine.unknown: "unknown engine",
    Engine.tensor: "Tensor Engine",
    Engine.scalar: "Scalar Engine",
    Engine.gpsimd: "GpSimd Engine",
    Engine.dma: "DMA",
    Engine.vector: "Vector Engine",
    Engine.sync: "Sync Engine",
    Engine.collective: "CC-Core",
}


class DgeMode(Enumeration, public="nisa.dge_mode"):
    """The generator of a DMA's descriptors: software, hardware or none."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class OobMode(Enumeration, public="nisa.oob_mode"):
    """Handling of out-of-bounds indices: an error, or no transfer of their elements."""

    error = 0
    skip = 1

    __hash__ = object.__hash__


class MatmulPerfMode(Enumeration, public="nisa.matmul_perf_mode"):
    """Performance mode of the Tensor Engine."""

    none = "none"
    double_row = "double_row"

    __hash__ = object.__hash__


class ReduceCmd(Enumeration, public="nisa.reduce_cmd"):
    """Command to an engine's accumulator registers.

    Attributes:
        idle: no reduction.
        reset: set the registers to the identity of the operator.
        reduce: reduce into the current values.
        reset_reduce: reset, then reduce.
        load_reduce: start from a given value, then reduce.
    """

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


class NcVersion(IntEnum, Enumeration, public="nisa.nc_version"):
    """NeuronCore generation, ordered so that kernels can ask for "gen3 and later".

    It has a member for each core in the table of targets: gen2, gen3, gen4.
    """

    vars().update({f"gen{core.generation}": core.generation for core in cores()})

    @classmethod
    def _missing_(cls, value: object) -> Any:
        """The generation of a target that extends the table of targets."""
        generations = {core.generation for core in cores()}
        if not isinstance(value, int) or value not in generations:
            cls.refuse_member(value, f"({value!r})")
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"gen{value}", value
        return member
