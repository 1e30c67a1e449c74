"""Elementwise arithmetic: tensor_tensor, tensor_scalar, scalar_tensor_tensor, reciprocal."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import BFLOAT16, INT32, UINT32
from trnsim.isa.language.declaration import reads, vector_or_number, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import (
    as_stored,
    column_or_number,
    copy_speedup,
    free_axis_bits,
    have_one_shape,
    is_column,
    is_float32,
    lane_cost,
    tensor_tensor_speedup,
    with_one_shape,
)
from trnsim.isa.language.machine import BatchPlan, Machine, Plan
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operands import (
    BINARY,
    BYPASS,
    TABLE,
    UNARY,
    apply,
    apply_along,
    arithmetic,
    check_bitvec,
    check_not_both_in_psum,
    check_operand,
    is_bypass,
    is_number,
    operator_of,
)
from trnsim.isa.language.operator_tables import ALU, EXACT_OPERATORS, AluOperator
from trnsim.memory import Tile

_EXACT_INTEGERS = (INT32, UINT32)
_FAST_OPERATORS = ("add", "subtract", "multiply")
_FAST_SPEEDUP = 2
"""Speedup of these operators on contiguous bfloat16 in SBUF.

Source: nki.isa.tensor_tensor of SDK 2.26.
"""


def _is_dense_bfloat16(tile: Tile) -> bool:
    return tile.dtype == BFLOAT16 and tile.pattern.is_contiguous(tile.dtype.itemsize, 1)


class TensorTensor(Instruction, engines=(Engine.vector, Engine.gpsimd)):
    """``dst = data1 <op> data2``, element by element, computed in float32.

    int32 and uint32 are exact on GpSimd, the default engine for them unless an operand is in PSUM.
    """

    result_depends_on = "same element"
    indirect = ("dst", "data1")

    dst: Tile = writes("P F", SBUF, PSUM)
    data1: Tile = reads("P F", SBUF, PSUM)
    data2: Tile = reads("P F", SBUF, PSUM)
    op: str
    engine: Engine = Engine.unknown

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """GpSimd for `power` and for arithmetic on 32-bit integers in SBUF, else the Vector Engine.

        If the kernel names an engine, that one.
        """
        if self.engine is not Engine.unknown:
            return self.engine
        is_bitvec = self.op in ALU and ALU[self.op].is_bitvec
        is_exact = self._is_integer() and not is_bitvec and not self._uses_psum()
        if self.op == "power" or is_exact:
            return Engine.gpsimd
        return super().chosen_engine(core)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """A binary operator.

        - At most one of data1 and data2 is in PSUM; on GpSimd nothing is.
        - power runs on GpSimd.
        - Bitvec operators take integers on all sides, on the Vector Engine.
        """
        del n
        operator = operator_of(self, "op", core)
        if operator.arity != BINARY:
            self.refuse(
                f"op {self.op} takes one operand; legal: a binary operator",
                "use nisa.tensor_scalar or nisa.activation",
                TABLE,
            )
        check_bitvec(self, operator, self.dst, self.data1, self.data2)
        check_not_both_in_psum(self, "data1", "data2")
        if operator.is_bitvec and self.chosen_engine(core) is not Engine.vector:
            self.refuse(
                f"bitvec operator {self.op} on the {self.chosen_engine(core).label}; legal: the "
                "Vector Engine",
                "leave engine out",
            )
        if self.op == "power" and self.chosen_engine(core) is not Engine.gpsimd:
            self.refuse(
                f"op power on the {self.chosen_engine(core).label}; legal: the GpSimd Engine",
                "leave engine out",
            )
        if self.chosen_engine(core) is Engine.gpsimd and self._uses_psum():
            self.refuse(
                f"op {self.op} on GpSimd with a tile in PSUM; legal: all tiles in SBUF",
                "copy the PSUM tile to SBUF with nisa.tensor_copy",
            )

    def execute(self, machine: Machine) -> None:
        """Bits as stored for bitvec operators, 32-bit integers exactly on GpSimd, else float32."""
        operator = ALU[self.op]
        is_exact = self._is_integer() and self.chosen_engine(machine.core) is Engine.gpsimd
        if operator.is_bitvec:
            bits = self.data1.bits()
            first, second = with_one_shape(bits, as_stored(self.data2.bits(), bits.dtype))
            self.dst.store(as_stored(apply(operator, first, second), self.dst.dtype.dtype))
            return
        if is_exact:
            first, second = with_one_shape(self.data1.bits(), self.data2.bits())
        else:
            first, second = with_one_shape(self.data1.load(), self.data2.load())
        is_plain = first.dtype == second.dtype == np.float32
        out = self.dst.output(first) if is_plain else None
        self.dst.store(apply(operator, first, second, out=out))

    def plan(self) -> Plan | None:
        """One function of numpy on float32 tiles of the same shape."""
        function = ALU[self.op].apply
        if not isinstance(function, np.ufunc) or not is_float32(self.dst, self.data1, self.data2):
            return None

        def run(instruction: TensorTensor, machine: Machine) -> None:
            del machine
            function(instruction.data1.array, instruction.data2.array, out=instruction.dst.array)

        return run

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """As for a single instruction, for exact operators on tiles of one shape."""
        del core
        is_exact = self.op in EXACT_OPERATORS
        if not (is_exact and have_one_shape(self.dst, self.data1, self.data2)):
            return None
        return BatchPlan(self.plan() or type(self).execute)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F cycles with one input in PSUM, else 2F; from v3 on F if all are 16-bit floats.

        From v4 on FP8 counts as a 16-bit float. Before v3 only add, subtract and multiply of
        contiguous bfloat16 take F.
        """
        engine = self.chosen_engine(core)
        if engine is Engine.gpsimd:
            return lane_cost(core, engine, 2 * n.F)
        inputs = (self.data1, self.data2)
        if any(tile.memory is PSUM for tile in inputs):
            return lane_cost(core, engine, n.F)
        speedup = tensor_tensor_speedup(core, self.dst, *inputs)
        if self.op in _FAST_OPERATORS and all(map(_is_dense_bfloat16, (self.dst, *inputs))):
            speedup = _FAST_SPEEDUP
        return lane_cost(core, engine, 2 * n.F / speedup)

    def _is_integer(self) -> bool:
        return all(t.dtype in _EXACT_INTEGERS for t in (self.dst, self.data1, self.data2))

    def _uses_psum(self) -> bool:
        return PSUM in (self.dst.memory, self.data1.memory, self.data2.memory)


class TensorScalar(Instruction, engines=(Engine.vector, Engine.scalar, Engine.gpsimd)):
    """``dst = (data <op0> operand0) <op1> operand1`` with operands broadcast along the free axis.

    Operands are numbers or [P, 1] tiles; arithmetic is float32. `reverse0` and `reverse1` swap the
    two sides of an operator; the operators `None` and `nl.bypass` pass the data through.

    Note:
        AWS lists the Scalar Engine's operators for trn2; they are assumed for every generation. AWS
        excludes indirect views where the operator matches an integer address calculation, without
        saying which ones do; nothing is refused for that.
    """

    result_depends_on = "same element"
    indirect = ("dst", "data")

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    op0: str | None
    operand0: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    reverse0: bool = False
    op1: str | None = None
    operand1: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    reverse1: bool = False
    engine: Engine = Engine.unknown

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """The engine that the kernel names, else GpSimd for rsqrt in SBUF, else the Vector Engine.

        Source: nki.api.shared.rst, NKI Engine Selection.
        """
        is_rsqrt = self.engine is Engine.unknown and self.op0 == "rsqrt"
        in_sbuf = not self._tiles_in_psum()
        return Engine.gpsimd if is_rsqrt and in_sbuf else super().chosen_engine(core)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Both operators are bitvec or both arithmetic.

        - Operands of arithmetic operators are numbers or float32 tiles; a unary operator takes None
          or 0.
        - Bitvec operators take integers as data, dst and operands, on the Vector Engine; a number
          has no more bits than an element of data.
        - The Scalar Engine has (multiply, add), multiply and add; GpSimd has rsqrt, in SBUF only.
        """
        del n
        first, second = (
            operator_of(self, field, core, may_bypass=True) for field in ("op0", "op1")
        )
        check_operand(self, "operand0", first)
        check_operand(self, "operand1", second)
        for operator, name in ((first, "operand0"), (second, "operand1")):
            check_bitvec(self, operator, self.dst, self.data)
            self._check_bits(operator, name)
        is_chain = BYPASS not in (first, second)
        if is_chain and second.is_bitvec != first.is_bitvec:
            self.refuse(
                f"op0 {self.op0} with op1 {self.op1}; legal: both bitvec or both arithmetic",
                "use two instructions",
            )
        self._check_engine(core, first, second)

    def execute(self, machine: Machine) -> None:
        """Both operators in float32, or on integers as stored for bitvec operators."""
        del machine
        first = (ALU[self.op0 or BYPASS.name], self.operand0, self.reverse0)
        second = (ALU[self.op1 or BYPASS.name], self.operand1, self.reverse1)
        if first[0].is_bitvec or second[0].is_bitvec:
            result = self.data.bits()
            for operator, operand, reverse in (first, second):
                if operator is not BYPASS:
                    bits = free_axis_bits(operand, result)
                    result = apply(operator, result, bits, reverse=reverse)
            result = as_stored(result, self.dst.dtype.dtype)
        else:
            result = self.data.load()
            vectors = [x.bits() for x in (self.operand0, self.operand1) if isinstance(x, Tile)]
            out = self.dst.output(result, *vectors)
            for operator, operand, reverse in (first, second):
                if operator is not BYPASS:
                    result = apply_along(operator, result, operand, reverse=reverse, out=out)
        self.dst.store(result)

    def plan(self) -> Plan | None:
        """One or two functions of numpy on float32 tiles of equal shape, and numbers or columns."""
        stages = (
            (ALU[self.op0 or BYPASS.name], "operand0", self.reverse0),
            (ALU[self.op1 or BYPASS.name], "operand1", self.reverse1),
        )
        steps = [stage for stage in stages if stage[0] is not BYPASS]
        is_plain = all(
            isinstance(operator.apply, np.ufunc)
            and operator.arity == BINARY
            and not operator.is_bitvec
            and self._is_number_or_column(getattr(self, name))
            for operator, name, _ in steps
        )
        if not (steps and is_plain and is_float32(self.dst, self.data)):
            return None

        def run(instruction: TensorScalar, machine: Machine) -> None:
            del machine
            fields, dst = instruction.__dict__, instruction.dst
            out, data = dst.array, instruction.data.array
            operands = [column_or_number(fields[name], dst) for _, name, _ in steps]
            for (operator, _, is_reversed), operand in zip(steps, operands, strict=True):
                operator.apply(*((operand, data) if is_reversed else (data, operand)), out=out)
                data = out

        return run

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """As for a single instruction, for exact operators on tiles of one shape."""
        del core
        names = {self.op0 or BYPASS.name, self.op1 or BYPASS.name}
        if not (names <= EXACT_OPERATORS and have_one_shape(self.dst, self.data)):
            return None
        has_tiles = isinstance(self.operand0, Tile) or isinstance(self.operand1, Tile)
        plan = self.plan()
        return None if plan is None and has_tiles else BatchPlan(plan or type(self).execute)

    def _is_number_or_column(self, operand: Tile | float | None) -> bool:
        return is_column(operand, self.data) if isinstance(operand, Tile) else is_number(operand)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F) for one or two operators; the performance modes of copies apply.

        rsqrt on GpSimd takes four times as long.
        """
        engine = self.chosen_engine(core)
        if engine is Engine.gpsimd:
            return lane_cost(core, engine, n.F * core.gpsimd_rsqrt_cycles_per_element)
        return lane_cost(core, engine, n.F / copy_speedup(core, engine, self.dst, self.data))

    def _tiles_in_psum(self) -> list[Tile]:
        return [tile for _, tile in self.tiles() if tile.memory is PSUM]

    def _check_bits(self, operator: AluOperator, name: str) -> None:
        """Refuse a number in field `name` with more bits than an element of data, if bitvec."""
        operand, bits = getattr(self, name), 8 * self.data.dtype.itemsize
        low, high = -(1 << (bits - 1)), (1 << bits) - 1
        if operator.is_bitvec and is_number(operand) and not low <= operand <= high:
            self.refuse(
                f"`{name}` is {operand} with the bitvec operator {operator.name} on data of "
                f"{self.data.dtype}; legal: {bits} bits, {low} to {high}",
                "pass the bits that an element has, or a shift of less than its width",
            )

    def _check_engine(self, core: NeuronCore, first: AluOperator, second: AluOperator) -> None:
        """Refuse operators that the engine lacks, and PSUM on GpSimd."""
        engine = self.chosen_engine(core)
        op0, op1 = first.name, None if second is BYPASS else second.name
        if engine is Engine.scalar and (op0, op1) not in _SCALAR_ENGINE_PAIRS:
            self.refuse(
                f"op0 {op0}, op1 {op1} on the Scalar Engine; legal: multiply then add, multiply "
                "alone, add alone",
                "use nisa.engine.vector",
            )
        if engine is not Engine.gpsimd:
            return
        if op0 != "rsqrt":
            self.refuse(f"op0 {op0} on GpSimd; legal: rsqrt", "use nisa.engine.vector")
        for tile in self._tiles_in_psum():
            self.refuse(
                f"rsqrt on GpSimd with {tile}; legal: all tiles in SBUF",
                "copy the PSUM tile to SBUF with nisa.tensor_copy",
            )


_SCALAR_ENGINE_PAIRS = {("multiply", "add"), ("multiply", None), ("add", None)}


class ScalarTensorTensor(Instruction, engines=(Engine.vector,)):
    """``dst = (data <op0> operand0) <op1> operand1`` with a tile operand1 of the size of data.

    `operand0`, a number or a [P, 1] tile, is broadcast along the free axis; arithmetic is float32.
    `reverse0` and `reverse1` swap the two sides of an operator.
    """

    result_depends_on = "same element"

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    op0: str
    operand0: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    op1: str
    operand1: Tile = reads("P F", SBUF, PSUM)
    reverse0: bool = False
    reverse1: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Arithmetic operators, the second binary.

        - At most one of data and operand1 is in PSUM.
        """
        del n
        first = arithmetic(self, "op0", core, may_bypass=True)
        arithmetic(self, "op1", core, arity=BINARY)
        if first.arity == UNARY:
            check_operand(self, "operand0", first)
        check_not_both_in_psum(self, "data", "operand1")

    def execute(self, machine: Machine) -> None:
        """Float32 throughout, rounded once on write."""
        del machine
        data, second = with_one_shape(self.data.load(), self.operand1.load())
        if not is_bypass(self.op0):
            data = apply_along(ALU[self.op0], data, self.operand0, reverse=self.reverse0)
        out = self.dst.output(data)
        self.dst.store(apply(ALU[self.op1], data, second, reverse=self.reverse1, out=out))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F cycles with one input in PSUM, as for tensor_tensor; else 2F.

        F cycles too for bfloat16 data and operand1 with an even F, if op0 is subtract and op1
        multiply. AWS's table does not mention PSUM; the published times of rmsnorm_quant, with and
        without its 32 instructions of this kind, show it.
        """
        is_bfloat16 = self.data.dtype == self.operand1.dtype == BFLOAT16
        is_fast = is_bfloat16 and (self.op0, self.op1) == ("subtract", "multiply") and n.F % 2 == 0
        has_input_in_psum = PSUM in (self.data.memory, self.operand1.memory)
        return lane_cost(core, Engine.vector, n.F * (1 if is_fast or has_input_in_psum else 2))


class Reciprocal(Instruction, engines=(Engine.vector,)):
    """``dst = 1 / data``, in float32."""

    result_depends_on = "same element"

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)

    def execute(self, machine: Machine) -> None:
        """Float32 division: the Vector Engine divides, where the Scalar Engine approximates."""
        del machine
        self.dst.store(ALU["reciprocal"].apply(self.data.load()))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, 8F)."""
        return lane_cost(core, Engine.vector, n.F * core.vector_reciprocal_cycles_per_element)
