"""Random numbers."""

from __future__ import annotations

from math import tau

from trnsim.errors import NotModelled
from trnsim.graph import Value
from trnsim.graph.ops.leaves import RngBitGenerator
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.elementwise import apply_elementwise
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope
from trnsim.jax.stablehlo.wide import Wide, from_words

_WORDS = 4


@rule("stablehlo.rng", composed="rng, log, sqrt, sine, multiply, add, floor", is_folded=False)
def rng(scope: Scope, op: Op) -> Entry:
    """Uniform numbers between two bounds, or normal numbers of a mean and a deviation, unseeded."""
    type_ = scope.result(op)
    shape = type_.shape or (1,)
    uniform = scope.graph.rng(shape)
    low, high = (scope.operand(ssa) for ssa in op.operands[:2])
    if mlir.symbol(op, "rng_distribution") == "NORMAL":
        unit = _normal_numbers(scope, uniform, scope.graph.rng(shape))
        numbers = _scaled_numbers(scope, unit, low, high)
    else:
        numbers = _scaled_numbers(scope, uniform, low, _difference(scope, low, high))
    if not type_.is_floating:  # a conversion rounds towards 0, which would come twice as often
        numbers = apply_elementwise(scope, "floor", numbers)
    return scope.b.convert(scope.graph.reshape(numbers, type_.shape), type_.dtype)


def _normal_numbers(scope: Scope, first: Value, second: Value) -> Value:
    """Normal numbers from two tensors of uniform numbers, by Box and Muller's transform."""
    log = apply_elementwise(scope, "log", apply_elementwise(scope, "subtract", 1.0, first))
    radius = apply_elementwise(scope, "sqrt", apply_elementwise(scope, "multiply", log, -2.0))
    angle = apply_elementwise(scope, "multiply", second, tau)
    sample: Value = apply_elementwise(
        scope, "multiply", radius, apply_elementwise(scope, "sine", angle)
    )
    return sample


def _difference(scope: Scope, low: Value | float, high: Value | float) -> Value | float:
    if isinstance(low, float) and isinstance(high, float):
        return high - low
    return scope.b.ew("subtract", high, low, dtype="float32")


def _scaled_numbers(
    scope: Scope, unit: Value, start: Value | float, factor: Value | float
) -> Value:
    scaled_unit = scope.b.ew("multiply", unit, factor, dtype="float32")
    return scope.b.ew("add", scaled_unit, start, dtype="float32")


@rule("stablehlo.rng_bit_generator", limits="states of 128 bits; bits in uint32")
def rng_bit_generator(scope: Scope, op: Op) -> tuple[Entry, Entry]:
    """The next state and random bits; the state may be two integers of 64 bits."""
    entry = scope.entry(op.operands[0])
    is_wide = isinstance(entry, Wide)
    state = entry.words(scope) if is_wide else scope.tensor(entry)
    if state.dtype != "uint32" or state.type.elements != _WORDS:
        raise NotModelled(f"rng_bit_generator of a state {state.type}; legal: four words of uint32")
    shape = mlir.shape_of(op.results[1].type)
    if mlir.element_type(op.results[1].type) != "uint32":
        raise NotModelled(f"rng_bit_generator of {op.results[1].type}; legal: uint32")
    flat_state = scope.graph.reshape(state, (_WORDS,))
    next_state, bits = scope.graph.apply_to_all(RngBitGenerator(shape), [flat_state])
    if is_wide:
        return from_words(scope, scope.graph.reshape(next_state, (_WORDS // 2, 2))), bits
    return scope.graph.reshape(next_state, state.shape), bits
