"""The machine state outside operands: engine registers, generators, and links to other cores.

Each instruction declares its accesses to it: `declaration.State`, `Instruction.meeting`.

The Scalar and the Vector Engine each have one float32 accumulator register per lane. It keeps its
value between instructions, so that a reduction can span several tiles.

Source: nki.isa.activation, nki.isa.tensor_scalar_reduce: Accumulator behavior.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array, Float32Array
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.fabric.fabric import Fabric
from trnsim.isa.language.meeting import Exchange, Meeting
from trnsim.isa.language.modes import Engine
from trnsim.isa.numerics.xorwow import GENERATORS, RandomState
from trnsim.memory import Tile


class Accumulator:
    """One float32 register per lane of an engine; undefined until an instruction sets it.

    The lane is that of the partition from which the engine reads: AWS ties "each partition" to
    "the corresponding compute lane" (nki.isa.rand_set_state). For tiles that do not start at
    partition 0 this is assumed: the figure Cross-partition connectivity
    (trainium_inferentia2_arch.rst) can be read otherwise.
    """

    def __init__(self, engine: Engine, lanes: int) -> None:
        self._engine = engine
        self._values = np.zeros((lanes, 1), np.float32)
        self._is_set = np.zeros(lanes, np.bool_)

    def read(self, first_partition: int, lanes: int) -> Float32Array:
        """The registers of `lanes` partitions from `first_partition` on, as [lanes, 1].

        Raises:
            UndefinedBehavior: if one of them is undefined.
        """
        registers = slice(first_partition, first_partition + lanes)
        if not self._is_set[registers].all():
            raise UndefinedBehavior(
                f"the accumulator registers of the {self._engine.label} are read for {lanes} lanes "
                f"from partition {first_partition} on, not all of which an instruction has reset",
                fix="start the reduction with reduce_cmd=nisa.reduce_cmd.reset_reduce",
                source="nki.isa, Accumulator behavior",
            )
        return self._values[registers]

    def write(self, first_partition: int, values: Array) -> None:
        """Set the registers from `first_partition` on to `values` [lanes, 1]."""
        registers = slice(first_partition, first_partition + len(values))
        self._values[registers] = values
        self._is_set[registers] = True

    def forget(self) -> None:
        """Make the contents undefined."""
        self._is_set[:] = False


class CoreLink(Protocol):
    """The link from one NeuronCore to the others of its launch.

    Attributes:
        core: this core's number.
        cores: number of cores of the launch.
    """

    core: int
    cores: int

    def meet(self, meeting: Meeting, bits: Array = ..., data: Tile | None = None) -> Array:
        """Wait until the group is complete.

        Args:
            meeting: the group and the point where it meets.
            bits: the bits for the following core.
            data: a tensor on which all cores of the group have the same values afterwards.

        Returns:
            The bits sent by the previous core.
        """
        ...


class RankLink(Protocol):
    """The link from one NeuronCore to the NeuronCores of other ranks.

    Attributes:
        rank: the number of this core's rank.
        ranks: number of ranks.
        core: this core's number in its rank.
        fabric: the fabric of the ranks.
    """

    rank: int
    ranks: int
    core: int
    fabric: Fabric

    def exchange(self, exchange: Exchange) -> Sequence[Array]:
        """Wait until the group is complete; returns the arrays that this core receives.

        Cores of a rank that offer the same tensors receive the same arrays. Each of them writes the
        arrays, and then waits until the others have written theirs.
        """
        ...

    def is_among(self, ranks: Container[int]) -> bool:
        """True if this rank is one of `ranks`."""
        ...

    def number_was_read(self) -> None:
        """Called when the kernel reads a value that depends on the number of the rank."""
        ...


class Machine:
    """One NeuronCore's state outside its memories.

    Attributes:
        core: the core's hardware description.
        link: the link to the other cores of the launch, or None on one core.
        ranks: the link to the cores of other ranks, or None in a run without ranks.
    """

    def __init__(
        self, core: NeuronCore, link: CoreLink | None = None, ranks: RankLink | None = None
    ) -> None:
        self.core = core
        self.link = link
        self.ranks = ranks

    @cached_property
    def accumulators(self) -> dict[Engine, Accumulator]:
        """Engine -> its accumulator registers; made at their first use."""
        lanes = int(self.core.partitions)
        return {engine: Accumulator(engine, lanes) for engine in (Engine.scalar, Engine.vector)}

    @cached_property
    def random(self) -> dict[Engine, RandomState]:
        """Engine -> its pseudo-random generators; made at their first use."""
        lanes = int(self.core.partitions)
        return {engine: RandomState(engine, lanes) for engine in GENERATORS}

    def core_link(self, opcode: str) -> CoreLink:
        """The link to the other cores, for the instruction `opcode`.

        Raises:
            IllegalInstruction: on a single core.
        """
        if self.link is None:
            raise IllegalInstruction(
                f"{opcode} in a kernel launched on one core; legal with two: kernel[2](...)",
                fix="launch the kernel as kernel[2], or leave the instruction out on one core",
                source=f"nki.isa.{opcode}",
            )
        return self.link

    def world(self, opcode: str) -> RankLink:
        """The link to the other ranks, for the instruction `opcode`.

        Raises:
            IllegalInstruction: in a run without ranks.
        """
        if self.ranks is None:
            raise IllegalInstruction(
                f"{opcode} in a run without ranks; legal: in a world of ranks, be it of one",
                fix="run the kernel as trnsim.run(kernel, ..., ranks=N), or with "
                "`trnsim run --ranks N`",
                source=f"nki.collectives.{opcode}",
            )
        return self.ranks


Plan: TypeAlias = Callable[[Any, Machine], None]
"""A function that executes an instruction, as its `execute` does."""


class BatchPlan(NamedTuple):
    """A way to execute many instructions at once that do not depend on each other.

    `run` takes them as one instruction, whose tiles have one more dimension in front: the number of
    the instruction. The results are bit for bit those of the single instructions, in any order. No
    hidden state of an engine is read or written, so no later instruction may read it.

    Attributes:
        run: the function that executes that one instruction.
        may_refuse: whether values can make an instruction illegal; then `run` raises an error.
    """

    run: Plan
    may_refuse: bool = False


IDENTITIES = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "maximum": -np.inf,
    "minimum": np.inf,
    "abs_max": 0.0,
    "abs_min": np.inf,
}
"""Operator of a reduction -> its identity: the value of an accumulator after a reset."""
