"""The Scalar Engine: activation, activation_reduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnsim.dtypes import FLOAT32, TFLOAT32
from trnsim.errors import UndefinedBehavior
from trnsim.isa.instruction import (
    PSUM,
    SBUF,
    Cost,
    Dims,
    Instruction,
    reads,
    vector_or_number,
    writes,
)
from trnsim.isa.lanes import along_free_axis, lane_cost
from trnsim.isa.modes import Engine, ReduceCmd
from trnsim.isa.operators import ACTIVATIONS
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.dtypes import Float32Array
    from trnsim.isa.machine import Machine

_TABLE = "nki.api.shared.rst, Supported Activation Functions for NKI ISA"
_ENGINES = "nki.api.shared.rst, NKI Engine Selection"
_FIRST_GENERATION = 2


class Activation(Instruction, engines=(Engine.scalar,)):
    """``dst = op(data * scale + bias)``, and its sum along the free axis into `reduce_res`.

    `scale` and `bias` are numbers or [P, 1] tiles; on v2 `bias` must be a tile.
    """

    dst: Tile = writes("P F", SBUF, PSUM)
    op: str
    data: Tile = reads("P F", SBUF, PSUM)
    bias: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    scale: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=1.0)
    reduce_op: str | None = None
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    reduce_cmd: ReduceCmd = ReduceCmd.idle

    def check(self, core: NeuronCore, n: Dims) -> None:
        """A known function, float32 scale, and only sums in the accumulator."""
        del n
        if self.op not in ACTIVATIONS:
            self.refuse(
                f"op {self.op}; legal: {', '.join(ACTIVATIONS)}", "use one of these", _TABLE
            )
        if isinstance(self.scale, Tile) and self.scale.dtype != FLOAT32:
            self.refuse(f"`scale` is {self.scale}; legal: float32", "allocate it as float32")
        if isinstance(self.bias, Tile) and self.bias.dtype == TFLOAT32:
            self.refuse(f"`bias` is {self.bias}; legal: not tfloat32", "allocate it as float32")
        is_first = core.generation == _FIRST_GENERATION
        if is_first and self.op == "reciprocal" and self.bias is not None:
            self.refuse(f"reciprocal with a bias on {core.name}", "add the bias first", _ENGINES)
        if is_first and isinstance(self.bias, int | float):
            self.refuse(
                f"bias={self.bias} on {core.name}; legal: a tile of shape [P, 1]",
                "fill a [P, 1] tile with nisa.memset and pass it",
            )
        if self.reduce_op not in (None, "add"):
            self.refuse(f"reduce_op {self.reduce_op}; legal: nl.add", "reduce with nl.add")
        if self.reduce_cmd not in (ReduceCmd.idle, ReduceCmd.reset_reduce):
            self.refuse(
                f"reduce_cmd {self.reduce_cmd.name} keeps sums between instructions, which is not "
                "emulated yet; emulated: idle, reset_reduce",
                "reduce with reset_reduce and add the partial sums",
            )
        if self.reduce_res is not None and self.reduce_cmd is ReduceCmd.idle:
            self.refuse(
                "reduce_res without reduce_cmd; legal: reduce_cmd=nisa.reduce_cmd.reset_reduce",
                "name the command that fills the accumulator",
            )

    def execute(self, machine: Machine) -> None:
        """Float32 throughout; each result is rounded once on write."""
        del machine
        result = self._activate()
        self.dst.store(result)
        if self.reduce_res is not None:
            self.reduce_res.store(result.reshape(result.shape[0], -1).sum(axis=1, keepdims=True))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F); reading the accumulator adds about 64 cycles."""
        extra = core.accumulator_read_cycles if self.reduce_res is not None else 0.0
        return lane_cost(core, Engine.scalar, n.F, extra)

    def _activate(self) -> Float32Array:
        function = ACTIVATIONS[self.op]
        values = self.data.load()
        if not (isinstance(self.scale, int | float) and self.scale == 1):
            values = values * along_free_axis(self.scale, values)
        if self.bias is not None:
            values = values + along_free_axis(self.bias, values)
        if not function.is_legal(values):
            raise UndefinedBehavior(
                f"activation: {function.name} of values from {values.min():g} to "
                f"{values.max():g}; legal: {function.low:g} to {function.high:g}"
                + (" in magnitude" if function.uses_magnitude else ""),
                fix="clamp the input first, for example with nisa.tensor_scalar(op0=nl.maximum)",
                source=_TABLE,
            )
        return function.apply(values).astype(np.float32, copy=False)


class ActivationReduce(Instruction, engines=(Engine.scalar,)):
    """``dst = op(data * scale + bias); reduce_res = sum(dst)``: activation with reset_reduce."""

    dst: Tile = writes("P F", SBUF, PSUM)
    op: str
    data: Tile = reads("P F", SBUF, PSUM)
    reduce_op: str
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    bias: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    scale: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=1.0)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """As activation."""
        self._activation().check(core, n)

    def execute(self, machine: Machine) -> None:
        """As activation."""
        self._activation().execute(machine)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F) + 64."""
        return self._activation().cost(core, n)

    def _activation(self) -> Activation:
        return Activation(
            self.dst,
            self.op,
            self.data,
            self.bias,
            self.scale,
            self.reduce_op,
            self.reduce_res,
            ReduceCmd.reset_reduce,
        )
