"""The Vector Engine's exponential, from v4 on."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
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
)
from trnsim.isa.language.declaration import State, StateUse, reads, vector_or_number, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import free_axis_operand, lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operands import check_float32
from trnsim.isa.language.support import check_support
from trnsim.isa.vector.accumulation import accumulate, check_command
from trnsim.memory import Tile

_DIMENSIONS = 4
_FLOATS = (FLOAT8_E4M3, FLOAT8_E5M2, FLOAT16, BFLOAT16, FLOAT32)
_INTEGERS = (INT8, INT16, INT32, UINT8, UINT16)


class Exponential(Instruction, engines=(Engine.vector,)):
    """``dst = exp(src - max_value)``; ``reduce_res = sum(dst)`` along the free axes.

    `max_value` is a number or a float32 [P, 1] tile. The sum is of the float32 results, before they
    are rounded to dst. Without `reduce_res` it stays in the accumulator registers.

    Note:
        AWS does not say that the sum is taken before rounding, nor the order in which a lane adds.
        A `reduce_cmd` of idle leaves the accumulator registers undefined.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"
    indirect = ("dst", "src")

    dst: Tile = writes("P F", SBUF, PSUM, dtypes=(*_FLOATS, TFLOAT32, *_INTEGERS))
    src: Tile = reads("P F", SBUF, PSUM, dtypes=(*_FLOATS, *_INTEGERS, UINT32))
    max_value: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=0.0)
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, dtypes=(*_FLOATS, TFLOAT32), default=None)
    reduce_cmd: ReduceCmd = ReduceCmd.idle
    reduce_init: Tile | float = vector_or_number("P 1", SBUF, PSUM, default=0.0)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v4 on.

        - src and dst have up to 4 dimensions.
        - `max_value` and `reduce_init` are numbers or float32 tiles; reduce_init is 0 without
          load_reduce.
        - `reduce_cmd` is idle, reset_reduce, reduce or load_reduce; `reduce_res` needs one of the
          last three.
        """
        del n
        check_support(
            self,
            core,
            lambda core: core.features.vector_exponential,
            "use nisa.activation(op=nl.exp)",
        )
        for name, tile in (("dst", self.dst), ("src", self.src)):
            if len(tile.shape) > _DIMENSIONS:
                self.refuse(
                    f"{name} is {tile}, of {len(tile.shape)} dimensions; legal: up to "
                    f"{_DIMENSIONS}",
                    "reshape the tile",
                )
        check_float32(self, "max_value")
        check_float32(self, "reduce_init")
        check_command(
            self,
            self.reduce_cmd,
            self.reduce_res,
            ReduceCmd.idle,
            ReduceCmd.reset_reduce,
            ReduceCmd.reduce,
            ReduceCmd.load_reduce,
        )
        is_zero = isinstance(self.reduce_init, int | float) and self.reduce_init == 0
        if self.reduce_cmd is not ReduceCmd.load_reduce and not is_zero:
            self.refuse(
                f"reduce_init {self.reduce_init} with reduce_cmd {self.reduce_cmd.name}; legal: "
                "0.0, or another value with load_reduce",
                "use reduce_cmd=nisa.reduce_cmd.load_reduce",
            )

    def execute(self, machine: Machine) -> None:
        """Float32 throughout, each result rounded once on write."""
        values = self.src.load()
        values = np.exp(values - free_axis_operand(self.max_value, values))
        first_partition = self.src.start_partition
        sums = accumulate(
            machine, self.reduce_cmd, "add", first_partition, values, self.reduce_init
        )
        self.dst.store(values)
        if self.reduce_res is not None and sums is not None:
            self.reduce_res.store(sums)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F/4): four times the Scalar Engine's rate; `reduce_res` adds 64 cycles.

        Source: trainium3_arch.rst, Fast Exponential Evaluation.
        """
        extra = core.accumulator_read_cycles if self.reduce_res is not None else 0.0
        cycles = n.F / core.vector_exponential_elements_per_cycle
        return lane_cost(core, Engine.vector, cycles, extra)
