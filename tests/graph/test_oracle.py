"""Every operation's reference against JAX, at full precision, at edge values and edge shapes."""

import os
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest

os.environ["JAX_PLATFORMS"] = "cpu"  # the oracle, and not our own device

jax = pytest.importorskip("jax", reason="the oracle is JAX: pip install 'trnsim[test]'")

from trnsim.graph import OPERATIONS, Example, Graph, Kind, TensorType
from trnsim.graph.ops import (
    arithmetic,
    bits,
    collectives,
    comparison,
    contraction,
    control_flow,
    functions,
    layout,
    leaves,
    lookup,
    reductions,
    rounding,
)
from trnsim.graph.types import INTEGERS, round_to_dtype, widen

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names

from edges import values
from oracles import ELSEWHERE, ORACLES

F32, I32, U32, BOOL = "float32", "int32", "uint32", "bool"


def given(*types):
    return tuple(TensorType(shape, dtype) for shape, dtype in types)


def case(operation, *types, values=(), limit=0):
    return Example(operation, given(*types), values or ("edges",) * len(types), limit)


def shapes(operation, sides=1, dtype=F32):
    """One number, one element, nothing, more dimensions."""
    for shape in ((), (1,), (0,), (2, 0, 3), (1, 1, 5, 7)):
        yield case(operation, *((shape, dtype),) * sides)


def movement():
    x = ((4, 5), F32)
    for low, high, gap in (
        ((0, 0), (0, 0), (0, 0)),
        ((-1, -2), (-1, -1), (0, 0)),
        ((4, -3), (-5, 6), (0, 1)),  # all of the operand goes; only the number stays
        ((-2, 3), (4, -4), (2, 3)),
        ((-4, 0), (0, 0), (0, 0)),
    ):
        yield case(layout.Pad(low, high, gap, 9.0), x)
    yield case(layout.Pad((2,), (3,), (4,), -0.5), ((0,), F32))
    yield case(layout.Pad((2,), (3,), (4,), 1.0), ((1,), BOOL))
    yield case(layout.Pad((), (), (), 1.0), ((), F32))
    yield case(layout.Slice((2, 2), (0, 1), (3, 3)), x)
    yield case(layout.Slice((0, 5), (4, 0), (1, 1)), x)
    yield case(layout.Reverse(()), x)
    yield case(layout.Reverse((0, 2)), ((2, 0, 3), I32))
    yield case(layout.Transpose(()), ((), F32))
    yield case(layout.Transpose((1, 2, 0)), ((0, 1, 4), "uint8"))
    yield case(layout.Reshape((0, 7)), ((3, 0), F32))
    yield case(layout.Reshape((1, 1)), ((), BOOL))
    yield case(layout.BroadcastInDim((3, 2, 4), (2, 0)), ((4, 3), F32))
    yield case(layout.BroadcastInDim((3, 2, 4), (2, 0)), ((1, 3), I32))
    yield case(layout.BroadcastInDim((0, 2), (1,)), ((1,), F32))
    yield case(layout.Concatenate(0), ((0, 3), F32), ((2, 3), F32), ((1, 3), F32))
    yield case(layout.Concatenate(1), ((2, 3), BOOL))
    for low, high in ((-9, 9), (0, 1)):
        place = ((), I32)
        for start in (low, high):
            yield started(layout.DynamicSlice((3, 1)), given(x, place, place), (start, start))
            update = ((1, 5), F32)
            yield started(
                layout.DynamicUpdateSlice(), given(x, update, place, place), (start, start)
            )
    yield case(leaves.Iota((1,), "int32", 0))
    yield case(leaves.Iota((2, 0, 3), "float32", 2))
    yield case(leaves.Iota((3, 300), "uint8", 1))
    yield case(leaves.Constant((), "float16", -0.0))
    yield case(leaves.Constant((0, 2), "int8", -1.0))
    yield case(leaves.Constant((2,), F32, np.inf))


def started(operation, types, starts):
    """With scalars of its own as starts, which come last."""
    kinds = ("distinct",) * (len(types) - len(starts)) + tuple(f"={at}" for at in starts)
    return Example(operation, types, kinds)


def sums():
    for op in ("add", "multiply", "maximum", "minimum"):
        for dtype in (F32, "int8", U32, BOOL):
            yield case(reductions.Reduce(op, (0,)), ((5, 3), dtype))
            yield case(reductions.Reduce(op, (1,)), ((2, 0), dtype))
        yield case(reductions.Reduce(op, ()), ((5,), F32))
        yield case(reductions.Reduce(op, (0, 1, 2)), ((2, 1, 3), F32))
        yield case(reductions.Reduce(op, (0,)), ((3, 0), F32))
        for dtype in ("int8", U32):
            yield case(reductions.Scan(op), ((2, 40), dtype))
        yield case(reductions.Scan(op), ((2, 0), F32))
        yield case(reductions.Scan(op), ((3, 1), F32))
        window = reductions.ReduceWindow((2, 3), (1, 2), (2, 0), (2, 4), op, (1, 2))
        yield case(window, ((5, 9), F32))
        yield case(window, ((5, 9), "int8"))  # the first windows see padding alone
        yield case(reductions.ReduceWindow((3,), (4,), (0,), (0,), op), ((1,), F32))
        yield case(reductions.ReduceWindow((5,), (2,), (0,), (0,), op), ((4,), F32))  # no window
        yield case(reductions.ReduceWindow((1,), (3,), (-2,), (-1,), op), ((11,), F32))
    pool = reductions.SelectAndScatter((3, 2), (2, 1), (1, 1), (1, 0))
    least = reductions.SelectAndScatter((3, 2), (2, 1), (1, 1), (1, 0), "minimum")
    for one in (pool, least):
        types = ((5, 6), F32), ((3, 6), F32)
        yield case(one, *types, values=("small", "small"))
        yield case(one, *types, values=("=0", "small"))  # of equal ones the first
    for M, K, N in ((1, 1, 1), (0, 3, 2), (2, 0, 3), (5, 7, 2)):
        yield case(
            contraction.DotGeneral((1, 0)), ((M, K), F32), ((K, N), F32), values=("small",) * 2
        )


def convolutions():
    for size, kernel, options in (
        ((1, 1, 1), (1, 1, 1), ((1,), (0,), (0,), (0,), (1,), 1)),
        ((2, 6, 9), (9, 2, 3), ((2,), (2,), (1,), (0,), (2,), 3)),
        ((1, 2, 5, 4), (4, 1, 2, 3), ((1, 2), (1, 0), (0, 3), (2, 0), (1, 1), 2)),
        ((1, 2, 9), (3, 2, 2), ((1,), (-2,), (-1,), (0,), (1,), 1)),
        ((1, 2, 4), (3, 2, 2), ((1,), (-2,), (1,), (2,), (1,), 1)),
        ((1, 1, 2), (1, 1, 5), ((1,), (0,), (0,), (0,), (1,), 1)),
        ((1, 1, 4), (1, 1, 5), ((2,), (0,), (0,), (0,), (1,), 1)),  # no window
        ((1, 1, 0), (1, 1, 2), ((1,), (2,), (1,), (1,), (1,), 1)),
        ((0, 2, 5), (3, 2, 2), ((1,), (0,), (0,), (0,), (1,), 1)),
        ((1, 4, 3, 2), (6, 2, 2, 3), ((1, 1), (1, 2), (0, 1), (1, 2), (1, 1), 2, True)),
        ((1, 1, 2, 3, 4), (2, 1, 1, 2, 2), ((1,) * 3, (0,) * 3, (1,) * 3, (0,) * 3, (1,) * 3, 1)),
    ):
        types = (size, F32), (kernel, F32)
        yield case(contraction.Convolution(*options), *types, values=("small", "small"))


def ordered():
    for down in (False, True):
        sort = reductions.Sort(0, down)
        for dtype in (F32, *INTEGERS, BOOL):
            yield case(sort, ((40, 3), dtype), ((40, 3), I32), values=("edges", "distinct"))
        yield case(reductions.Sort(1, down), ((2, 0), F32))
        yield case(reductions.Sort(-1, down), ((2, 1, 3), "int8"))
    for k in (1, 5, 19):
        for dtype in (F32, I32, "uint8"):
            yield case(reductions.TopK(k), ((3, 19), dtype))


def looked_up():
    index = ((4, 2), I32)
    table = ((6, 5, 3), F32)
    for operation, places in (
        (lookup.Gather((1, 2), (1,), (), (), (2, 1), 1, (2, 1, 3)), index),
        (lookup.Gather((0, 2), (1,), (), (), (2, 1), 0, (2, 1, 3)), ((2, 4), I32)),
        (lookup.Gather((1,), (1,), (0,), (0,), (1,), 1, (1, 1, 2)), ((6, 1), I32)),
        (lookup.Gather((2,), (1,), (0,), (1,), (1,), 2, (1, 1, 2)), ((2, 6), I32)),
        (lookup.Gather((1,), (1,), (0,), (1,), (1,), 0, (1, 1, 2)), ((1, 6), I32)),
        (lookup.Gather((0,), (0, 1), (), (), (0,), 0, (1, 1, 3)), ((1,), I32)),
        (lookup.Gather((1, 2, 3), (), (), (), (0,), 1, (0, 5, 3)), ((2, 1), I32)),
    ):
        yield case(operation, table, places, values=("distinct", "around"), limit=7)
    yield case(lookup.Gather.rows((4, 3), (0,)), ((4, 3), BOOL), ((0,), I32))
    for op in ("add", "multiply", "maximum", "minimum", "assign"):
        for dtype in (F32, I32) if op in ("add", "assign") else (F32,):
            for numbers, size, places in (
                (((1, 2), (1,), (), (), (2, 1), 1), (4, 2, 3), ((4, 2), I32)),
                (((0, 1), (1,), (), (), (2, 1), 0), (2, 3, 4), ((2, 4), I32)),
                (((2,), (1,), (0,), (1,), (1,), 2), (2, 6, 2), ((2, 6), I32)),
                (((), (0, 1, 2), (), (), (0, 1, 2), 1), (9,), ((9, 3), I32)),
            ):
                yield case(
                    lookup.Scatter(None, op, *numbers),
                    (size, dtype),
                    places,
                    (table[0], dtype),
                    values=("small", "around", "small"),
                    limit=7,
                )
    zeros = TensorType((4,), I32)
    one = lookup.Scatter.rows((4,), (0,), "add", zeros)
    yield case(one, ((0,), I32), ((0,), I32))


def exchanged():
    for op in ("add", "multiply", "maximum", "minimum"):
        for dim in (0, 1):
            one = collectives.ReduceScatter(((2, 0, 3, 1),), op, dim)
            yield case(one, ((4, 8), F32), values=("small",))
        yield case(collectives.AllReduce(((0, 1),), op), ((), I32))
    yield case(collectives.AllGather(((0,),), 1), ((2, 0), F32))
    for split in (0, 1):
        for join in (0, 1):
            yield case(collectives.AllToAll(((0, 1, 2),), split, join), ((3, 6), I32))
    yield case(collectives.CollectivePermute(((0, 2), (2, 0))), ((3,), F32))


def elementwise():
    for name in ("add", "divide", "remainder", "floor_remainder", "power", "maximum"):
        yield from shapes(OPERATIONS[name](), 2)
    for dtype in (F32, *INTEGERS):  # every pair of edges
        for name in ("divide", "remainder", "floor_remainder", "power", "multiply", "subtract"):
            yield pairs(OPERATIONS[name](), dtype)
    for name in ("negate", "floor", "round_nearest_afz", "logistic", "is_finite", "mish"):
        yield from shapes(OPERATIONS[name]())
    for direction in comparison.DIRECTIONS:
        yield pairs(comparison.Compare(direction), F32)
    yield case(arithmetic.Clamp(), *(((9, 9), F32),) * 3)
    for one in vars(functions).values():
        if isinstance(one, type) and one.__module__ == functions.__name__ and one.name:
            yield Example(one(), given(((1001,), F32)), ("line",))


def of_bits():
    for dtype in INTEGERS:
        size = 8 * TensorType((), dtype).nbytes
        for shift in (bits.ShiftLeft, bits.ShiftRightLogical, bits.ShiftRightArithmetic):
            if dtype in shift.legal[0]:
                yield pairs(shift(size), dtype)  # by too many and by negative places
    yield case(rounding.BitcastConvert("uint32"), ((3, 9), F32))
    yield case(rounding.BitcastConvert("float16"), ((3, 9), "int16"))
    yield case(rounding.BitcastConvert(F32), ((), U32))
    for kind in ("float16", "float8_e5m2", "float8_e4m3"):
        yield case(rounding.ReducePrecision(kind), ((3, 40), F32))
        yield case(rounding.ReducePrecision(kind), ((4, 300), F32), values=("fine",))
        yield case(rounding.ReducePrecision(kind), ((4, 20), F32), values=("halves",))


def pairs(operation, dtype):
    return Example(operation, given(((32, 32), dtype), ((32, 32), dtype)), ("rows", "columns"))


def controlled():
    row = ((3,), F32)
    branch = Graph()
    branch.outputs = [branch.elementwise("add", branch.input((3,), F32), 1.0)]
    other = Graph()
    other.outputs = [other.elementwise("negate", other.input((3,), F32))]
    for index in ("=-5", "=0", "=1", "=7"):
        yield case(control_flow.Case((branch, other)), ((), I32), row, values=(index, "small"))
    for pred in ("=0", "=1"):
        yield case(control_flow.If((branch, other)), ((), BOOL), row, values=(pred, "small"))
    never = Graph()
    never.outputs = [never.elementwise("compare", never.input((), I32), 0.0, direction="GT")]
    less = Graph()
    less.outputs = [less.elementwise("subtract", less.input((), I32), 1.0)]
    for count in ("=0", "=3"):
        yield case(control_flow.While(never, less), ((), I32), values=(count,))


def arrays_of(example):
    rng = np.random.default_rng(1)
    operation, kinds = example.operation, example.values
    found = []
    for kind, wanted in zip(
        kinds or ("edges",) * len(example.operands), example.operands, strict=True
    ):
        one = array_of(kind, wanted, example.limit, rng)
        if operation.kind is Kind.COLLECTIVE:
            members = getattr(operation, "replica_groups", ((0, 1, 2),))[0]
            if isinstance(operation, collectives.CollectivePermute):
                members = range(1 + max(max(pair) for pair in operation.source_target_pairs))
            one = np.stack([array_of(kind, wanted, example.limit, rng) for _ in members])
        found.append(one)
    return found


def array_of(kind, wanted, limit, rng):
    dtype = wanted.numpy_dtype()
    if kind.startswith("="):
        return np.full(wanted.shape, float(kind[1:])).astype(dtype)
    if kind in ("fine", "halves"):  # about the smallest normal number of float16 and 8-bit formats
        places = np.linspace(0.75, 1.25, wanted.shape[1])
        if kind == "halves":  # half a place below them, for one width of mantissas
            places = 1 - 0.5 ** np.arange(1, wanted.shape[1] + 1)
        return (places * np.array([[2.0**-14], [-(2.0**-6)], [2.0**8], [65504]])).astype(dtype)
    if kind == "around":  # places before, inside and beyond
        return rng.integers(-2, limit, wanted.shape).astype(dtype)
    if kind == "line":
        return np.linspace(-30, 30, prod(wanted.shape)).astype(dtype).reshape(wanted.shape)
    if kind in ("rows", "columns"):
        edges = values("edges", TensorType(wanted.shape[:1], wanted.dtype), 0, rng)
        column = edges[:, None] if kind == "rows" else edges[None, :]
        return np.broadcast_to(column, wanted.shape).copy()
    return values(kind, wanted, limit, rng)


def widened(array):
    """Floating point in float64; integers as they are."""
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def distinct(examples):
    """Without those that differ in the type of floating point alone, which float64 holds."""
    found = {}
    for one in examples:
        is_open = not one.operation.reads_stored
        types = tuple(
            TensorType(t.shape, F32) if is_open and t.is_floating else t for t in one.operands
        )
        found.setdefault((one.operation, types, one.values, one.limit), one)
    return list(found.values())


OWN = [
    *elementwise(),
    *of_bits(),
    *movement(),
    *sums(),
    *convolutions(),
    *ordered(),
    *looked_up(),
    *exchanged(),
    *controlled(),
]
EXAMPLES = [
    one
    for name in ORACLES
    for one in (*OPERATIONS[name].examples(), *(o for o in OWN if o.operation.name == name))
]


def cases(examples):
    """Parameters of a test: of an operation its first, its last and one in eight are not slow."""
    of_each = {}
    for number, example in enumerate(examples):
        of_each.setdefault(example.operation.name, []).append((number, example))
    return [
        pytest.param(
            example,
            id=f"{name}-{number}",
            marks=() if at % 8 == 0 or at == len(found) - 1 else pytest.mark.slow,
        )
        for name, found in of_each.items()
        for at, (number, example) in enumerate(found)
    ]


_BITS = ("bitcast_convert", "reinterpret")
SIGNED = ("sign", "negate", "abs", "divide", "multiply")
"""Operations on which the sign of a zero is compared, besides the exact ones."""


def assert_same(found, expected, operation):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
        return
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    is_single = operation.kind is Kind.CONTROL
    np.testing.assert_allclose(found, expected, *((1e-6,) if is_single else (1e-11, 1e-13)))
    if operation.tolerance == 0 or operation.name in SIGNED:
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("example", cases(distinct(EXAMPLES)))
def test_a_reference_gives_what_jax_gives(example):
    operation, arrays = example.operation, arrays_of(example)
    is_narrow = operation.kind is Kind.CONTROL or operation.name in _BITS
    oracles = arrays if is_narrow else list(map(widened, arrays))
    with np.errstate(all="ignore"):
        read = arrays if operation.reads_stored else list(map(widen, arrays))
        found = operation.reference(*read)
        with jax.enable_x64(True):
            expected = ORACLES[operation.name](operation, *oracles)
    found, expected = (
        one if isinstance(one, tuple | list) else (one,) for one in (found, expected)
    )
    operation.check(example.operands)
    types = operation.types(*example.operands)
    for ours, theirs, wanted in zip(found, expected, types, strict=True):
        if operation.kind is not Kind.COLLECTIVE:
            assert wanted.shape == theirs.shape
        kept = ours if wanted.is_floating else round_to_dtype(ours, wanted.dtype)
        if not wanted.is_floating:
            assert np.dtype(wanted.dtype) == theirs.dtype
        assert_same(kept, theirs, operation)


def test_no_operation_is_left_out():
    assert {*ORACLES, *ELSEWHERE} == {*OPERATIONS}
    assert not {*ORACLES} & {*ELSEWHERE}
    assert all(ELSEWHERE.values())


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    "mask",
    [
        {},
        {"is_causal": True},
        {"is_causal": True, "first": 2},
        {"is_causal": True, "first": 1, "window": 3},
        {"window": 5},
    ],
)
def test_gradients_of_attention_are_those_of_its_formula(mask):
    rng = np.random.default_rng(2)
    forward = contraction.Attention(0.3, **mask)
    sizes = (2, 5, 6), (2, 7, 6), (2, 7, 3), (2, 5, 3), (5, 7)
    query, key, value, grad, bias = (rng.standard_normal(size) for size in sizes)

    def values_of(*given):
        return ORACLES["attention"](forward, *given, bias)[0]

    with jax.enable_x64(True):
        expected = jax.jit(lambda *given: jax.vjp(values_of, *given)[1](grad))(query, key, value)
    result, logs = forward.reference(query, key, value, bias)
    backward = contraction.AttentionBackward(0.3, **mask)
    found = backward.reference(query, key, value, grad, result, logs, bias)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def test_padding_of_a_window_is_never_its_extreme():
    """JAX pads with infinities of its own, and loses the gradient of an element that is one."""
    for op, number in (("maximum", -np.inf), ("minimum", np.inf)):
        pool = reductions.SelectAndScatter((2,), (2,), (1,), (2,), op)
        found = pool.reference(np.full(3, number), np.array([10.0, 20.0, 30.0]))
        assert found.tolist() == [10, 20, 0]  # the last window has padding alone


def test_random_bits_follow_from_the_state():
    generator = leaves.RngBitGenerator((64, 32))
    start = np.array([1, 2, 3, 4])
    after, random_bits = generator.reference(start)
    again = generator.reference(start)
    np.testing.assert_array_equal(random_bits, again[1])
    np.testing.assert_array_equal(after, again[0])
    assert (after != start).any()
    assert (generator.reference(after)[1] != random_bits).any()
    assert random_bits.min() >= 0
    assert random_bits.max() < 2**32
    ones = np.unpackbits(random_bits.astype(np.uint32).view(np.uint8)).mean()
    assert ones == pytest.approx(0.5, abs=0.01)  # 65,536 bits: five standard deviations


@pytest.mark.parametrize("first", [(-1, 1), (1, -1), (-1, -1), (5, 1), (1, 6)])
def test_an_update_that_leaves_the_table_in_one_dimension_is_dropped(first):
    wide = lookup.Scatter(None, "add", (1, 2), (), (), (), (0, 1), 1, is_in_bounds=False)
    updates, places = np.ones((2, 2, 3)), np.array([first, (2, 4)])
    added = wide.reference(updates, places, np.zeros((6, 8)))
    assert added[2:4, 4:7].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert added.sum() == 6
