"""Elementwise chains: which instructions they are, and their values."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made
from test_registry import EXAMPLES, arrays_of
from test_registry import assert_near as assert_nearly_equal

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph, Kind, TensorType

OPERATORS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def issued(made, *outputs):
    """Instructions that compute, by name."""
    still = ("dma_copy", "dma_transpose")
    return [name for name in made.opcodes(*outputs) if name not in still]


def biased(made, x):
    product = made.graph.dot_general(x, made.weight(192, x.shape[1]), (1, 1))
    return made.of("add", product, made.row(made.weight(192), product))


def test_bias_and_activation_are_one_instruction():
    made = Made("bfloat16")
    x = made.given(20, 128)
    found = made.of("gelu", biased(made, x))
    names = issued(made, found)
    assert names.count("activation") == 2  # blocks of 128 and 64 columns
    assert not {"tensor_scalar", "tensor_tensor"} & set(names)
    made.check(found)


def test_bias_and_residual_are_one_instruction():
    made = Made("bfloat16")
    x, more = made.given(20, 128), made.given(20, 192)
    first = made.of("relu", biased(made, x))
    found = made.of("add", first, biased(made, x))
    names = issued(made, found)
    assert names.count("scalar_tensor_tensor") == 2
    assert "tensor_tensor" not in names
    made.check(found, made.of("add", more, biased(made, x)))


def test_two_numbers_are_one_instruction():
    made = Made()
    x = made.given(100, 40)
    found = made.of("add", made.of("multiply", x, 3.0), 1.0)
    assert issued(made, found) == ["tensor_scalar"]
    other = made.of("subtract", 1.0, made.of("multiply", 3.0, x))
    assert issued(made, other) == ["tensor_scalar"]
    made.check(found, other)


def test_what_several_read_is_computed_once():
    made = Made()
    x = made.given(100, 40)
    shared = made.of("exponential", made.of("multiply", x, 0.5))
    outputs = [made.of(name, shared) for name in ("sqrt", "negate", "square")]
    assert issued(made, *outputs).count("activation") == 3  # exponential, sqrt and square
    made.check(*outputs)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kinds", ["xn", "nx", "xr", "rx", "xc", "cx", "cr", "rc", "xx", "cn"])
def test_each_operator_takes_numbers_rows_and_columns_on_either_side(name, kinds):
    """x is a tensor, n a number, r a row and c a column that are repeated."""
    made = Made(seed=3)
    x = made.given(130, 40, array=made.random.uniform(1, 2, (130, 40)))
    side = {
        "x": lambda: x,
        "n": lambda: 1.5,
        "r": lambda: made.row(made.given(40, array=made.random.uniform(1, 2, 40)), x),
        "c": lambda: made.repeated(
            made.given(130, 1, array=made.random.uniform(1, 2, (130, 1))), x, (0, 1)
        ),
    }
    first, second = (side[kind]() for kind in kinds)
    found = made.of(name, first, second)
    chip = CHIPS[(len(name) + ord(kinds[0])) % 4]
    made.check(found, made.of(name, found, x), made.of("negate", found), chip=chip, near=1e-6)


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_repeated_may_be_the_whole_result(chip):
    made = Made()
    column, number = made.given(130, 1), made.given()
    wide = made.graph.broadcast_in_dim(column, (130, 40), (0, 1))
    row = made.graph.broadcast_in_dim(made.given(40), (130, 40), (1,))
    every = made.graph.broadcast_in_dim(number, (130, 40), ())
    made.check(
        *(made.of("tanh", one) for one in (wide, row, every)),
        *(made.of("multiply", 2.0, one) for one in (wide, row, every)),
        made.of("divide", 1.0, made.of("exponential", wide)),
        made.of("add", made.of("multiply", wide, 2.0), row),
        made.of("add", made.of("multiply", wide, wide), every),
        chip=chip,
    )


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "bool"])
def test_integers_and_truth_values_are_computed_as_such(dtype):
    made = Made(dtype)
    x, y = (made.given(130, 5, array=made.random.integers(0, 2, (130, 5))) for _ in range(2))
    outputs = [made.of(name, x, y) for name in ("and", "or", "xor")]
    if dtype != "bool":
        outputs += [made.of(name, x, y) for name in ("add", "multiply", "maximum")]
        said = made.of("compare", x, y, direction="LT")
        outputs += [said, made.of("select", said, x, y), made.of("convert", x, dtype="float32")]
    made.check(*outputs)


def test_conversions_round_where_they_are_written():
    made = Made()
    x = made.given(100, 40)
    short = made.of("convert", x, dtype="bfloat16")
    (found,) = made.check(short, near=1e-9)
    np.testing.assert_array_equal(found, made.arrays[0].astype(found.dtype))
    assert len([name for name in made.opcodes(short) if name != "dma_copy"]) == 1


SEVERAL = [
    one
    for one in EXAMPLES
    if one.values[0].operation.kind is Kind.ELEMENTWISE
    and len(one.values[0].operands) > 1
    and np.isinf(one.values[0].operation.largest_quotient)  # one number may divide too much
]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("example", SEVERAL)
def test_any_operand_may_be_one_number_throughout(example):
    arrays, operation = arrays_of(example), example.operation
    graph, given = Graph(), []
    results = []
    for place in range(len(arrays)):
        one = [graph.input(array.shape, array.dtype.name) for array in arrays]
        given += arrays
        kind = one[place].type
        number = arrays[place].reshape(-1)[0].item()
        one[place] = graph.constant(number, TensorType(kind.shape, kind.dtype))
        results.append(graph.apply(operation, *one))
    graph.outputs = results
    with np.errstate(all="ignore"):
        wanted = graph.reference(given)
    for ours, theirs in zip(evaluate_program(graph, given, "trn3"), wanted, strict=True):
        assert_nearly_equal(ours, theirs, operation.tolerance, operation.tolerance_floor)
