"""What instructions touch beyond their operands: the core's facts and its engines' registers.

The Scalar and the Vector Engine each have one float32 accumulator register a lane. They keep their
values between instructions, which is how a reduction spans several tiles.

Source: nki.isa.activation, nki.isa.tensor_scalar_reduce: Accumulator behavior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa.modes import Engine, ReduceCmd
from trnsim.isa.xorwow import GENERATORS, RandomState

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.dtypes import Array, Float32Array


class Accumulator:
    """One float32 register a lane of an engine; `None` when its contents are undefined."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.values: Float32Array | None = None

    def read(self, lanes: int) -> Float32Array:
        """The first `lanes` registers as [lanes, 1].

        Raises:
            UndefinedBehavior: where no instruction has reset them since they became undefined.
        """
        if self.values is None or len(self.values) < lanes:
            raise UndefinedBehavior(
                f"the accumulator registers of the {self._engine.label} are read for {lanes} "
                "lanes, of which no instruction has reset all",
                fix="start the reduction with reduce_cmd=nisa.reduce_cmd.reset_reduce",
                source="nki.isa, Accumulator behavior",
            )
        return self.values[:lanes]

    def write(self, values: Float32Array) -> None:
        """Replace the registers by `values` of shape [lanes, 1]."""
        self.values = np.array(values, np.float32)

    def forget(self) -> None:
        """The contents are undefined from here on."""
        self.values = None


class CoreLink(Protocol):
    """The other NeuronCore of a logical core, as an instruction sees it."""

    def barrier(self) -> None:
        """Wait until the other core is here too."""

    def exchange(self, pipe: int, to_rank: int, from_rank: int, bits: Array) -> Array:
        """Send `bits` to a rank and give what a rank sent on the same pipe."""
        ...


class Machine:
    """One NeuronCore's state outside its memories.

    Attributes:
        core: what the core is.
        accumulators: the accumulator registers of the Scalar and the Vector Engine.
        random: the pseudo-random generators of the Vector and the GpSimd Engine.
        link: the other core of the logical core, or None on one core.
    """

    def __init__(self, core: NeuronCore, link: CoreLink | None = None) -> None:
        self.core = core
        self.link = link
        self.accumulators = {
            engine: Accumulator(engine) for engine in (Engine.scalar, Engine.vector)
        }
        self.random = {engine: RandomState(engine, int(core.partitions)) for engine in GENERATORS}

    def partner(self, opcode: str) -> CoreLink:
        """The link to the other core.

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


IDENTITIES = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "maximum": -np.inf,
    "minimum": np.inf,
    "abs_max": 0.0,
    "abs_min": np.inf,
}
"""What an accumulator holds after a reset, by reduction operator."""

STARTS = (ReduceCmd.reset_reduce, ReduceCmd.load_reduce)
"""Commands that do not look at what the accumulator held."""
