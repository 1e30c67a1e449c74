"""The operators that `neuronx-cc list-operators` names: those of HLO that have an import rule.

Names are those of XlaBuilder's functions, as AWS's page has it.

Source: aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst, 'list-operators' Command;
openxla/xla docs/operation_semantics.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from trnsim.errors import BadInput

_DIALECT: Final = "stablehlo."
_NAMES: Final = {
    "and": "And",
    "batch_norm_grad": "BatchNormGrad",
    "cbrt": "Cbrt",
    "compare": "Compare",
    "constant": "ConstantLiteral",
    "convert": "ConvertElementType",
    "convolution": "ConvGeneralDilated",
    "cosine": "Cos",
    "divide": "Div",
    "dot_general": "DotGeneral",
    "exponential": "Exp",
    "exponential_minus_one": "Expm1",
    "if": "Conditional",
    "case": "Conditional",
    "imag": "Imag",
    "is_finite": "IsFinite",
    "log_plus_one": "Log1p",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negate": "Neg",
    "power": "Pow",
    "remainder": "Rem",
    "reverse": "Rev",
    "shift_right_arithmetic": "ShiftRightArithmetic",
    "sine": "Sin",
    "subtract": "Sub",
    "tan": "Tan",
}
"""XlaBuilder's names that are not StableHLO's words in camel case."""


def operator_names() -> list[str]:
    """The names, in alphabetical order.

    Raises:
        BadInput: without JAX.
    """
    try:
        import_module("jaxlib")
    except ImportError as error:
        raise BadInput(
            "operators of XLA are those that JAX's reader gives", fix="pip install jax"
        ) from error
    import_module("trnsim.jax.stablehlo.importing")  # which fills the table
    rules: dict[str, Any] = import_module("trnsim.jax.stablehlo.rules").RULES
    names = [name.removeprefix(_DIALECT) for name in rules if name.startswith(_DIALECT)]
    return sorted({_NAMES.get(name, _camel_case(name)) for name in names})


def _camel_case(name: str) -> str:
    """A name in camel case: AllGather for all_gather."""
    return "".join(word.capitalize() for word in name.split("_"))
