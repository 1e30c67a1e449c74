"""Operators of instructions and their operands: look-up, checks and application.

The second operand, beside the data tile, is a number or a float32 [P, 1] tile for an arithmetic
operator, a whole number or an integer [P, 1] tile for a bitvec operator, None or 0 for a unary one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import FLOAT32, Array
from trnsim.isa.language.instruction import PSUM, Instruction
from trnsim.isa.language.lanes import free_axis_operand
from trnsim.isa.language.operator_tables import ACTIVATIONS, ALU, AluOperator
from trnsim.isa.language.support import check_support
from trnsim.memory import Tile

TABLE: Final = "nki.api.shared.rst, Supported Math Operators for NKI ISA"
"""Citation of AWS's table of legal operators."""
UNARY: Final = 1
BINARY: Final = 2
"""Values of `AluOperator.arity`."""
BYPASS: Final = ALU["bypass"]
"""No operator (`None` or `nl.bypass`): the data passes through (nki.language.bypass)."""


def is_bypass(name: str | None) -> bool:
    """True if `name` names no operator."""
    return name is None or name == BYPASS.name


def operator_of(
    instruction: Instruction, field: str, core: NeuronCore, *, may_bypass: bool = False
) -> AluOperator:
    """The ALU operator that `field` names; with `may_bypass`, `None` stands for bypass.

    The MX path of nki-library's mlp_tkg passes op0=None.
    """
    name = getattr(instruction, field)
    if name is None and may_bypass:
        return BYPASS
    operator = ALU.get(str(name))
    if operator is None or (operator is BYPASS and not may_bypass):
        legal = ", ".join(row for row in ALU if row != BYPASS.name)
        fix = "use an operator of nl"
        if name in ACTIVATIONS:
            fix = f"compute it with nisa.activation(op=nl.{name}) on the Scalar Engine"
        elif name == "divide":
            fix = "multiply by the reciprocal: 1 / number, or a tile of nisa.reciprocal"
        instruction.refuse(f"`{field}` is {name}; legal: {legal}", fix, TABLE)
    if operator.behaviour is not None:
        operator.behaviour.require(core.nki, f"{instruction.opcode}: `{field}` is {name}")
    check_support(
        instruction,
        core,
        lambda core: operator.name in core.features.alu_operators,
        "compute it of other operators, or with nisa.activation",
        request=f"`{field}` is {name} on {core.name}",
        source="release notes of NKI 0.4.0, New Features",
    )
    return operator


def arithmetic(
    instruction: Instruction,
    field: str,
    core: NeuronCore,
    *,
    arity: int = 0,
    may_bypass: bool = False,
) -> AluOperator:
    """The operator that `field` names; refuses bitvec operators, and another `arity` (0: any)."""
    operator = operator_of(instruction, field, core, may_bypass=may_bypass)
    if operator.is_bitvec:
        instruction.refuse(
            f"`{field}` is bitvec; legal: arithmetic",
            "use nisa.tensor_tensor or nisa.tensor_scalar",
        )
    if arity and operator.arity != arity:
        instruction.refuse(
            f"`{field}` is {operator.name}, which takes one operand; legal: a binary operator",
            "use nisa.tensor_scalar or nisa.activation",
            TABLE,
        )
    return operator


def check_operand(instruction: Instruction, field: str, operator: AluOperator) -> None:
    """Refuse an operand in `field` that `operator` cannot take."""
    operand: Tile | float | None = getattr(instruction, field)
    if operator.arity == UNARY:
        if isinstance(operand, Tile) or operand not in (None, 0):
            op = field.replace("operand", "op")
            if getattr(instruction, op, "") is None:
                instruction.refuse(
                    f"`{field}` is {operand} without `{op}`; legal: both, or neither",
                    f"pass the operator too: {op}=nl.multiply; or leave {field} out",
                )
            instruction.refuse(
                f"`{field}` is {operand} with the unary operator {operator.name}; legal: None or 0",
                f"leave {field} out",
            )
    elif operand is None:
        instruction.refuse(
            f"`{field}` is missing; {operator.name} takes two operands",
            f"pass {field}, a number or a tile of shape [P, 1]",
        )
    elif operator.is_bitvec:
        if not _is_whole(operand):
            instruction.refuse(
                f"`{field}` is {operand} with the bitvec operator {operator.name}; legal: a whole "
                "number or a tile of an integer dtype",
                "view the tile as an integer of the same size: tile.view(nl.int32)",
            )
    else:
        check_float32(instruction, field)


def check_bitvec(instruction: Instruction, operator: AluOperator, *tiles: Tile) -> None:
    """Refuse tiles of other dtypes than integers if `operator` is a bitvec operator."""
    non_integers = [tile for tile in tiles if not tile.dtype.is_integer]
    if operator.is_bitvec and non_integers:
        instruction.refuse(
            f"bitvec operator {operator.name} with {non_integers[0]}; legal: integer dtypes",
            "view the tile as an integer of the same size: tile.view(nl.int32)",
        )


def is_number(value: object) -> bool:
    """True for a plain Python number."""
    return isinstance(value, int | float)


def check_float32(instruction: Instruction, field: str) -> None:
    """Refuse a tile in `field` that is not float32; numbers are legal."""
    operand = getattr(instruction, field)
    if isinstance(operand, Tile) and operand.dtype != FLOAT32:
        instruction.refuse(
            f"`{field}` is {operand}; legal: a number or a tile of float32",
            "allocate it as float32, or cast it with nisa.tensor_copy",
        )


def check_not_both_in_psum(instruction: Instruction, first: str, second: str) -> None:
    """Refuse two operands that are both in PSUM."""
    tiles = (getattr(instruction, first), getattr(instruction, second))
    if all(isinstance(tile, Tile) and tile.memory is PSUM for tile in tiles):
        instruction.refuse(
            f"{first} and {second} are both in PSUM; legal: at most one of them",
            "copy one of them to SBUF with nisa.tensor_copy",
        )


def apply(
    operator: AluOperator,
    data: Array,
    operand: Array | float,
    *,
    reverse: bool = False,
    out: Array | None = None,
) -> Array:
    """``data <op> operand``; ``operand <op> data`` with `reverse`; ``<op> data`` if it is unary.

    The result is written to `out` if `out` is given and the operator is a ufunc of numpy.
    """
    function = operator.apply
    if operator.arity == UNARY:
        operands: tuple[Any, ...] = (data,)
    else:
        operands = (operand, data) if reverse else (data, operand)
    if out is not None and isinstance(function, np.ufunc):
        result: Array = function(*operands, out=out)
        return result
    return function(*operands)


def apply_along(
    operator: AluOperator,
    data: Array,
    operand: Tile | float | None,
    *,
    reverse: bool = False,
    out: Array | None = None,
) -> Array:
    """The result of `apply` on float32 data, with `operand` broadcast along the free axis."""
    value = 0.0 if operand is None else free_axis_operand(operand, data)
    return apply(operator, data, value, reverse=reverse, out=out)


def _is_whole(operand: Tile | float) -> bool:
    """True for a whole number or a tile of an integer dtype."""
    if isinstance(operand, Tile):
        return operand.dtype.is_integer
    return float(operand).is_integer()
