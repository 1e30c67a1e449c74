"""docs/generated/isa: a page for each instruction, an index, the operators."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np

from trnsim.arch import cores
from trnsim.formatting import markdown_table
from trnsim.isa.language.instruction import Instruction
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operator_tables import ACTIVATIONS, ALU, ActivationFunction, AluOperator
from trnsim.isa.reference.page import note, page, summary, support

_ENGINES: Final = (
    Engine.tensor,
    Engine.vector,
    Engine.scalar,
    Engine.gpsimd,
    Engine.dma,
    Engine.sync,
    Engine.collective,
)

_INTRODUCTION: Final = (
    "{count} instructions. Each page is made from the class of its instruction; "
    "`trnsim explain NAME` prints it. Operators and activation functions have "
    "[a page of their own](operators.md)."
)
_OPERATORS: Final = (
    "Names of `nki.language` that instructions take as their operator. The constraints of each "
    "instruction say which of them it takes."
)
_ALU: Final = (
    "Source: nki.api.shared.rst, Supported Math Operators for NKI ISA; the engines are from "
    "the table of SDK 2.26. GpSimd computes every operator on exact 32-bit integers."
)
_FUNCTIONS: Final = (
    "Evaluated in float32; the chip approximates them by piecewise polynomials that AWS does not "
    "publish. An input outside the range is an error (`UndefinedBehavior`). Source: "
    "nki.api.shared.rst, Supported Activation Functions for NKI ISA."
)


def pages() -> dict[str, str]:
    """File name in docs/generated/isa -> its text."""
    instructions = {f"{opcode}.md": page(made) for opcode, made in Instruction.registry.items()}
    return {**instructions, "index.md": index_page(), "operators.md": operators_page()}


def index_page() -> str:
    """The index: instructions by family and by engine, and open points of AWS's documents."""
    parts = [
        "# The instruction set",
        _INTRODUCTION.format(count=len(Instruction.registry)),
        *_families(),
        "## By engine",
        *_by_engine(),
        "## Approximate, open or contradictory",
        "Where AWS's documents are incomplete or contradictory, trnsim does this:",
        "\n".join(
            f"- {_link(opcode)}: {' '.join(note(made).split())}"
            for opcode, made in sorted(Instruction.registry.items())
            if note(made)
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _link(opcode: str) -> str:
    return f"[{opcode}]({opcode}.md)"


def _families() -> list[str]:
    """A table for each source file, under the first line of its docstring."""
    families: dict[str, list[type[Instruction]]] = {}
    for made in Instruction.registry.values():
        families.setdefault(made.__module__, []).append(made)
    parts: list[str] = []
    for module, members in sorted(families.items()):
        title = (sys.modules[module].__doc__ or module).partition("\n")[0]
        rows = [(_link(m.opcode), _flat(summary(m)), _where(m)) for m in members]
        parts += [f"## {title}", markdown_table(("instruction", "values", "from"), rows)]
    return parts


def _flat(text: str) -> str:
    """`text` on one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _where(made: type[Instruction]) -> str:
    """The first generation that has the instruction."""
    having = [core for found in support(made).values() for core in found]
    return next(core for core in cores() if core in having).version


def _by_engine() -> list[str]:
    lines: list[str] = []
    for engine in _ENGINES:
        members = [m for m in Instruction.registry.values() if engine in m.engines]
        names = ", ".join(_link(opcode) for opcode in sorted(m.opcode for m in members))
        lines.append(f"**{engine.label}** ({len(members)}): {names}.")
    return lines


def operators_page() -> str:
    """The page of operators: legal values of `op` parameters (ALU operators, functions)."""
    alu = [_operator_row(operator) for operator in ALU.values()]
    functions = [_function_row(function) for function in ACTIVATIONS.values()]
    alu_header = ("operator", "operands", "works on", "reduces", "engines", "from")
    parts = [
        "# Operators and activation functions",
        _OPERATORS,
        "## Operators of the ALU",
        _ALU,
        markdown_table(alu_header, alu),
        "## Activation functions of the Scalar Engine",
        _FUNCTIONS,
        markdown_table(("function", "valid inputs"), functions),
    ]
    return "\n\n".join(parts) + "\n"


def _operator_row(operator: AluOperator) -> tuple[str, ...]:
    return (
        f"`{operator.name}`",
        str(operator.arity),
        "bits" if operator.is_bitvec else "float32",
        "yes" if operator.reduce is not None else "-",
        ", ".join(engine.name for engine in operator.engines),
        next(core for core in cores() if operator.name in core.features.alu_operators).version,
    )


def _function_row(function: ActivationFunction) -> tuple[str, str]:
    low, high = f"{np.float32(function.low):g}", f"{np.float32(function.high):g}"
    legal = "any" if function.is_total else f"{low} to {high}"
    if function.uses_magnitude:
        legal += " in magnitude"
    if function.allows_zero:
        legal += ", and 0"
    if function.extrapolates:
        legal += "; beyond, it goes on as a documented cubic"
    return f"`{function.name}`", legal
