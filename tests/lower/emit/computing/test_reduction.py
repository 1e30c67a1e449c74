"""Reductions over every choice of dimensions, by every operator, wherever the operand lies."""

from itertools import combinations

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.compiler.program import evaluate_program
from trnsim.graph.building.build import Build
from trnsim.lower.emit.residents import Residents

DIMS = [dims for count in (1, 2, 3) for dims in combinations(range(3), count)]
OPERATORS = ["add", "maximum", "minimum", "multiply"]


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("maximum-float32-dims1", "minimum-float32-dims1")
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize(
    ("op", "dtype"), [*((op, "float32") for op in OPERATORS), ("add", "bfloat16")]
)
def test_of_what_is_in_hbm_computed_or_a_product(dims, op, dtype):
    made = Made(dtype)
    shape = (3, 5, 130) if op != "multiply" else (2, 3, 5)
    x = made.given(*shape, array=made.random.uniform(0.5, 1.5, shape))
    product = made.of("abs", made.linear(x, 129 if op != "multiply" else 6))
    parts = [x, made.of("tanh", x), product, made.graph.transpose(made.of("tanh", x), (2, 0, 1))]
    chip = CHIPS[(len(op) + len(dims)) % 4]
    made.check(*(made.graph.reduce(op, one, dims) for one in parts), chip=chip)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("width", [1, 127, 128, 129, 512, 513])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_norms_of_any_width(width, dtype):
    made = Made(dtype)
    x = made.given(2, 43, width)
    y = made.of("add", x, made.linear(x, width))
    near = 0.1 if dtype == "bfloat16" else None
    first, second = made.layer_norm(y), made.rms_norm(y)
    outputs = [second, made.linear(second, 33)]
    if width > 1:  # of one number less its mean nothing is left but rounding
        outputs += [first, made.linear(first, 33)]
    made.check(*outputs, chip=CHIPS[width % 4], near=near)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dim", [0, 1, 2, 3])
@pytest.mark.parametrize("chip", CHIPS)
def test_softmax_over_any_dimension(dim, chip):
    made = Made()
    x = made.given(2, 3, 20, 33)
    scores = made.graph.dot_general(x, x, (3, 3))
    made.check(made.softmax(x, dim), made.softmax(scores, dim), chip=chip)


@pytest.mark.parametrize("shape", [(7, 1000, 33), (2, 4096, 64), (12, 100, 64)])
def test_sums_of_groups_that_fill_no_whole_blocks_take_no_mask_for_each(shape):
    made = Made()
    x = made.given(*shape)
    total = made.graph.reduce("add", x, (1,))
    device_s = made.run(total).timeline.device_time_s
    assert device_s < made.run(made.graph.reduce("maximum", x, (1,))).timeline.device_time_s + 5e-6
    made.check(total, made.of("subtract", x, made.repeated(total, x, (0, 2))))


@pytest.mark.parametrize("dims", [(1,), (2,), (1, 2), (0, 2)])
@pytest.mark.parametrize("sizes", [(5, 40, 3, 130), (9, 1, 64, 257), (2, 129, 130, 600)])
def test_products_of_a_batch_whose_columns_have_several_blocks(sizes, dims):
    batch, rows, inner, columns = sizes
    made = Made()
    summed = made.graph.dot_general(
        made.given(batch, rows, inner), made.given(batch, inner, columns), (2, 1)
    )
    made.check(made.graph.reduce("add", summed, dims), chip=CHIPS[rows % 4])


def test_sums_along_partitions_are_products_with_ones():
    made = Made("bfloat16")
    x = made.given(40, 128)
    y = made.of("relu", made.linear(x, 256))
    total = made.graph.reduce("add", y, [1])
    wide = made.repeated(total, y, [0])
    found = made.of("multiply", y, made.of("rsqrt", made.of("add", wide, 1.0)))
    names = made.opcodes(found)
    # Two products of the layer, and two blocks with ones; the sum is on every partition then.
    assert names.count("nc_matmul") == 4
    assert "tensor_reduce" not in names
    made.check(found)


def test_rows_are_reduced_along_columns():
    made = Made()
    x = made.given(300, 40)
    names = made.opcodes(made.graph.reduce("maximum", made.of("negate", x), [1]))
    assert "tensor_reduce" in names
    assert "nc_matmul" not in names


@pytest.mark.parametrize("width", [8191, 8192, 8193, 20000])
def test_rows_longer_than_a_tile(width):
    made = Made()
    x = made.given(3, width)
    made.check(*(made.graph.reduce(op, made.of("negate", x), [1]) for op in ("add", "minimum")))


def squares_of(made, x):
    """How far the numbers of each row are from their mean, squared and added up."""
    total = made.graph.reduce("add", x, [2])
    mean = made.repeated(made.of("multiply", total, 1 / x.shape[2]), x, (0, 1))
    return made.graph.reduce("add", made.of("square", made.of("subtract", x, mean)), [2])


@pytest.mark.slow_cases("shape0")
@pytest.mark.parametrize("shape", [(2, 130, 8193), (1, 5, 12288), (3, 1, 9001)])
def test_long_rows_that_others_read_are_reduced_in_pieces(shape):
    made = Made()
    x = made.of("negate", made.given(*shape))
    made.check(squares_of(made, x), made.graph.reduce("maximum", x, [2]), x)


def test_long_rows_are_reduced_on_the_chip():
    made = Made()
    squares = squares_of(made, made.of("negate", made.given(2, 130, 8193)))
    moved = [s.operands for s in made.run(squares).timeline.spans() if s.opcode == "dma_copy"]
    assert not any("8193" in one for one in moved if one.startswith("dst=HBM"))


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
def test_integers_are_reduced_exactly(dtype):
    made = Made(dtype)
    x = made.given(3, 130, 5, array=made.random.integers(0, 3, (3, 130, 5)))
    y = made.of("add", x, x)
    made.check(*(made.graph.reduce(op, y, dims) for op in ("add", "maximum") for dims in DIMS))


def test_one_element_and_dimensions_of_one():
    made = Made()
    x = made.given(1, 130, 1)
    made.check(*(made.graph.reduce("add", x, dims) for dims in DIMS))
    one = Made()
    y = one.given(1, 1, 1)
    one.check(
        *(one.graph.reduce(op, one.of("negate", y), dims) for op in OPERATORS for dims in DIMS)
    )


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("shape", [(1, 130, 48), (1, 3, 1, 5), (2, 1, 130, 1), (1, 5, 1)])
def test_a_dimension_of_one_is_reduced_with_others_or_stays(op, shape):
    made = Made()
    x, y = made.given(*shape), made.given(*shape)
    both = made.of("multiply", x, y)
    sides = [dims for count in (1, 2) for dims in combinations(range(len(shape)), count)]
    made.check(*(made.graph.reduce(op, one, dims) for dims in sides for one in (x, both)))


@pytest.mark.slow
def test_sums_that_no_partition_has_room_for_go_by_a_kernel():
    """A norm of so many rows that a number to each of them would fill SBUF."""
    made = Made()
    x = made.linear(made.given(1, 31000, 4), 20)
    made.check(made.layer_norm(x))


@pytest.mark.parametrize("width", [8193, 10000, 30522])
@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
def test_rows_longer_than_the_chip_holds(width, op):
    made = Made("float32")
    x = made.given(40, width)
    found = made.graph.reduce(op, made.of("multiply", x, 0.5), [1])
    made.check(found, chip=CHIPS[width % 4])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_loss_of_scores_of_a_large_vocabulary(dtype):
    made = Made(dtype)
    x = made.given(256, 32)
    scores = made.linear(x, 13000)
    largest = made.repeated(made.graph.reduce("maximum", scores, [1]), scores, [0])
    less = made.of("subtract", scores, largest)
    total = made.graph.reduce("add", made.of("exponential", less), [1])
    logs = made.of("subtract", less, made.repeated(made.of("log", total), less, [0]))
    slope = made.of("multiply", made.of("exponential", logs), 0.01)
    weight = made.graph.inputs[1]
    to_x = made.graph.dot_general(slope, weight, (1, 0))
    to_weight = made.graph.dot_general(slope, x, (0, 0))
    made.check(made.graph.reduce("add", logs, [1]), to_x, to_weight, chip="trn1")


@pytest.mark.parametrize("shape", [(200, 64), (2, 300, 70)])
def test_sums_of_integers_along_partitions_are_exact(shape):
    # No input or output is float32, but bfloat16 would round integers above 256.
    made = Made()
    x = made.given(*shape, dtype="int32", array=made.random.integers(0, 5000, shape))
    wide = made.of("add", made.of("convert", x, dtype="float32"), 3.0)
    total = made.graph.reduce("add", wide, [len(shape) - 2])
    made.check(made.of("convert", total, dtype="int32"))


def test_sums_of_counts_along_partitions_are_exact():
    # The counts are up to 1000; bfloat16 would round those above 256, though truth values fit.
    is_word = np.random.default_rng(0).random((130, 1000)) > 0.3
    b = Build()
    words = b.convert(b.graph.input(is_word.shape, "bool"), "float32")
    counts = b.graph.reduce("add", words, [1])
    b.graph.outputs = [b.convert(b.graph.reduce("add", counts, [0]), "int32")]
    (found,) = evaluate_program(b.graph, [is_word])
    assert found == np.count_nonzero(is_word)


def test_sums_of_products_of_truth_values_along_partitions_are_exact():
    # Pairs that are true together: up to 600 of them.
    random = np.random.default_rng(0)
    sides = [random.random((600, 8)) > 0.1, random.random((600, 130)) > 0.1]
    b = Build()
    lhs, rhs = (b.convert(b.graph.input(side.shape, "bool"), "float32") for side in sides)
    pairs = b.graph.dot_general(lhs, rhs, (0, 0))
    b.graph.outputs = [b.convert(b.graph.reduce("add", pairs, [1]), "int32")]
    (found,) = evaluate_program(b.graph, sides)
    np.testing.assert_array_equal(found, (sides[0].T.astype(int) @ sides[1]).sum(1))


@pytest.mark.parametrize(
    "numbers",
    [(301,), (-19, 19), (301, 0.5), (100001,), (3,)],
    ids=lambda ns: "*".join(map(str, ns)),
)
def test_sums_of_truth_values_times_numbers_along_partitions_are_exact(numbers):
    is_word = np.random.default_rng(0).random((130, 3)) > 0.3
    b = Build()
    words = b.convert(b.graph.input(is_word.shape, "bool"), "float32")
    for number in numbers:
        words = b.ew("multiply", words, number)
    b.graph.outputs = [b.convert(b.graph.reduce("add", words, [0]), "int32")]
    (found,) = evaluate_program(b.graph, [is_word])
    if numbers == (301, 0.5):  # products that are no whole numbers are rounded as all others
        np.testing.assert_allclose(found, is_word.sum(0) * 150.5, rtol=2.0**-8)
    else:
        np.testing.assert_array_equal(found, is_word.sum(0) * int(np.prod(numbers)))


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("shape", [(129, 3), (128, 40)])
def test_sums_of_float16_along_partitions_keep_its_digits(shape, is_scaled):
    x = np.random.default_rng(0).uniform(-3, 3, shape).astype(np.float16)
    b = Build()
    summed = b.graph.input(shape, "float16")
    if is_scaled:
        summed = b.ew("multiply", b.convert(summed, "float32"), 0.3)
    b.graph.outputs = [b.convert(b.graph.reduce("add", summed, [0]), "float16")]
    (found,), (expected,) = evaluate_program(b.graph, [x]), b.graph.reference([x])
    np.testing.assert_allclose(found, expected, rtol=2**-10, atol=2**-11)


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(200, 8, 33), (128, 3, 5), (129, 4, 3, 6), (300, 1, 7)])
def test_middle_dimensions_of_computed_values_are_reduced_on_the_chip(op, dtype, shape):
    made = Made(dtype)
    spread = made.graph.broadcast_in_dim(made.given(*shape[:2]), shape, (0, 1))
    numbers = made.of("convert", made.graph.iota(shape, len(shape) - 1), dtype=dtype)
    value = made.of("subtract", made.of("multiply", spread, numbers), 3.0)
    made.check(made.graph.reduce(op, value, (1,)), chip=CHIPS[sum(shape) % len(CHIPS)])


@pytest.mark.parametrize("op", ["add", "maximum"])
def test_middle_dimensions_keep_infinities_and_nan(op):
    made, shape = Made(), (130, 3, 4)
    array = np.ones(shape[:2], np.float32)
    array[0, 1], array[1, 2], array[2, 0] = np.inf, -np.inf, np.nan
    spread = made.graph.broadcast_in_dim(made.given(*shape[:2], array=array), shape, (0, 1))
    numbers = made.of("convert", made.graph.iota(shape, 2), dtype="float32")
    made.graph.outputs = [made.graph.reduce(op, made.of("add", spread, numbers), (1,))]
    (found,), (wanted,) = (
        evaluate_program(made.graph, made.arrays),
        made.graph.reference(made.arrays),
    )
    np.testing.assert_array_equal(found, wanted)


def mask_of_experts(made, shape):
    """1 for each of a token's experts, whose numbers are an operand."""
    numbers = np.arange(shape[0] * shape[1]).reshape(shape[:2]) % shape[2]
    chosen = made.given(*shape[:2], dtype="int32", array=numbers)
    spread = made.graph.broadcast_in_dim(chosen, shape, (0, 1))
    numbers_of_experts = made.graph.iota(shape, 2)
    is_chosen = made.of("compare", spread, numbers_of_experts, dtype="float32", direction="EQ")
    return made.graph.reduce("add", is_chosen, (1,))


def test_reduced_middle_dimensions_do_not_cross_hbm():
    """A token's 8 experts of 128 become a mask: only their numbers are loaded."""
    made = Made()
    run = made.run(mask_of_experts(made, (2048, 8, 128)))
    assert run.timeline.device_time_s < 60e-6


def test_results_over_middle_dimensions_that_exceed_sbuf_lie_in_hbm(monkeypatch):
    monkeypatch.setattr(Residents, "free_bytes", lambda _: 16)
    made = Made()
    made.check(mask_of_experts(made, (256, 3, 20)))
