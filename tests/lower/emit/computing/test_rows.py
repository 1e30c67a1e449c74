"""Norms and softmax of rows in HBM: values at all sizes, and each row read once."""

import re
from math import prod

import numpy as np
import pytest
from made_graphs import CHIPS, Made

SHAPES = [(31, 64), (32, 2), (33, 1), (128, 511), (129, 512), (2, 65, 513), (300, 4096), (40, 4097)]


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("layer_norm-float32-shape6")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "softmax"])
def test_norms_of_rows_in_hbm(shape, dtype, name):
    made = Made(dtype)
    found = getattr(made, name)(made.given(*shape))
    made.check(found, chip=CHIPS[sum(shape) % 4])


@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply"])
def test_each_row_by_its_own_reduction(op):
    made = Made("float32")
    x = made.given(100, 96, scale=0.2)
    scale = made.of("abs", made.graph.reduce(op, made.of("add", x, 1.0), [1]))
    made.check(made.of("multiply", x, made.repeated(made.of("add", scale, 1.0), x, [0])))


def test_a_row_of_large_numbers_and_one_of_infinities():
    made = Made("float32")
    array = made.random.standard_normal((40, 70))
    array[3] = 1e30
    array[5, :10] = -np.inf
    made.check(made.softmax(made.given(40, 70, array=array)))


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "softmax"])
def test_each_row_is_read_once_and_written_once(chip, name):
    made = Made("bfloat16")
    found = getattr(made, name)(made.given(1024, 1024))
    spans = made.run(found, chip=chip).timeline.spans()
    moved = [re.search(r"HBM \[([\d, ]+)\]", s.operands) for s in spans if s.opcode == "dma_copy"]
    elements = sum(prod(map(int, one[1].split(","))) for one in moved if one is not None)
    rows, weights = 2 * 1024 * 1024, 2 * 128 * 1024  # weights come to all partitions
    assert rows <= elements <= rows + weights


def test_sums_that_others_read_too_are_kept():
    made = Made("float32")
    x = made.given(64, 128)
    total = made.graph.reduce("add", x, [1])
    less = made.of("subtract", x, made.repeated(total, x, [0]))
    made.check(less, total)
    made.check(made.of("multiply", less, less), made.of("negate", total), less)


def test_rows_that_a_product_reads_lie_as_it_wants_them():
    made = Made("bfloat16")
    x = made.given(130, 96)
    made.check(made.linear(made.rms_norm(x), 64), made.rms_norm(made.of("negate", x)))


def test_a_norm_of_a_norm_and_of_a_sum_of_two():
    made = Made("float32")
    x, y = made.given(64, 300), made.given(64, 300)
    made.check(made.softmax(made.of("add", made.layer_norm(x), made.softmax(y))))
    made.check(made.layer_norm(made.of("add", x, y)), made.of("add", x, y))
