"""Every operation of the graph in `exact`, the chip's program, beside XLA's CPU in three dtypes.

A row is a function of JAX, dtypes, and its operands as numbers; what it computes in all of them is
one program. XLA rounds each operation to its dtype (no excess precision), as in `fast`. Bounds are
those of `trnsim.device.numerics`.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import jax_ops
import numpy as np
import pytest
from agreeing import BLOCK, module_of
from jax import lax

from trnsim.compiler import program
from trnsim.device.numerics import FUNCTION_BOUND
from trnsim.graph import Kind
from trnsim.jax.stablehlo import graph_of

FLOATS = ("float32", "bfloat16", "float16")
MIXED = ("float32", "bfloat16", "int32")
WHOLE = ("int32", "uint8", "uint32")
MOVED = ("float32", "bfloat16", "uint8")

ANY = BLOCK[:, :, 0] * 3
POSITIVE = np.abs(BLOCK[:, :, 1]) * 3 + 0.25
SMALL = BLOCK[:, :, 2] / 4
COUNTS = np.arange(30).reshape(6, 5) * 7 % 23
PLACES = np.int32([[4, 0], [1, 3], [2, 2]])


def named(function, dtypes, *given):
    """A row of `lax`'s function of that name."""
    return getattr(lax, function), dtypes, given


def poured(x, source):
    """The gradient of a maximum of windows."""
    sides = (1, 2, 2, 1)
    _, back = jax.vjp(lambda a: lax.reduce_window(a, -np.inf, lax.max, sides, sides, "VALID"), x)
    return back(source)[0]


def looped(x):
    """Four trips, which are known."""
    return lax.fori_loop(0, 4, lambda at, held: held * 0.5 + x[at], x[0])


ROWS = {
    **{name: named(name, FLOATS, ANY) for name in ("ceil", "floor", "is_finite", "tanh")},
    **{name: named(name, MIXED, ANY) for name in ("abs", "sign")},
    "add": named("add", MIXED, ANY, POSITIVE),
    "subtract": named("sub", MIXED, ANY, POSITIVE),
    "multiply": named("mul", MIXED, ANY, POSITIVE),
    **{name: named(name, FLOATS, POSITIVE) for name in ("cbrt", "log", "rsqrt", "sqrt")},
    "cosine": named("cos", FLOATS, ANY),
    "sine": named("sin", FLOATS, ANY),
    "negate": named("neg", MIXED, ANY),
    "exponential": named("exp", FLOATS, ANY),
    "exponential_minus_one": named("expm1", FLOATS, ANY),
    "log_plus_one": named("log1p", FLOATS, POSITIVE),
    "logistic": named("logistic", FLOATS, ANY),
    "tan": named("tan", FLOATS, SMALL),
    "maximum": named("max", MIXED, ANY, POSITIVE),
    "minimum": named("min", MIXED, ANY, POSITIVE),
    "divide": named("div", MIXED, ANY, POSITIVE * 9),
    "remainder": named("rem", MIXED, ANY * 9, POSITIVE * 9),
    "power": named("pow", FLOATS, POSITIVE, ANY / 4),
    "round_nearest_afz": (partial(lax.round, rounding_method=0), FLOATS, (ANY,)),
    "round_nearest_even": (partial(lax.round, rounding_method=1), FLOATS, (ANY,)),
    "and": named("bitwise_and", WHOLE, COUNTS, COUNTS[::-1]),
    "or": named("bitwise_or", WHOLE, COUNTS, COUNTS[::-1]),
    "xor": named("bitwise_xor", WHOLE, COUNTS, COUNTS[::-1]),
    "not": named("bitwise_not", WHOLE, COUNTS),
    "popcnt": named("population_count", WHOLE, COUNTS),
    "shift_left": named("shift_left", WHOLE, COUNTS, COUNTS % 8),
    "shift_right_logical": named("shift_right_logical", WHOLE, COUNTS, COUNTS % 8),
    "shift_right_arithmetic": named("shift_right_arithmetic", WHOLE, COUNTS, COUNTS % 8),
    "compare": named("lt", MIXED, ANY, ANY.T.reshape(6, 5)),
    "select": (lambda x, y: jnp.where(x > y, x, y * 2), MIXED, (ANY, POSITIVE)),
    "clamp": (lambda x, y: lax.clamp(-y, x, y), MIXED, (ANY, POSITIVE)),
    "convert": (lambda x: (x.astype(jnp.float32), x.astype(jnp.int32)), MIXED, (ANY,)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 2), FLOATS, (ANY,)),
    "bitcast_convert": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), FLOATS, (ANY,)),
    "constant": (lambda x: x + jnp.arange(5).astype(x.dtype) * 3, MIXED, (ANY,)),
    "iota": (lambda x: x + lax.broadcasted_iota(x.dtype, x.shape, 1), MIXED, (ANY,)),
    "broadcast_in_dim": (lambda x: x[:, None] + x[0], MIXED, (ANY,)),
    "reshape": (lambda x: x.reshape(5, 6) + 1, MIXED, (ANY,)),
    "transpose": (lambda x: x.T + 1, MIXED, (ANY,)),
    "reverse": (lambda x: lax.rev(x, (0, 1)), MOVED, (POSITIVE,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), MOVED, (POSITIVE, POSITIVE)),
    "pad": (lambda x: lax.pad(x, x.dtype.type(2), ((1, 0, 2), (0, 3, 0))), MOVED, (POSITIVE,)),
    "slice": (lambda x: lax.slice(x, (1, 0), (6, 5), (2, 3)), MOVED, (POSITIVE,)),
    "dynamic_slice": (
        lambda x, i: lax.dynamic_slice(x, (i[0, 0], 1), (2, 3)),
        MOVED,
        (POSITIVE, PLACES),
    ),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i[0, 0], i[0, 1])),
        MOVED,
        (POSITIVE, PLACES),
    ),
    "gather": (lambda x, i: x[i], MOVED, (POSITIVE, PLACES)),
    "scatter": (lambda x, i: x.at[i[:, 0]].add(x[:3]), MIXED, (ANY, PLACES)),
    "sort": (lambda x: jnp.sort(x, 0), MIXED, (ANY,)),
    "reduce": (lambda x: (x.sum(0), x.max(1), x.min(), x.prod(0)), MIXED, (SMALL,)),
    "reduce_window": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 0)), MIXED, (ANY,)),
    "select_and_scatter": (poured, FLOATS, (BLOCK[None, :, :4], BLOCK[None, :3, :2])),
    "dot_general": (lambda x, y: x @ y.T, MIXED, (ANY, POSITIVE)),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        FLOATS,
        (BLOCK[:2, None], BLOCK[:3, None, :3, :3]),
    ),
    "while": (looped, FLOATS, (ANY,)),
    "case": (lambda x: lax.switch(1, [jnp.sin, jnp.abs], x), FLOATS, (ANY,)),
    "optimization_barrier": (lambda x: lax.optimization_barrier(x * 2) + 1, MIXED, (ANY,)),
    # Composed of others, where JAX has them.
    "atan2": named("atan2", FLOATS, ANY, ANY[::-1]),
    "count_leading_zeros": named("clz", WHOLE, COUNTS),
    "cholesky": (lambda x: lax.linalg.cholesky(x @ x.T + jnp.eye(6)), FLOATS[:1], (SMALL,)),
    "triangular_solve": (
        lambda x, y: lax.linalg.triangular_solve(jnp.eye(5) + x[:5], y[:5], left_side=True),
        FLOATS[:1],
        (SMALL, ANY),
    ),
}
"""By the operation of StableHLO that a function comes to."""
ELSEWHERE = {
    **dict.fromkeys(
        ("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"),
        "between devices",
    ),
    **dict.fromkeys(("partition_id", "replica_id"), "of several devices"),
    **dict.fromkeys(("after_all", "create_token", "return"), "nothing is computed"),
    **dict.fromkeys(("tuple", "get_tuple_element", "get_dimension_size"), "nothing is computed"),
    "rng_bit_generator": "random numbers are the host's",
    **dict.fromkeys(("composite", "custom_call"), "what it stands for is computed"),
    "if": "of branches that are known it is one of them, as `case`; others are the host's",
}
"""Operations without a row, and why."""
APART = (Kind.CONTROL, Kind.CALL, Kind.COLLECTIVE)


def in_each(row):
    """A row's function of its operands in each dtype, and these."""
    function, dtypes, given = row
    operands = [
        tuple(one if one is PLACES else one.astype(jnp.dtype(dtype)) for one in given)
        for dtype in dtypes
    ]
    return lambda all_given: [function(*one) for one in all_given], operands


def bound(dtype):
    """Of the difference over max(abs(f), 1): a rounding, or that of functions in float32."""
    return FUNCTION_BOUND if dtype == np.float32 else float(jnp.finfo(dtype).eps)


def same(ours, theirs):
    ours = np.asarray(ours).reshape(theirs.shape).astype(theirs.dtype)
    if theirs.dtype.kind in "iub":
        np.testing.assert_array_equal(ours, theirs)
    else:
        found, wanted = (one.astype(np.float64) for one in (ours, theirs))
        difference = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1)
        assert difference.max() <= bound(theirs.dtype), theirs.dtype


@pytest.mark.slow_but(
    "add",
    "broadcast_in_dim",
    "clamp",
    "convert",
    "dynamic_slice",
    "exponential",
    "gather",
    "reduce",
    "transpose",
)
@pytest.mark.parametrize("name", ROWS)
def test_an_operation_is_exact_within_its_bound(name):
    function, operands = in_each(ROWS[name])
    imported = graph_of(module_of(function, operands, platform="neuron"))
    held = {node.name for node in imported.graph.nodes}
    assert f"stablehlo.{name}" in imported.operators or name in held  # JAX spells logistic out
    assert not any(node.kind in APART for node in imported.graph.nodes)
    given = imported.arguments(list(map(np.asarray, jax.tree.leaves(operands))))
    found = program.evaluate_program(imported.graph, given, "trn2", frozenset())
    rounded = {"xla_allow_excess_precision": False}
    fast = jax.jit(function).lower(operands).compile(compiler_options=rounded)(operands)
    for ours, theirs in zip(found, map(np.asarray, jax.tree.leaves(fast)), strict=True):
        same(ours, theirs)


def test_every_operation_of_the_graph_has_a_row_or_a_reason():
    lowered = re.findall(r"^\| `([^`.]+)` \| lowered", jax_ops.page(), re.MULTILINE)
    assert set(lowered) <= ROWS.keys() | ELSEWHERE.keys()
    assert not ROWS.keys() & ELSEWHERE.keys()
