"""Integers on a chip against Python's own, whose integers have no size."""

import numpy as np
import pytest

from trnsim.graph import OPERATIONS, Graph, Node, TensorType, Value
from trnsim.graph.ops.arithmetic import Add, Divide
from trnsim.graph.ops.bits import And, Popcnt, ShiftLeft, ShiftRightArithmetic, ShiftRightLogical
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import INTEGERS
from trnsim.lower import evaluate
from trnsim.lower.kernels import integers


def edges(dtype):
    limits = np.iinfo(dtype)
    near = [0, 1, 2, 3, 7, 100, limits.max // 2, limits.max // 2 + 1, limits.max - 1, limits.max]
    near += [2**12, 2**16 - 1, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 1, 46341]
    both = near + [-n for n in near] + [limits.min, limits.min + 1]
    return sorted({n for n in both if limits.min <= n <= limits.max})


def kept(number, dtype):
    """A number as an integer of a type keeps it: modulo its size."""
    limits = np.iinfo(dtype)
    return (number - limits.min) % 2**limits.bits + limits.min


def quotient(left, right):
    if right == 0:
        return -1
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def remainder(left, right):
    return left - right * quotient(left, right) if right else left


def power(base, exponent):
    if exponent >= 0:
        return pow(base, exponent, 2**32)
    return {1: 1, -1: 1 if exponent % 2 == 0 else -1}.get(base, 0)


BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": quotient,
    "remainder": remainder,
    "floor_remainder": lambda x, y: x % y if y else x,
    "power": power,
    "maximum": max,
    "minimum": min,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
UNARY = {
    "negate": lambda x: -x,
    "abs": abs,
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0),
    "not": lambda x: ~x,
}
COMPARED = {
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
}


def pairs(dtype):
    """Every edge with every edge, as two arrays."""
    numbers = np.array(edges(dtype), np.int64).astype(dtype)
    left, right = (side.ravel() for side in np.meshgrid(numbers, numbers))
    return left, right


def run(operation, *arrays, chip="trn2", dtype=""):
    """What a chip gives, for arrays and numbers."""
    g = Graph()
    operands = [
        g.input(one.shape, one.dtype.name) if isinstance(one, np.ndarray) else one for one in arrays
    ]
    g.outputs = [g.apply(operation, *operands, dtype=dtype)]
    assert integers.is_exact(g.nodes[0])
    return evaluate(g, [one for one in arrays if isinstance(one, np.ndarray)], chip)[0]


def of(name):
    return OPERATIONS[name]()


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", BINARY)
def test_every_pair_of_edges_gives_what_python_gives_modulo_the_size(name, dtype):
    left, right = pairs(dtype)
    found = run(of(name), left, right)
    both = zip(left.tolist(), right.tolist(), strict=True)
    assert found.dtype == dtype
    assert found.tolist() == [kept(BINARY[name](x, y), dtype) for x, y in both]


@pytest.mark.parametrize("chip", ["trn1", "trn3"])
@pytest.mark.parametrize("name", ["divide", "remainder", "multiply"])
def test_other_chips_agree(name, chip):
    left, right = pairs("int32")
    np.testing.assert_array_equal(
        run(of(name), left, right, chip=chip), run(of(name), left, right, chip="trn2")
    )


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name, dtype):
    numbers = np.array(edges(dtype), np.int64).astype(dtype)
    expected = [kept(UNARY[name](x), dtype) for x in numbers.tolist()]
    assert run(of(name), numbers).tolist() == expected


@pytest.mark.parametrize("dtype", ["int32", "int16", "int8"])
def test_signs(dtype):
    numbers = np.array(edges(dtype), dtype)
    assert run(of("sign"), numbers).tolist() == [(x > 0) - (x < 0) for x in numbers.tolist()]


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("direction", COMPARED)
def test_neighbours_that_float32_takes_for_equal_are_told_apart(direction, dtype):
    left, right = pairs(dtype)
    both = zip(left.tolist(), right.tolist(), strict=True)
    expected = [COMPARED[direction](x, y) for x, y in both]
    assert run(Compare(direction), left, right).tolist() == expected


@pytest.mark.parametrize("result", ["float32", "bfloat16", "float16", "bool", "int32", "int8"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_comparison_gives_one_or_zero_of_every_type(dtype, result):
    left, right = pairs(dtype)
    graph = Graph()
    sides = [graph.input(side.shape, dtype) for side in (left, right)]
    graph.outputs.append(graph.elementwise("compare", *sides, dtype=result, direction="LT"))
    (found,) = evaluate(graph, [left, right])
    assert found.astype(float).tolist() == [float(x < y) for x, y in zip(left, right, strict=True)]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_every_number_of_places(dtype):
    size = np.iinfo(dtype).bits
    numbers = edges(dtype)
    places = [*range(size + 2), 100, np.iinfo(dtype).max]
    places += [-1, -size] if np.iinfo(dtype).min else []
    left = np.repeat(np.array(numbers, np.int64), len(places)).astype(dtype)
    right = np.tile(np.array(places, np.int64), len(numbers)).astype(dtype)
    both = list(zip(left.tolist(), right.tolist(), strict=True))
    found = run(ShiftLeft(size), left, right).tolist()
    assert found == [kept(x << n, dtype) if 0 <= n < size else 0 for x, n in both]
    found = run(ShiftRightLogical(size), left, right).tolist()
    assert found == [kept(x % 2**size >> n, dtype) if 0 <= n < size else 0 for x, n in both]
    if np.iinfo(dtype).min:
        found = run(ShiftRightArithmetic(size), left, right).tolist()
        assert found == [x >> n if 0 <= n < size else -(x < 0) for x, n in both]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ones_are_counted(dtype):
    size = np.iinfo(dtype).bits
    numbers = np.array(edges(dtype), np.int64).astype(dtype)
    expected = [(x % 2**size).bit_count() for x in numbers.tolist()]
    assert run(Popcnt(size), numbers).tolist() == expected


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_clamp_is_exact(dtype):
    left, right = pairs(dtype)
    found = run(of("clamp"), left, right, left)
    assert found.tolist() == left.tolist()
    low, high = np.minimum(left, right), np.maximum(left, right)
    middle = np.roll(left, 5)
    expected = np.minimum(np.maximum(middle, low), high)
    np.testing.assert_array_equal(run(of("clamp"), low, middle, high), expected)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_conversion_keeps_the_low_bytes(dtype, target):
    if dtype == target:
        return
    numbers = np.array(edges(dtype), np.int64).astype(dtype)
    found = run(Convert(target), numbers)
    assert found.dtype == target
    assert found.tolist() == [kept(x, target) for x in numbers.tolist()]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("number", [0.0, 1.0, 3.0, -1.0, 100.0])
@pytest.mark.parametrize("name", ["subtract", "divide", "remainder", "floor_remainder", "multiply"])
def test_numbers_stand_on_either_side(name, number, dtype):
    if number < 0 and not np.iinfo(dtype).min:
        return  # the type has no such number
    numbers = np.array(edges(dtype), np.int64).astype(dtype)
    expected = [kept(BINARY[name](x, int(number)), dtype) for x in numbers.tolist()]
    assert run(of(name), numbers, number).tolist() == expected
    expected = [kept(BINARY[name](int(number), x), dtype) for x in numbers.tolist()]
    assert run(of(name), number, numbers).tolist() == expected


def test_a_number_beyond_float32s_integers_is_exact():
    numbers = np.array([0, 1, 2**24, -(2**24)], np.int32)
    assert run(Add(), numbers, 2.0**24 + 1).tolist() == [16777217, 16777218, 33554433, 1]
    large = np.array([0, 2**31, 2**32 - 1], np.uint32)
    assert run(Add(), large, 2.0**31).tolist() == [2**31, 0, 2**31 - 1]
    assert run(And(), large, 2.0**32 - 1).tolist() == large.tolist()


@pytest.mark.parametrize("shape", [(1,), (129, 3), (2, 1, 5), ()])
def test_shapes_are_kept(shape):
    rng = np.random.default_rng(3)
    left, right = (rng.integers(-(2**31), 2**31, shape).astype(np.int32) for _ in range(2))
    np.testing.assert_array_equal(run(Add(), np.asarray(left), np.asarray(right)), left + right)


def test_a_column_beside_rows_is_repeated():
    g = Graph()
    rows, column = g.input((5, 7), "int32"), g.input((5, 1), "int32")
    g.outputs = [g.elementwise("divide", rows, g.broadcast_in_dim(column, (5, 7), (0, 1)))]
    left = np.arange(-17, 18, dtype=np.int32).reshape(5, 7) * 7919
    right = np.array([[3], [-7], [1], [16777217], [-1]], np.int32)
    assert evaluate(g, [left, right])[0].tolist() == [
        [quotient(x, y) for x in row]
        for row, (y,) in zip(left.tolist(), right.tolist(), strict=True)
    ]


def node(operation, *operands, dtype="int32"):
    return Node(operation, operands, (Value(9, TensorType((4,), dtype)),))


def test_only_integers_are_exact_and_only_where_float32_is_not():
    def value(dtype):
        return Value(0, TensorType((4,), dtype))

    assert integers.is_exact(node(Divide(), value("int8"), value("int8"), dtype="int8"))
    assert not integers.is_exact(node(Divide(), value("int8"), value("float32")))
    assert not integers.is_exact(node(Divide(), value("int32"), value("int32"), dtype="float32"))
    # Integers of up to 24 bits, and numbers up to there, are compared in float32.
    for small, large in ((value("int16"), value("int32")), (2.0**24 - 1, 2.0**24)):
        assert not integers.is_exact(node(Compare(), value("int16"), small, dtype="bool"))
        assert integers.is_exact(node(Compare(), value("int32"), large, dtype="bool"))
    assert not integers.is_exact(node(Compare(), value("int32"), 7.0, dtype="bool"))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "and", "or", "xor"])
@pytest.mark.parametrize(
    ("dtypes", "result"),
    [
        (("int16", "uint32"), "uint32"),
        (("uint32", "int8"), "int16"),
        (("int32", "uint32"), "int32"),
        (("int8", "int8"), "uint32"),
        (("uint8", "int32"), "uint32"),
    ],
)
def test_integers_of_several_types_keep_their_bits(name, dtypes, result):
    pairs = [(x, y) for x in edges(dtypes[0]) for y in edges(dtypes[1])]
    sides = [
        np.array(side, dtype) for side, dtype in zip(zip(*pairs, strict=True), dtypes, strict=True)
    ]
    graph = Graph()
    inputs = [graph.input(side.shape, side.dtype.name) for side in sides]
    graph.outputs = [graph.elementwise(name, *inputs, dtype=result)]
    expected = [kept(BINARY[name](*pair), result) for pair in pairs]
    np.testing.assert_array_equal(evaluate(graph, sides)[0], np.array(expected, result))
