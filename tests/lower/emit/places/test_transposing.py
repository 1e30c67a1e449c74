"""Tensors that turn, and what is written in order: every type and edge of a block."""

from itertools import permutations

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.lower import bound, costs, evaluate
from trnsim.lower.emit.places.transposing import is_straight
from trnsim.lower.emit.places.walk import Frame

SIZES = [(1, 1), (1, 513), (127, 128), (128, 127), (129, 512), (130, 3), (513, 129)]
DTYPES = ["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int32", "int8", "uint8"]


def computed(made, x):
    """`x` by an operation that changes no number."""
    return made.of("maximum", x, x)


def check_exactly(made, *outputs, chip="trn2"):
    made.graph.outputs = list(outputs)
    found = evaluate_program(made.graph, made.arrays, chip, frozenset(made.weights))
    for ours, theirs in zip(found, made.graph.reference(made.arrays), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [*((shape, "float32") for shape in SIZES), *((SIZES[-1], dtype) for dtype in DTYPES[1:])],
)
def test_a_matrix_turned_is_its_transpose(shape, dtype):
    made = Made(dtype)
    x = made.given(*shape, array=made.random.integers(0, 8, shape))
    flipped = made.given(*shape[::-1], array=made.random.integers(0, 8, shape[::-1]))
    turned = made.graph.transpose(computed(made, x), (1, 0))
    chip = CHIPS[(len(dtype) + shape[0]) % 4]
    check_exactly(made, turned, made.of("minimum", turned, computed(made, flipped)), chip=chip)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("order", list(permutations(range(4)))[1::2])
def test_every_order_of_dimensions(order):
    made = Made("bfloat16")
    x = made.given(3, 2, 33, 8)
    y = made.given(2, 3, 40)
    moved = made.graph.transpose(computed(made, x), order)
    product = made.graph.reshape(made.linear(y, 48), (2, 3, 8, 6))
    chip = CHIPS[order[0]]
    made.check(moved, made.of("add", moved, 1.0), made.graph.transpose(product, order), chip=chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_numbers_that_are_none_pass_where_no_product_moves_them(chip):
    made = Made()
    numbers = np.array([[np.inf, -np.inf, np.nan, -0.0]] * 3)
    x = made.given(3, 4, array=numbers)
    check_exactly(made, made.graph.transpose(x, (1, 0)) if chip != "trn1" else x, chip="trn2")


def test_a_view_in_many_pieces_is_put_in_order_by_a_kernel():
    made = Made("int8")
    x = made.given(2, 130, 130, 2, array=made.random.integers(-4, 4, (2, 130, 130, 2)))
    turned = made.graph.transpose(made.of("add", x, x), (0, 3, 2, 1))
    names = made.opcodes(turned)
    assert len(names) < 5000
    check_exactly(made, turned, made.graph.reshape(turned, (130, 520)))


def test_what_lies_in_two_dimensions_of_partitions_goes_by_hbm():
    made = Made()
    x = made.of("negate", made.given(4, 5, 8, 3))
    turned = made.graph.transpose(x, (0, 2, 1, 3))
    scores = made.graph.dot_general(turned, made.given(4, 8, 5, 7), (2, 2))
    made.check(scores, made.of("exponential", turned), turned)


def test_transfers_go_along_columns():
    made = Made()
    found = made.given(3, 4)
    made.check(made.graph.transpose(found, (1, 0)))
    from trnsim.lower.emit.places.tensor_place import in_hbm  # noqa: PLC0415  one test's own

    placed = in_hbm(None, (3, 4))
    assert is_straight(placed, Frame((3, 4), (0,), (1,)))
    assert not is_straight(placed, Frame((3, 4), (1,), (0,)))
    assert is_straight(placed.sliced((3, 1), (0, 0), (1, 1)), Frame((3, 1), (0,), (1,)))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("tokens", [1, 24, 129, 300])
@pytest.mark.parametrize("is_first", [True, False])
def test_numbers_along_partitions_meet_numbers_that_every_partition_holds(tokens, is_first):
    made = Made()
    x = made.given(2, tokens, 130)
    rows = made.graph.reduce("maximum", made.of("tanh", x), [2])
    everywhere = made.graph.reduce("add", made.linear(x, 64), [2])
    sides = (rows, everywhere) if is_first else (everywhere, rows)
    both = made.of("add", *sides)
    made.check(both, made.of("multiply", x, made.repeated(both, x, [0, 1])), chip=CHIPS[tokens % 4])


@pytest.mark.parametrize("shape", [(130, 1), (5, 1), (1, 1)])
def test_a_column_that_repeats_is_turned_into_rows_of_one_number(shape):
    made = Made()
    x = computed(made, made.given(*shape, array=made.random.integers(0, 8, shape)))
    wide = made.graph.broadcast_in_dim(x, (shape[0], 40), (0, 1))
    turned = made.graph.transpose(wide, (1, 0))
    check_exactly(made, turned, made.of("add", turned, made.given(40, shape[0])))


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((16, 128, 128), "bfloat16"),
        ((16, 100, 131), "float32"),
        ((3, 700, 903), "float32"),
        ((16, 33, 2, 500), "float32"),
        ((16, 130, 127), "int32"),
        ((16, 64, 64), "uint8"),
    ],
)
def test_a_short_first_dimension_becomes_the_last_of_reversed_ones(shape, dtype, chip):
    graph = Graph()
    order = tuple(range(len(shape)))[::-1]
    graph.outputs = [graph.transpose(graph.input(shape, dtype), order)]
    numbers = np.random.default_rng(0).integers(0, 250, shape)
    x = numbers.astype(graph.inputs[0].type.numpy_dtype())
    np.testing.assert_array_equal(evaluate(graph, [x], chip)[0], x.transpose(order))


@pytest.mark.parametrize("shape", [(16, 128, 128), (4, 512, 512), (4, 2048, 2048)])
def test_reversed_dimensions_take_a_second_way_through_hbm_and_not_short_runs(shape):
    graph = Graph()
    graph.outputs = [graph.transpose(graph.input(shape, "float32"), (2, 1, 0))]
    device_s = sum(cost.device_time_s for cost in costs(graph, "trn2"))
    assert device_s < 7 * bound(graph, "trn2").seconds + 12e-6
