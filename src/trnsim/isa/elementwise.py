"""Element by element: tensor_tensor, tensor_scalar, scalar_tensor_tensor, reciprocal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.dtypes import INT32, UINT32
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
from trnsim.isa.lanes import (
    along_free_axis,
    bits_along_free_axis,
    copy_speedup,
    lane_cost,
    same_shape,
)
from trnsim.isa.modes import Engine
from trnsim.isa.operators import ALU, AluOperator
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.dtypes import Array
    from trnsim.isa.machine import Machine

_TABLE = "nki.api.shared.rst, Supported Math Operators for NKI ISA"
_UNARY = 1
_BINARY = 2
_BITS16_BYTES = 2
_EXACT_INTEGERS = (INT32, UINT32)


def _operator(instruction: Instruction, field: str) -> AluOperator:
    """The ALU operator that `field` names."""
    name = getattr(instruction, field)
    found = ALU.get(str(name))
    if found is None:
        instruction.refuse(
            f"`{field}` is {name}; legal: {', '.join(ALU)}", "use an operator of nl", _TABLE
        )
    return found


def _apply(operator: AluOperator, data: Array, operand: Array | float, *, reverse: bool) -> Array:
    if operator.arity == _UNARY:
        return operator.apply(data)
    return operator.apply(operand, data) if reverse else operator.apply(data, operand)


def _check_bitvec(instruction: Instruction, operator: AluOperator, *tiles: Tile) -> None:
    """Bitvec operators work on integers as they are stored."""
    floats = [tile for tile in tiles if tile.dtype.is_float]
    if operator.is_bitvec and floats:
        instruction.refuse(
            f"bitvec operator {operator.name} with {floats[0]}; legal: integer dtypes",
            "view the tile as an integer of the same size: tile.view(nl.int32)",
        )


class TensorTensor(Instruction, engines=(Engine.vector, Engine.gpsimd)):
    """``dst = data1 <op> data2``, element by element, computed in float32.

    int32 and uint32 are exact on GpSimd, which is chosen for them unless an operand is in PSUM.
    """

    dst: Tile = writes("P F", SBUF, PSUM)
    data1: Tile = reads("P F", SBUF, PSUM)
    data2: Tile = reads("P F", SBUF, PSUM)
    op: str
    engine: Engine = Engine.unknown

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """GpSimd for exact integers and `power`, else the Vector Engine."""
        if self.engine is not Engine.unknown:
            return self.engine
        if self.op == "power" or (self._is_integer() and not self._uses_psum()):
            return Engine.gpsimd
        return super().chosen_engine(core)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """At most one input in PSUM, none on GpSimd; a binary operator."""
        del n
        operator = _operator(self, "op")
        if operator.arity != _BINARY:
            self.refuse(
                f"op {self.op} takes one operand; legal: a binary operator",
                "use nisa.tensor_scalar or nisa.activation",
                _TABLE,
            )
        _check_bitvec(self, operator, self.dst, self.data1, self.data2)
        if self.data1.memory is self.data2.memory is PSUM:
            self.refuse(
                "data1 and data2 are both in PSUM; legal: at most one of them",
                "copy one of them to SBUF with nisa.tensor_copy",
            )
        if self.chosen_engine(core) is Engine.gpsimd and self._uses_psum():
            self.refuse(
                f"op {self.op} on GpSimd with a tile in PSUM; legal: all tiles in SBUF",
                "copy the PSUM tile to SBUF with nisa.tensor_copy",
            )

    def execute(self, machine: Machine) -> None:
        """Exact integers on GpSimd, bits as stored for bitvec, else float32."""
        operator = ALU[self.op]
        is_exact = self._is_integer() and self.chosen_engine(machine.core) is Engine.gpsimd
        if operator.is_bitvec or is_exact:
            first, second = same_shape(self.data1.bits(), self.data2.bits())
        else:
            first, second = same_shape(self.data1.load(), self.data2.load())
        self.dst.store(operator.apply(first, second))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F cycles with one input in PSUM, else 2F; halved for 16-bit inputs in SBUF (v3 on)."""
        engine = self.chosen_engine(core)
        if engine is Engine.gpsimd:
            return lane_cost(core, engine, 2 * n.F)
        inputs = (self.data1, self.data2)
        if any(tile.memory is PSUM for tile in inputs):
            return lane_cost(core, engine, n.F)
        is_16bit = all(tile.dtype.itemsize == _BITS16_BYTES for tile in inputs)
        speedup = core.vector_16bit_tensor_tensor_speedup if is_16bit else 1
        return lane_cost(core, engine, 2 * n.F / speedup)

    def _is_integer(self) -> bool:
        return all(t.dtype in _EXACT_INTEGERS for t in (self.dst, self.data1, self.data2))

    def _uses_psum(self) -> bool:
        return PSUM in (self.dst.memory, self.data1.memory, self.data2.memory)


class TensorScalar(Instruction, engines=(Engine.vector, Engine.scalar, Engine.gpsimd)):
    """``dst = (data <op0> operand0) <op1> operand1`` with operands broadcast along the free axis.

    Operands are numbers or [P, 1] tiles; arithmetic is float32. `reverse0` and `reverse1` swap the
    two sides of an operator.
    """

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    op0: str
    operand0: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    reverse0: bool = False
    op1: str | None = None
    operand1: Tile | float | None = vector_or_number("P 1", SBUF, PSUM, default=None)
    reverse1: bool = False
    engine: Engine = Engine.unknown

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Both operators bitvec or both arithmetic; the Scalar Engine does multiply and add."""
        del n
        first = _operator(self, "op0")
        self._check_operand("operand0", first, self.operand0)
        _check_bitvec(self, first, self.dst, self.data)
        second = None
        if self.op1 is not None:
            second = _operator(self, "op1")
            self._check_operand("operand1", second, self.operand1)
            if second.is_bitvec != first.is_bitvec:
                self.refuse(
                    f"op0 {self.op0} with op1 {self.op1}; legal: both bitvec or both arithmetic",
                    "use two instructions",
                )
        engine = self.chosen_engine(core)
        names = (first.name, second.name if second else None)
        if engine is Engine.scalar and names not in _SCALAR_ENGINE_PAIRS:
            self.refuse(
                f"op0 {names[0]}, op1 {names[1]} on the Scalar Engine; legal: multiply then add, "
                "multiply alone, add alone",
                "use nisa.engine.vector",
            )
        if engine is Engine.gpsimd and names[0] != "rsqrt":
            self.refuse(f"op0 {names[0]} on GpSimd; legal: rsqrt", "use nisa.engine.vector")

    def execute(self, machine: Machine) -> None:
        """Float32 chain, or integers as stored for bitvec operators."""
        del machine
        first = ALU[self.op0]
        result = self.data.bits() if first.is_bitvec else self.data.load()
        for name, operand, reverse in (
            (self.op0, self.operand0, self.reverse0),
            (self.op1, self.operand1, self.reverse1),
        ):
            if name is None:
                continue
            operator = ALU[name]
            value: Array | float = 0.0
            if operator.is_bitvec:
                value = bits_along_free_axis(operand, result)
            elif operand is not None:
                value = along_free_axis(operand, result)
            result = _apply(operator, result, value, reverse=reverse)
        self.dst.store(result)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F) for one operator as for two; the copies' performance modes apply."""
        engine = self.chosen_engine(core)
        speedup = copy_speedup(core, self.dst, self.data) if engine is Engine.vector else 1.0
        return lane_cost(core, engine, n.F / speedup)

    def _check_operand(
        self, field: str, operator: AluOperator, operand: Tile | float | None
    ) -> None:
        if operator.arity == _UNARY:
            if operand not in (None, 0):
                self.refuse(
                    f"`{field}` is {operand} with the unary operator {operator.name}; legal: None "
                    "or 0",
                    f"leave {field} out",
                )
        elif operator.is_bitvec and not _is_whole(operand):
            self.refuse(
                f"`{field}` is {operand} with the bitvec operator {operator.name}; legal: a whole "
                "number or a tile of an integer dtype",
                "view the tile as an integer of the same size: tile.view(nl.int32)",
            )
        elif operand is None:
            self.refuse(
                f"`{field}` is missing; {operator.name} takes two operands",
                f"pass {field}, a number or a tile of shape [P, 1]",
            )


def _is_whole(operand: Tile | float | None) -> bool:
    if isinstance(operand, Tile):
        return not operand.dtype.is_float
    return operand is None or float(operand).is_integer()


_SCALAR_ENGINE_PAIRS = {("multiply", "add"), ("multiply", None), ("add", None)}


class ScalarTensorTensor(Instruction, engines=(Engine.vector,)):
    """``dst = (data <op0> operand0) <op1> operand1``, operand0 broadcast, operand1 a tile."""

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    op0: str
    operand0: Tile | float = vector_or_number("P 1", SBUF, PSUM)
    op1: str
    operand1: Tile = reads("P F", SBUF, PSUM)
    reverse0: bool = False
    reverse1: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Arithmetic operators; at most one of the two tiles in PSUM."""
        del core, n
        for field in ("op0", "op1"):
            if _operator(self, field).is_bitvec:
                self.refuse(f"`{field}` is bitvec; legal: arithmetic", "use nisa.tensor_tensor")
        if self.data.memory is self.operand1.memory is PSUM:
            self.refuse(
                "data and operand1 are both in PSUM; legal: at most one of them",
                "copy one of them to SBUF with nisa.tensor_copy",
            )

    def execute(self, machine: Machine) -> None:
        """Float32 throughout, rounded once on write."""
        del machine
        data, second = same_shape(self.data.load(), self.operand1.load())
        first = along_free_axis(self.operand0, data)
        scaled = _apply(ALU[self.op0], data, first, reverse=self.reverse0)
        self.dst.store(_apply(ALU[self.op1], scaled, second, reverse=self.reverse1))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F for bfloat16 subtract then multiply with an even F, else 2F."""
        is_bfloat16 = all(tile.dtype.name == "bfloat16" for _, tile in self.tiles())
        is_fast = is_bfloat16 and (self.op0, self.op1) == ("subtract", "multiply") and n.F % 2 == 0
        return lane_cost(core, Engine.vector, n.F * (1 if is_fast else 2))


class Reciprocal(Instruction, engines=(Engine.vector,)):
    """``dst = 1 / data``, in float32."""

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)

    def execute(self, machine: Machine) -> None:
        """More precise than the Scalar Engine's approximation; exact division here."""
        del machine
        self.dst.store(ALU["reciprocal"].apply(self.data.load()))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, 8F)."""
        return lane_cost(core, Engine.vector, n.F * core.vector_reciprocal_cycles_per_element)
