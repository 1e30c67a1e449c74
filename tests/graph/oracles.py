"""What each operation gives by JAX, which shares no code with the references.

An oracle takes the operation and its operands: floating point in float64, integers in their own
type. JAX is imported when one is called.
"""

import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from trnsim.graph import Value
from trnsim.graph.types import FLOATS

BODIES = {
    "add": lax.add,
    "multiply": lax.mul,
    "maximum": lax.max,
    "minimum": lax.min,
}


def of(function):
    """An oracle without attributes."""
    return lambda _, *given: function(*given)


def compiled(function):
    """An oracle of many steps, which JAX compiles in less time as one."""
    return lambda operation, *given: jax.jit(lambda *read: function(operation, *read))(*given)


def limited(function, low, high):
    """A function of floating point, with its limits at the infinities."""

    def oracle(_, x):
        finite = np.where(np.isinf(x), 0.0, x)
        return np.where(np.isinf(x), np.where(x > 0, high, low), jax.jit(function)(finite))

    return oracle


def slope(function):
    """A derivative, element by element."""

    def derivative(x):
        return jax.vjp(function, x)[1](jnp.ones_like(x))[0]

    return derivative


def neutral(op, dtype):
    if op in ("add", "multiply"):
        return np.asarray(op == "multiply", dtype)
    if dtype.kind == "f":
        return np.asarray(-np.inf if op == "maximum" else np.inf, dtype)
    if dtype.kind == "b":
        return np.asarray(op == "minimum")
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if op == "maximum" else limits.max, dtype)


def floor_remainder(_, lhs, rhs):
    """Of an integer and 0 the integer, where jnp.mod has 0."""
    found = jnp.mod(lhs, rhs)
    return found if lhs.dtype.kind == "f" else jnp.where(rhs == 0, lhs, found)


def power(_, base, exponent):
    """Of integers by Python's own, which JAX has not for a tensor of exponents."""
    if base.dtype.kind == "f":
        return lax.pow(base, exponent)
    bits = 8 * base.dtype.itemsize
    found = [
        pow(b, e, 2**bits) if e >= 0 else {1: 1, -1: 1 if e % 2 == 0 else -1}.get(b, 0)
        for b, e in zip(base.ravel().tolist(), exponent.ravel().tolist(), strict=True)
    ]
    return np.array([n % 2**bits for n in found], np.uint64).astype(base.dtype).reshape(base.shape)


def convert(operation, x):
    if operation.to in FLOATS:
        return lax.convert_element_type(x, np.float64)  # unrounded, as references are
    return lax.convert_element_type(x, np.dtype(operation.to))


def reduce_precision(operation, x):
    limits = ml_dtypes.finfo(operation.format)
    return lax.reduce_precision(x, limits.nexp, limits.nmant)


def reinterpret(operation, x):
    """Of bytes in rows: JAX has the parts of an element as a dimension of their own."""
    own, wanted = x.dtype.itemsize, np.dtype(operation.to)
    parts = max(wanted.itemsize // own, 1)
    split = x if parts == 1 else x.reshape(*x.shape[:-1], -1, parts)
    found = lax.bitcast_convert_type(split, wanted)
    return found if own <= wanted.itemsize else found.reshape(*x.shape[:-1], -1)


def sliced(operation, x):
    parts = zip(operation.starts, operation.shape, operation.strides, strict=True)
    ends = [start + (n - 1) * step + 1 if n else start for start, n, step in parts]
    return lax.slice(x, operation.starts, ends, operation.strides)


def pad(operation, x):
    config = zip(operation.low, operation.high, operation.interior, strict=True)
    return lax.pad(x, np.asarray(operation.number, x.dtype), list(config))


def constant(operation):
    dtype = np.float64 if operation.dtype in FLOATS else np.dtype(operation.dtype)
    return lax.full(operation.shape, operation.number, dtype)


def reduce(operation, x):
    body = BODIES[operation.op]
    if x.dtype == bool:
        body = {"add": lax.bitwise_or, "multiply": lax.bitwise_and}.get(operation.op, body)
    return lax.reduce(x, neutral(operation.op, x.dtype), body, operation.dims)


def scan(operation, x):
    along = {"add": lax.cumsum, "multiply": lax.cumprod, "maximum": lax.cummax}
    return along.get(operation.op, lax.cummin)(x, axis=x.ndim - 1)


def sort(operation, *given):
    dim = operation.dim % given[0].ndim
    if not operation.is_descending:
        return lax.sort(given, dimension=dim, num_keys=1, is_stable=True)
    order = jnp.argsort(given[0], axis=dim, descending=True, stable=True)
    return tuple(jnp.take_along_axis(one, order, axis=dim) for one in given)


def top_k(operation, x):
    """With one zero: JAX takes -0 as below 0."""
    return lax.top_k(np.where(x == 0, 0, x), operation.k)[1]


def reduce_window(operation, x):
    return lax.reduce_window(
        x,
        neutral(operation.op, x.dtype),
        BODIES[operation.op],
        operation.lengths,
        operation.strides,
        list(zip(operation.low, operation.high, strict=True)),
        window_dilation=operation.dilations or None,
    )


def select_and_scatter(operation, x, source):
    """The gradient of an extreme over windows."""

    def extreme(x):
        body, start = (lax.max, -np.inf) if operation.op == "maximum" else (lax.min, np.inf)
        padding = list(zip(operation.low, operation.high, strict=True))
        return lax.reduce_window(x, start, body, operation.lengths, operation.strides, padding)

    return jax.vjp(extreme, x)[1](source)[0]


def dot_general(operation, lhs, rhs):
    left, right = operation.contracting
    batch = tuple(range(lhs.ndim - 2))
    return lax.dot_general(lhs, rhs, (((left,), (right,)), (batch, batch)))


def convolution(operation, lhs, rhs):
    taps = tuple(range(2, rhs.ndim)) if operation.is_reversed else ()
    return lax.conv_general_dilated(
        lhs,
        lax.rev(rhs, taps),
        operation.strides,
        list(zip(operation.low, operation.high, strict=True)),
        lhs_dilation=[gap + 1 for gap in operation.gaps],
        rhs_dilation=operation.dilations,
        feature_group_count=operation.groups,
    )


def _sees(operation, query, key):
    """Whether a query sees a key: no later one, and those within the window."""
    back = operation.first + operation.apart * query - key
    width = operation.window or 10**9
    return 0 <= back < width if operation.is_causal else 2 * abs(back) < width


def attention(operation, query, key, value, *bias):
    scores = operation.scale * jnp.einsum("...le,...se->...ls", query, key)
    cap = getattr(operation, "cap", 0.0)  # its gradient has none
    scores = cap * jnp.tanh(scores / cap) if cap else scores
    for one in bias:
        scores += one
    rows = [[_sees(operation, i, s) for s in range(key.shape[-2])] for i in range(query.shape[-2])]
    scores = jnp.where(jnp.array(rows), scores, -jnp.inf)
    values = jnp.einsum("...ls,...sv->...lv", jax.nn.softmax(scores, -1), value)
    return values, jax.nn.logsumexp(scores, -1)


def _vectors_last(operation, indices, batching):
    """Indices with their vectors last, as JAX has them, and the batching dimensions there."""
    place = operation.index_vector_dim
    vectors = indices[..., None] if place == indices.ndim else np.moveaxis(indices, place, -1)
    return vectors, tuple(dim - (dim > place) for dim in batching)


def gather(operation, x, indices):
    vectors, batching = _vectors_last(operation, indices, operation.start_indices_batching_dims)
    numbers = lax.GatherDimensionNumbers(
        operation.offset_dims,
        operation.collapsed_slice_dims,
        operation.start_index_map,
        operation.operand_batching_dims,
        batching,
    )
    return lax.gather(x, vectors, numbers, operation.slice_sizes, mode="clip")


def scatter(operation, updates, indices, *operand):
    table = operand[0] if operand else np.zeros(operation.type.shape, updates.dtype)
    vectors, batching = _vectors_last(operation, indices, operation.start_indices_batching_dims)
    numbers = lax.ScatterDimensionNumbers(
        operation.update_window_dims,
        operation.inserted_window_dims,
        operation.start_index_map,
        operation.operand_batching_dims,
        batching,
    )
    by = {
        "add": lax.scatter_add,
        "multiply": lax.scatter_mul,
        "maximum": lax.scatter_max,
        "minimum": lax.scatter_min,
        "assign": lax.scatter,
    }
    return by[operation.op](table, vectors, updates, numbers, mode="drop")


def run(graph):
    """A graph as a function of JAX, by the oracles of its operations."""

    def function(*given):
        known = {v.number: one for v, one in zip(graph.inputs, given, strict=True)}
        for node in graph.nodes:
            dtype = node.values[0].type.numpy_dtype()
            operands = [
                known[o.number] if isinstance(o, Value) else np.asarray(o, dtype)
                for o in node.operands
            ]
            found = ORACLES[node.name](node.operation, *operands)
            several = found if isinstance(found, tuple) else (found,)
            known.update(zip((v.number for v in node.results), several, strict=True))
        return tuple(known[value.number] for value in graph.outputs)

    return function


def case(operation, index, *given):
    """StableHLO runs the last branch where lax.switch would clamp to the first."""
    last = len(operation.branches) - 1
    place = np.where(index < 0, last, index)
    return lax.switch(place, [run(branch) for branch in operation.branches], *given)


def if_(operation, pred, *given):
    return lax.cond(pred, *(run(branch) for branch in operation.branches), *given)


def while_(operation, *given):
    condition, body = run(operation.condition), run(operation.body)
    return lax.while_loop(lambda held: condition(*held)[0], lambda held: body(*held), given)


def among(function):
    """An oracle of a collective: the members are a dimension that has a name."""

    def oracle(operation, whole):
        one = jax.vmap(lambda part: function(operation, part), axis_name="core")
        return one(whole)

    return oracle


def all_reduce(operation, x):
    if operation.op == "multiply":
        return jnp.prod(lax.all_gather(x, "core"), 0, dtype=x.dtype)
    by = {"add": lax.psum, "maximum": lax.pmax, "minimum": lax.pmin}
    return by[operation.op](x, "core")


def permute(operation, whole):
    """By a matrix: lax.ppermute under jax.vmap wants each member to send."""
    sources, targets = zip(*operation.source_target_pairs, strict=True)
    moves = np.zeros((len(whole),) * 2)
    moves[np.array(targets), np.array(sources)] = 1
    return jnp.einsum("ts,s...->t...", moves, whole)


def reduce_scatter(operation, x):
    if operation.op == "add":
        return lax.psum_scatter(x, "core", scatter_dimension=operation.dim, tiled=True)
    share = x.shape[operation.dim] // operation.size
    start = lax.axis_index("core") * share
    return lax.dynamic_slice_in_dim(all_reduce(operation, x), start, share, operation.dim)


def gelu_tanh(x):
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


ELEMENTWISE = {
    "add": of(jnp.add),
    "subtract": of(lax.sub),
    "multiply": of(jnp.multiply),
    "divide": of(lax.div),
    "remainder": of(lax.rem),
    "floor_remainder": floor_remainder,
    "power": power,
    "maximum": of(lax.max),
    "minimum": of(lax.min),
    "negate": of(lax.neg),
    "abs": of(lambda x: x if x.dtype.kind == "u" else lax.abs(x)),
    "sign": of(lax.sign),
    "square": of(lax.square),
    "reciprocal": of(lax.reciprocal),
    "relu": of(jax.nn.relu),
    "clamp": of(lax.clamp),
    "and": of(lax.bitwise_and),
    "or": of(lax.bitwise_or),
    "xor": of(lax.bitwise_xor),
    "not": of(lax.bitwise_not),
    "shift_left": of(lax.shift_left),
    "shift_right_logical": of(lax.shift_right_logical),
    "shift_right_arithmetic": of(lax.shift_right_arithmetic),
    "popcnt": of(lax.population_count),
    "compare": lambda o, lhs, rhs: getattr(lax, o.direction.lower())(lhs, rhs),
    "select": of(jnp.where),
    "is_finite": of(lax.is_finite),
    "floor": of(lax.floor),
    "ceil": of(lax.ceil),
    "trunc": of(jnp.trunc),
    "round_nearest_even": of(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    "round_nearest_afz": of(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
    "convert": convert,
    "bitcast_convert": lambda operation, x: lax.bitcast_convert_type(x, np.dtype(operation.to)),
    "reduce_precision": reduce_precision,
}
FUNCTIONS = {
    "exponential": of(lax.exp),
    "exponential_minus_one": of(lax.expm1),
    "log": of(lax.log),
    "log_plus_one": of(lax.log1p),
    "sqrt": of(lax.sqrt),
    "rsqrt": of(lax.rsqrt),
    "cbrt": of(lax.cbrt),
    "tanh": of(lax.tanh),
    "logistic": of(lax.logistic),
    "sine": of(lax.sin),
    "cosine": of(lax.cos),
    "tan": of(lax.tan),
    "atan": of(lax.atan),
    "erf": of(lax.erf),
    "gelu": limited(lambda x: jax.nn.gelu(x, approximate=False), 0, np.inf),
    "gelu_tanh": limited(gelu_tanh, 0, np.inf),
    "gelu_dx": limited(slope(lambda x: jax.nn.gelu(x, approximate=False)), 0, 1),
    "silu": limited(jax.nn.silu, 0, np.inf),
    "silu_dx": limited(slope(jax.nn.silu), 0, 1),
    "softplus": of(jax.nn.softplus),
    "mish": limited(jax.nn.mish, 0, np.inf),
}
MOVEMENT = {
    "reinterpret": reinterpret,
    "reshape": lambda operation, x: lax.reshape(x, operation.shape),
    "broadcast_in_dim": lambda o, x: lax.broadcast_in_dim(x, o.shape, o.dims),
    "slice": sliced,
    "transpose": lambda operation, x: lax.transpose(x, operation.permutation),
    "concatenate": lambda operation, *parts: lax.concatenate(parts, operation.dim),
    "pad": pad,
    "reverse": lambda operation, x: lax.rev(x, operation.dims),
    "dynamic_slice": lambda o, x, *starts: lax.dynamic_slice(x, starts, o.shape),
    "dynamic_update_slice": lambda _, x, new, *starts: lax.dynamic_update_slice(x, new, starts),
    "constant": constant,
    "iota": lambda o: lax.broadcasted_iota(np.dtype(o.dtype), o.shape, o.dim),
    "gather": gather,
    "scatter": scatter,
    "sort": sort,
    "top_k": top_k,
}
SUMS = {
    "reduce": reduce,
    "scan": scan,
    "reduce_window": reduce_window,
    "select_and_scatter": select_and_scatter,
    "dot_general": dot_general,
    "convolution": convolution,
    "attention": compiled(attention),
}
CONTROL = {"case": case, "if": if_, "while": while_}
COLLECTIVES = {
    "all_reduce": among(all_reduce),
    "all_gather": among(lambda o, x: lax.all_gather(x, "core", axis=o.dim, tiled=True)),
    "reduce_scatter": among(reduce_scatter),
    "all_to_all": among(
        lambda o, x: lax.all_to_all(x, "core", o.split_dim, o.concat_dim, tiled=True)
    ),
    "collective_permute": permute,
}
ORACLES = {**ELEMENTWISE, **FUNCTIONS, **MOVEMENT, **SUMS, **CONTROL, **COLLECTIVES}
ELSEWHERE = {
    "attention_backward": "by jax.vjp of attention, of results that belong to the operands",
    "rng": "no values are promised; tests/lower/test_registry.py compares distributions",
    "rng_bit_generator": "StableHLO leaves the algorithm open; what it promises is tested",
    "custom_call": "the kernel is the user's; its values are its definition",
}
