"""What instructions touch beyond their operands: the core's facts and its engines' registers.

Each instruction declares what of it: `declaration.State`, `Instruction.meeting`.

The Scalar and the Vector Engine each have one float32 accumulator register a lane. They keep their
values between instructions, which is how a reduction spans several tiles.

Source: nki.isa.activation, nki.isa.tensor_scalar_reduce: Accumulator behavior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa.language.modes import Engine
from trnsim.isa.numerics.xorwow import GENERATORS, RandomState

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.dtypes import Array, Float32Array
    from trnsim.isa.language.meeting import Meeting
    from trnsim.memory import Tile


class Accumulator:
    """One float32 register a lane of an engine; undefined until an instruction sets it.

    A lane is that of the partition where the engine reads: AWS ties "each partition" to "the
    corresponding compute lane" (nki.isa.rand_set_state). Assumed for tiles that do not start at
    partition 0, as the figure Cross-partition connectivity (trainium_inferentia2_arch.rst) can be
    read otherwise.
    """

    def __init__(self, engine: Engine, lanes: int) -> None:
        self._engine = engine
        self._values = np.zeros((lanes, 1), np.float32)
        self._is_set = np.zeros(lanes, np.bool_)

    def read(self, first: int, lanes: int) -> Float32Array:
        """The registers of `lanes` partitions from `first` on, as [lanes, 1].

        Raises:
            UndefinedBehavior: where no instruction has reset them since they became undefined.
        """
        if not self._is_set[first : first + lanes].all():
            raise UndefinedBehavior(
                f"the accumulator registers of the {self._engine.label} are read for {lanes} "
                f"lanes from partition {first} on, of which no instruction has reset all",
                fix="start the reduction with reduce_cmd=nisa.reduce_cmd.reset_reduce",
                source="nki.isa, Accumulator behavior",
            )
        return self._values[first : first + lanes]

    def write(self, first: int, values: Array) -> None:
        """Set the registers from partition `first` on to `values` [lanes, 1], and no others."""
        self._values[first : first + len(values)] = values
        self._is_set[first : first + len(values)] = True

    def forget(self) -> None:
        """The contents are undefined from here on."""
        self._is_set[:] = False


class CoreLink(Protocol):
    """The other NeuronCores of a launch, as an instruction of one sees them.

    Attributes:
        rank: this core's number.
        cores: how many there are.
    """

    rank: int
    cores: int

    def meet(self, meeting: Meeting, sent: Array = ..., data: Tile | None = None) -> Array:
        """Wait until the group is complete.

        Args:
            meeting: the group and where it meets.
            sent: the bits for the core that follows.
            data: what all of the group then see.

        Returns:
            The bits of the core before.
        """
        ...


class Machine:
    """One NeuronCore's state outside its memories.

    Attributes:
        core: what the core is.
        accumulators: the accumulator registers of the Scalar and the Vector Engine.
        random: the pseudo-random generators of the Vector and the GpSimd Engine.
        link: the other cores of the launch, or None on one core.
    """

    def __init__(self, core: NeuronCore, link: CoreLink | None = None) -> None:
        self.core = core
        self.link = link
        lanes = int(core.partitions)
        self.accumulators = {
            engine: Accumulator(engine, lanes) for engine in (Engine.scalar, Engine.vector)
        }
        self.random = {engine: RandomState(engine, lanes) for engine in GENERATORS}

    def partner(self, opcode: str) -> CoreLink:
        """The link to the other cores.

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
