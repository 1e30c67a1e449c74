"""Integers beside numbers that their type lacks, against Python, which compares exact values."""

import math
import operator

import numpy as np
import pytest

from trnsim.graph import Graph, verify
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.types import BOOL, INTEGERS
from trnsim.lower import costs, evaluate
from trnsim.lower.legalize import legalize

DIRECTIONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GT": operator.gt,
    "GE": operator.ge,
    "LT": operator.lt,
    "LE": operator.le,
}
NUMBERS = [
    *(math.inf, -math.inf, math.nan, 0.0, -0.0, 0.5, -0.5, 2.5, 1e-40, -1e-40, 1e300, -1e300),
    *(1 + 1e-8, 1 - 1e-8, 127 + 1e-8, 127.5, -128.5, 300.0, -1.0, -1.5),
    *(2.0**24 - 0.5, 2.0**24 + 0.5, 2.0**24 + 1, -(2.0**24) - 0.5, -(2.0**24) + 0.5),
    *(3e9, -3e9, 2.0**31 - 1, 2.0**31 - 0.5, 2.0**31, -(2.0**31), -(2.0**31) - 0.5, -(2.0**31) - 1),
    *(2.0**32 - 1, 2.0**32 - 0.5, 2.0**32, 2.0**32 + 1, 2.0**63, -(2.0**63), 2.0**64),
]


def edges(dtype):
    if dtype == BOOL:
        return np.array([False, True])
    limits = np.iinfo(dtype)
    near = [
        0,
        1,
        2,
        3,
        100,
        126,
        127,
        128,
        2**24 - 1,
        2**24,
        2**24 + 1,
        2**24 + 2,
        2**31 - 1,
        2**31,
    ]
    both = [*near, *(-n for n in near), limits.min, limits.min + 1, limits.max, limits.max - 1]
    return np.array(sorted({n for n in both if limits.min <= n <= limits.max}), dtype)


def compared(direction, dtype, chip="trn2"):
    """A tensor of edges beside every number, on its right and then on its left."""
    x = edges(dtype)
    g = Graph()
    given = g.input(x.shape, dtype)
    sides = [side for n in NUMBERS for side in ((given, n), (n, given))]
    g.outputs = [g.apply(Compare(direction), *side) for side in sides]
    return x.tolist(), evaluate(g, [x], chip), g.reference([x])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", [*INTEGERS, BOOL])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_chip_says_what_python_says_of_the_numbers_themselves(direction, dtype):
    x, found, reference = compared(direction, dtype)
    holds = DIRECTIONS[direction]
    for number, right, left in zip(NUMBERS, found[::2], found[1::2], strict=True):
        assert right.tolist() == [holds(one, number) for one in x], number
        assert left.tolist() == [holds(number, one) for one in x], number
    for ours, theirs in zip(found, reference, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", ["trn1", "trn3"])
@pytest.mark.parametrize("direction", ["EQ", "LT", "GE"])
def test_other_chips_agree(chip, direction):
    for ours, theirs in zip(
        compared(direction, "int32", chip)[1], compared(direction, "int32")[1], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def beside(number, dtype, direction="LT", named=""):
    g = Graph()
    x = g.input((4,), dtype)
    g.outputs = [g.apply(Compare(direction), x, number, dtype=named)]
    return g


@pytest.mark.parametrize(
    ("direction", "number", "expected"),
    [
        *(("LT", 2.5, 3.0), ("GE", 2.5, 3.0), ("LE", 2.5, 2.0), ("GT", 2.5, 2.0)),
        *(("EQ", 2.5, math.inf), ("NE", 2.5, math.inf), ("LE", -2.5, -3.0)),
        *(("LT", 127.5, math.inf), ("LE", 127.5, 127.0), ("GT", -128.5, -math.inf)),
    ],
)
def test_the_number_becomes_the_next_integer_or_an_infinity(direction, number, expected):
    rebuilt = legalize(beside(number, "int8", direction))
    verify(rebuilt)
    (node,) = rebuilt.nodes
    assert (node.operation, node.operands[1]) == (Compare(direction), expected)
    assert legalize(rebuilt) is rebuilt


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(-128.0, "int8"), (2.0**32 - 1, "uint32"), (math.inf, "int32"), (2.5, "float32"), (1.0, BOOL)],
)
def test_what_instructions_compare_stays(number, dtype):
    graph = beside(number, dtype)
    assert legalize(graph) is graph


def test_the_result_keeps_the_type_that_the_graph_names():
    graph = beside(2.5, "int32", named="float32")
    assert legalize(graph).outputs[0].dtype == "float32"
    x = np.array([1, 2, 3, 4], np.int32)
    assert evaluate(graph, [x])[0].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_number_beyond_the_type_takes_the_time_of_a_small_one():
    """Float32 tells an infinity from every integer: the exact instructions are not needed."""
    seconds = [
        sum(one.device_time_s for one in costs(beside(n, "int32"), "trn2"))
        for n in (7.0, 3e9, math.nan)
    ]
    assert seconds[0] == seconds[1] == seconds[2] > 0
