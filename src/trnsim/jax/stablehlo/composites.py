"""CHLO's operations, as operations of the dialect or as composites.

`jax.jit(f).lower` gives operations of the dialect; a portable artifact has some as composites with
a decomposition. For operations that the graph does not have, jaxlib writes operations of StableHLO,
as it does for an artifact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.errors import NotModelled
from trnsim.graph.ops.arithmetic import Square
from trnsim.graph.ops.functions import Atan, Erf, Tan
from trnsim.graph.types import BOOL
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.reductions import top_k as largest
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope

_SAME_OPERATIONS: Final = {"erf": Erf, "square": Square, "tan": Tan, "atan": Atan}
"""Operations that the graph has, with their classes."""


def composite(scope: Scope, op: Op) -> Any:
    """The result of a composite whose operation the graph has; None for another."""
    name = mlir.symbol(op, "name").strip('"')
    build = _BY_NAME.get(name)
    return build(scope, op) if build else None


@rule(*(f"chlo.{name}" for name in _SAME_OPERATIONS))
def same_operation(scope: Scope, op: Op) -> Entry:
    """The operation of that name."""
    name = _composite_name(op).rpartition(".")[2]
    value = scope.value(op.operands[0])
    return scope.graph.elementwise(name, value, dtype=value.dtype)


def _composite_name(op: Op) -> str:
    """The name of an operation; for a composite, of the operation that it replaces."""
    return mlir.symbol(op, "name").strip('"') if op.name == "stablehlo.composite" else op.name


@rule("chlo.top_k", composed="top_k, gather")
def top_k(scope: Scope, op: Op) -> Entry:
    """The k largest elements of each row, and their places."""
    shape = mlir.shape_of(op.results[0].type)
    return largest(scope, scope.value(op.operands[0]), shape[-1])


def _infinity_test(sign: str) -> Callable[[Scope, Op], Entry]:
    def build(scope: Scope, op: Op) -> Entry:
        """True for infinite elements."""
        value = scope.value(op.operands[0])
        number = float("-inf") if sign == "neg" else float("inf")
        tested_value = (
            scope.graph.elementwise("abs", value, dtype=value.dtype) if not sign else value
        )
        return scope.graph.elementwise("compare", tested_value, number, dtype=BOOL, direction="EQ")

    return build


for _sign, _word in (("", "is_inf"), ("pos", "is_pos_inf"), ("neg", "is_neg_inf")):
    rule(f"chlo.{_word}", composed="abs, compare")(_infinity_test(_sign))

_BY_NAME: Final[dict[str, Callable[[Scope, Op], Any]]] = {
    "chlo.top_k": top_k,
    **{f"chlo.{name}": same_operation for name in _SAME_OPERATIONS},
}

_WRITTEN_OUT: Final = (
    *("acos", "acosh", "asin", "asinh", "atanh", "bessel_i1e", "cosh", "digamma", "erf_inv"),
    *("erfc", "lgamma", "next_after", "polygamma", "sinh", "zeta", "constant"),
    *("broadcast_add", "broadcast_subtract", "broadcast_multiply", "broadcast_divide"),
    *("broadcast_maximum", "broadcast_minimum", "broadcast_power", "broadcast_compare"),
    *("_asin_acos_kernel", "mulhi", "ragged_dot"),
)


@rule(
    *(f"chlo.{name}" for name in _WRITTEN_OUT),
    composed="StableHLO's operations, as jaxlib writes them",
    is_folded=False,
)
def write_out(scope: Scope, op: Op) -> Any:
    """The results of the StableHLO operations that jaxlib writes for an operation of CHLO."""
    module = _written_module(op)
    functions = mlir.functions(module)
    target = replace(scope.target, functions=functions)
    entries = [scope.entry(ssa) for ssa in op.operands]
    results = Scope(target).call("main", entries, scope.path.in_call(op))
    return results[0] if len(results) == 1 else tuple(results)


def _written_module(op: Op) -> Any:
    """A module with one operation of CHLO, written out as jaxlib does for an artifact.

    Raises:
        NotModelled: jaxlib leaves the operation as it is.
    """
    text = _module_of(op)
    artifact = _artifacts.get(text)
    if artifact is None:
        artifact = _artifacts[text] = _artifact(text, op)
    with op.context:
        module = dialect.deserialize_portable_artifact(op.context, artifact)
    block = mlir.functions(module)["main"].regions[0].blocks[0]
    if any(view.operation.name == op.name for view in block.operations):
        raise NotModelled(f"{op.name} has no form in StableHLO", fix="compute it otherwise")
    return module


def _artifact(text: str, op: Op) -> bytes:
    """The portable artifact of a module's text; jaxlib before 0.9 takes the text itself."""
    jaxlib: Any = import_module("jaxlib._jax")  # private: its only use
    version = dialect.get_current_version()
    try:
        module = ir.Module.parse(text, op.context)
        artifact: bytes = jaxlib.mlir.serialize_portable_artifact(module, version)
    except TypeError:
        artifact = jaxlib.mlir.serialize_portable_artifact(text, version)
    return artifact


_artifacts: Final[dict[str, bytes]] = {}
"""Portable artifacts by the text of the module."""


def _module_of(op: Op) -> str:
    """A module whose function is one operation."""
    inputs = ", ".join(f"%arg{at}: {operand.type}" for at, operand in enumerate(op.operands))
    names = ", ".join(f"%arg{at}" for at in range(len(op.operands)))
    types = ", ".join(str(operand.type) for operand in op.operands)
    results = ", ".join(str(result.type) for result in op.results)
    attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
    return (
        f"func.func public @main({inputs}) -> ({results}) {{\n"
        f'  %0 = "{op.name}"({names}) {{{attributes}}} : ({types}) -> ({results})\n'
        f"  return %0 : {results}\n}}"
    )
