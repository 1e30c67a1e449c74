"""Pseudo-random numbers: rng, rand2, dropout, and the state of their generators.

`trnsim.isa.numerics.xorwow` has our choices where AWS does not describe the generators.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.arch import Has, NeuronCore
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    TFLOAT32,
    UINT8,
    UINT16,
    UINT32,
    Array,
)
from trnsim.isa.language.declaration import State, StateUse, reads, vector_or_number, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import free_axis_operand, lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operands import check_float32
from trnsim.isa.language.support import check_support
from trnsim.isa.numerics.xorwow import GENERATORS, STATE_WORDS
from trnsim.memory import Tile

_INTEGERS: Final = (INT8, INT16, INT32, UINT8, UINT16, UINT32)
_FLOATS: Final = (FLOAT8_E4M3, FLOAT8_E5M2, FLOAT16, BFLOAT16, FLOAT32, TFLOAT32)
_SEED_BYTES: Final = 4
_RANK: Final = 2
# float32 has a 24-bit significand, so these fractions in [0, 1) are exact.
_LOW_BITS: Final = np.uint32(8)
_FRACTION: Final = np.float32(2.0**-24)
_WORD_FRACTION: Final = 2.0**-32


def _check_engine(instruction: Instruction, core: NeuronCore, predicate: Has) -> None:
    """Refuse a core for which `predicate` is false, and PSUM on GpSimd.

    Args:
        instruction: the instruction.
        core: the core that runs it.
        predicate: whether a core's engine has the instruction.
    """
    engine = instruction.chosen_engine(core)
    check_support(
        instruction,
        core,
        predicate,
        "name another engine, or another target",
        request=f"on the {engine.label} of {core.name}",
    )
    in_psum = [tile for _, tile in instruction.tiles() if tile.memory is PSUM]
    if in_psum and engine is Engine.gpsimd:
        instruction.refuse(
            f"engine=nisa.engine.gpsimd with {in_psum[0]}; legal: SBUF", "allocate the tile in SBUF"
        )


def _random_cost(core: NeuronCore, engine: Engine, elements: int) -> Cost:
    """The cost of drawing `elements` random numbers per partition.

    One cycle each, a quarter of one on the Vector Engine of v4. On GpSimd one cycle each after 150
    cycles of overhead, which is assumed, as for iota.
    """
    if engine is Engine.gpsimd:
        return lane_cost(core, engine, core.gpsimd_overhead_cycles + elements)
    return lane_cost(core, engine, elements / core.vector_random_values_per_cycle)


def _draw(machine: Machine, engine: Engine, tile: Tile) -> Array:
    """Random 32-bit numbers in the shape of `tile`."""
    count = tile.pattern.elements // tile.partitions
    bits = machine.random[engine].draw(tile.start_partition, tile.partitions, count)
    return bits.reshape(tile.shape)


class Rng(Instruction, engines=(Engine.vector, Engine.gpsimd)):
    """``dst = 32 random bits per element``; smaller integers keep the low bits.

    Note:
        The distribution is the chip's, the bits are not: `trnsim.isa.numerics.xorwow` lists what
        AWS leaves open.
    """

    state = (StateUse(State.generators, "update"),)

    dst: Tile = writes("P F", SBUF, PSUM, dtypes=_INTEGERS)
    engine: Engine = Engine.vector

    def check(self, core: NeuronCore, n: Dims) -> None:
        """GpSimd from NeuronCore-v3 on.

        - GpSimd cannot access PSUM.
        """
        del n
        engine = self.chosen_engine(core)
        _check_engine(self, core, lambda core: engine.name in core.features.rng_engines)

    def execute(self, machine: Machine) -> None:
        """The next numbers from the engine's generators."""
        bits = _draw(machine, self.chosen_engine(machine.core), self.dst)
        dtype = self.dst.dtype.dtype
        self.dst.put(bits.astype(f"u{dtype.itemsize}").view(dtype))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F cycles, F/4 on the Vector Engine of v4, 150 + F on GpSimd."""
        return _random_cost(core, self.chosen_engine(core), n.F)


class Rand2(Instruction, engines=(Engine.vector,)):
    """``dst = min + u * (max - min)``, u uniform in [0, 1), in float32.

    `min` and `max` are numbers or [P, 1] tiles; an integer dst is rounded to nearest even.

    Note:
        The distribution is the chip's, the bits are not: `trnsim.isa.numerics.xorwow` lists what
        AWS leaves open.
    """

    state = (StateUse(State.generators, "update"),)

    dst: Tile = writes("P F", SBUF, PSUM, dtypes=_FLOATS + _INTEGERS)
    min: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    max: Tile | float = vector_or_number("P 1", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v4 on.

        - min < max; numbers or float32 tiles.
        """
        del n
        check_float32(self, "min")
        check_float32(self, "max")
        _check_engine(self, core, lambda core: core.features.rand2)
        if not isinstance(self.min, Tile) and not isinstance(self.max, Tile):
            self._check_range(self.min, self.max, is_legal=self.min < self.max)

    def execute(self, machine: Machine) -> None:
        """The upper 24 bits of a random number as a fraction u; results do not exceed `max`."""
        bits = _draw(machine, Engine.vector, self.dst)
        low, high = (
            np.asarray(free_axis_operand(x, bits), np.float32) for x in (self.min, self.max)
        )
        self._check_range(low.max(), high.min(), is_legal=bool((low < high).all()))
        fraction = (bits >> _LOW_BITS).astype(np.float32) * _FRACTION
        self.dst.store(np.minimum(low + fraction * (high - low), high))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F/4 cycles."""
        return _random_cost(core, Engine.vector, n.F)

    def _check_range(self, low: float, high: float, *, is_legal: bool) -> None:
        if not is_legal:
            self.refuse(f"min={low:g}, max={high:g}; legal: min < max", "swap or widen the bounds")


class Dropout(Instruction, engines=(Engine.vector,)):
    """``dst = 0 with probability prob, else data``; the other elements are not scaled.

    `prob` is a number in [0, 1] or a [P, 1] tile; elements are copied bit for bit.

    Note:
        The distribution is the chip's, the bits are not: `trnsim.isa.numerics.xorwow` lists what
        AWS leaves open.
    """

    state = (StateUse(State.generators, "update"),)
    result_depends_on = "same element"

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    prob: Tile | float = vector_or_number("P 1", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`data` and dst have one dtype.

        - `prob` is a number from 0 to 1 or a float tile, of float32 for integer data.
        """
        del core, n
        if self.dst.dtype != self.data.dtype:
            self.refuse(
                f"dst is {self.dst} but data is {self.data}; legal: equal dtypes",
                "allocate dst with the dtype of data",
            )
        if isinstance(self.prob, int | float):
            if not 0 <= self.prob <= 1:
                self.refuse(f"prob={self.prob}; legal: 0 to 1", "pass a probability")
        elif not self.prob.dtype.is_float or (
            not self.data.dtype.is_float and self.prob.dtype != FLOAT32
        ):
            legal = "any float dtype" if self.data.dtype.is_float else "float32 for integer data"
            self.refuse(f"prob is {self.prob}; legal: {legal}", "cast prob with nisa.tensor_copy")

    def execute(self, machine: Machine) -> None:
        """An element is dropped if a uniform number in [0, 1) is below the probability."""
        bits = _draw(machine, Engine.vector, self.dst)
        is_dropped = bits * _WORD_FRACTION < free_axis_operand(self.prob, bits)
        data = self.data.bits().reshape(self.dst.shape)
        self.dst.put(np.where(is_dropped, np.zeros(1, data.dtype), data))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F)."""
        return lane_cost(core, Engine.vector, n.F)


class SetRngSeed(Instruction, engines=(Engine.vector,)):
    """``Vector Engine's generators of all lanes = seed``, where src_seeds is [1, 1], of 32 bits."""

    state = (StateUse(State.generators, "write"),)

    src_seeds: Tile = reads("1 1", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """src_seeds is one element of 32 bits."""
        del core, n
        if self.src_seeds.dtype.itemsize != _SEED_BYTES:
            self.refuse(
                f"src_seeds is {self.src_seeds}; legal: a dtype of 32 bits", "pass an int32 tile"
            )

    def execute(self, machine: Machine) -> None:
        """The 32 bits as they are stored."""
        seed = np.ascontiguousarray(self.src_seeds.bits()).view(np.uint32)
        machine.random[Engine.vector].seed(int(seed.reshape(-1)[0]))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """MIN_II: assumed; AWS publishes none."""
        del n
        return lane_cost(core, Engine.vector, 1)


class _RandomStateInstruction(Instruction, engines=()):
    """Common base of rand_set_state and rand_get_state.

    A state is [P, 6] words of uint32 for GpSimd, [P, 24] for the Vector Engine.
    """

    def _check_state(self, core: NeuronCore, tile: Tile) -> None:
        """Refuse an engine whose state kernels cannot access, and another shape of `tile`."""
        engine = self.chosen_engine(core)
        _check_engine(self, core, lambda core: engine.name in core.features.random_state_engines)
        words = STATE_WORDS * GENERATORS[engine]
        if len(tile.shape) != _RANK or tile.shape[1] != words:
            self.refuse(
                f"{tile} for the {engine.label}; legal: [P, {words}]",
                f"allocate {words} words of uint32 a partition",
            )

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """MIN_II, on GpSimd 150 + F: assumed; AWS publishes none."""
        engine = self.chosen_engine(core)
        overhead = core.gpsimd_overhead_cycles if engine is Engine.gpsimd else 0.0
        return lane_cost(core, engine, overhead + n.F)


class RandSetState(_RandomStateInstruction, engines=(Engine.gpsimd, Engine.vector)):
    """``generator states of an engine's lanes = src_seeds``, one partition per lane.

    src_seeds is [P, 6] for GpSimd, [P, 24] for the Vector Engine.
    """

    state = (StateUse(State.generators, "write"),)

    src_seeds: Tile = reads("P F", SBUF, dtypes=(UINT32,))
    engine: Engine = Engine.gpsimd

    def check(self, core: NeuronCore, n: Dims) -> None:
        """GpSimd from NeuronCore-v3 on, the Vector Engine from v4 on.

        - 6 words per partition for GpSimd, 24 for the Vector Engine.
        """
        del n
        self._check_state(core, self.src_seeds)

    def execute(self, machine: Machine) -> None:
        """Word for word; the next numbers are drawn from these states."""
        tile = self.src_seeds
        state = machine.random[self.chosen_engine(machine.core)]
        state.put(tile.start_partition, tile.bits())


class RandGetState(_RandomStateInstruction, engines=(Engine.gpsimd, Engine.vector)):
    """``dst = generator states of an engine's lanes``, one partition per lane.

    dst is [P, 6] for GpSimd, [P, 24] for the Vector Engine.
    """

    state = (StateUse(State.generators, "read"),)

    dst: Tile = writes("P F", SBUF, PSUM, dtypes=(UINT32,))
    engine: Engine = Engine.gpsimd

    def check(self, core: NeuronCore, n: Dims) -> None:
        """GpSimd from NeuronCore-v3 on, the Vector Engine from v4 on.

        - 6 words per partition for GpSimd, 24 for the Vector Engine.
        - GpSimd cannot access PSUM.
        """
        del n
        self._check_state(core, self.dst)

    def execute(self, machine: Machine) -> None:
        """Word for word, as nisa.rand_set_state takes them."""
        state = machine.random[self.chosen_engine(machine.core)]
        self.dst.put(state.words(self.dst.start_partition, self.dst.partitions))
