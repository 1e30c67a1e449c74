"""An operator with a broadcast operand, followed by a reduction: tensor_scalar_reduce."""

from __future__ import annotations

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import REDUCE_RES_OPTIONAL
from trnsim.isa.language.declaration import (
    Operand,
    State,
    StateUse,
    reads,
    vector_or_number,
    writes,
)
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine, ReduceCmd
from trnsim.isa.language.operands import (
    apply_along,
    arithmetic,
    check_float32,
    check_operand,
    is_bypass,
)
from trnsim.isa.language.operator_tables import ALU
from trnsim.isa.vector.accumulation import accumulate, check_command
from trnsim.memory import Tile

_REDUCTIONS = ("add", "multiply", "maximum", "minimum")


class TensorScalarReduce(Instruction, engines=(Engine.vector,)):
    """``dst = data <op0> operand0; reduce_res = reduce(reduce_op, dst)`` along all free axes.

    The float32 results are reduced before they are rounded to dst. Without `reduce_res` the
    reduction stays in the Vector Engine's accumulator registers, for a later instruction.

    Note:
        That the reduction comes before rounding is inferred from range_select, whose page has -inf
        in a bfloat16 dst beside FP32_MIN in a float32 reduce_res. The order in which a lane adds is
        not documented.
    """

    state = (StateUse(State.accumulators, "update"),)
    result_depends_on = "same element"
    indirect = ("dst", "data")

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    op0: str
    operand0: Tile | float | None = vector_or_number("P 1", SBUF, PSUM)
    reduce_op: str
    reduce_res: Tile | None = writes("P 1", SBUF, PSUM, default=None)
    reverse0: bool = False
    reduce_cmd: ReduceCmd = ReduceCmd.reset_reduce
    reduce_init: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    reduce_res_negate: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """An arithmetic operator.

        - `operand0` is a number or a float32 tile, for a unary operator None or 0. reverse0 is not
          supported.
        - `reduce_op` is add, multiply, maximum or minimum.
        - `reduce_cmd` is reset_reduce, reduce or load_reduce, the last with a `reduce_init` (a
          number or a float32 tile), the others without.
        """
        del n
        if self.reduce_res is None:
            REDUCE_RES_OPTIONAL.require(core.nki, f"{self.opcode}: reduce_res is None")
        check_operand(self, "operand0", arithmetic(self, "op0", core, may_bypass=True))
        if self.reverse0:
            self.refuse(
                "reverse0=True; legal: False, as the other order is not supported yet",
                "use nisa.tensor_scalar, then reduce with nisa.tensor_reduce",
            )
        if self.reduce_op not in _REDUCTIONS:
            self.refuse(
                f"reduce_op {self.reduce_op}; legal: {', '.join(_REDUCTIONS)}", "use one of these"
            )
        check_command(
            self,
            self.reduce_cmd,
            self.reduce_res,
            ReduceCmd.reset_reduce,
            ReduceCmd.reduce,
            ReduceCmd.load_reduce,
        )
        if (self.reduce_cmd is ReduceCmd.load_reduce) != (self.reduce_init is not None):
            self.refuse(
                f"reduce_cmd {self.reduce_cmd.name} with reduce_init {self.reduce_init}; legal: "
                "load_reduce with a value, the other commands with None",
                "pass reduce_init together with reduce_cmd=nisa.reduce_cmd.load_reduce",
            )
        check_float32(self, "reduce_init")

    def execute(self, machine: Machine) -> None:
        """Float32 throughout, each result rounded once on write."""
        values = self.data.load()
        if not is_bypass(self.op0):
            values = apply_along(ALU[self.op0], values, self.operand0)
        start = self.data.start_partition
        reduction = accumulate(
            machine, self.reduce_cmd, self.reduce_op, start, values, self.reduce_init
        )
        self.dst.store(values)
        if self.reduce_res is not None and reduction is not None:
            self.reduce_res.store(-reduction if self.reduce_res_negate else reduction)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F), plus 64 cycles to read the accumulator into `reduce_res`."""
        extra = core.accumulator_read_cycles if self.reduce_res is not None else 0.0
        return lane_cost(core, Engine.vector, n.F, extra)

    def _verify_number(self, name: str, operand: Operand, value: object) -> None:
        """As for any operand; but `operand0` may be None, which unary operators take."""
        if name == "operand0" and value is None:
            return
        super()._verify_number(name, operand, value)
