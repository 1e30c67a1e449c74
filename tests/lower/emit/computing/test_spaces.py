import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.arch import target
from trnsim.graph import (
    Graph,
    TensorType,
)
from trnsim.lower import (
    costs,
    evaluate,
    fusion_groups,
)
from trnsim.lower.emit.computing import generating
from trnsim.lower.emit.computing.spaces import matrix_parts, row_parts
from trnsim.lower.emit.places.tensor_place import in_hbm


def added(shape, other, dims):
    g = Graph()
    x, y = g.input(shape, "float32"), g.input(other, "float32")
    g.outputs = [g.elementwise("add", x, g.broadcast_in_dim(y, shape, dims))]
    return g


@pytest.mark.parametrize(
    ("shape", "other", "dims"),
    [
        ((300, 77), (77,), (1,)),
        ((300, 77), (300,), (0,)),
        ((3, 5, 700), (3, 700), (0, 2)),
        ((2, 3, 70, 70), (2, 1, 70, 70), (0, 1, 2, 3)),
        ((5, 4099), (4099,), (1,)),
        ((4099,), (), ()),
        ((1, 1), (1,), (1,)),
    ],
)
def test_repeated_operands(random, shape, other, dims):
    x, y = random(shape), random(other, seed=1)
    wide = [1] * len(shape)
    for dim, length in zip(dims, other, strict=True):
        wide[dim] = length
    (found,) = evaluate(added(shape, other, dims), [x, y])
    np.testing.assert_array_equal(found, x + y.reshape(wide))


@pytest.mark.parametrize("elements", [1, 127, 128, 1000, 4099, 300_000])
def test_long_vectors_fill_the_partitions(random, elements):
    g = Graph()
    g.outputs = [g.elementwise("multiply", g.input((elements,), "float32"), 2.0)]
    x = random((elements,))
    np.testing.assert_array_equal(evaluate(g, [x])[0], x * 2)


@pytest.mark.parametrize("elements", [1, 127, 128, 300, 5000])
@pytest.mark.parametrize("step", [2, 3])
def test_every_other_element_of_a_vector_is_read_where_it_lies(random, elements, step):
    g = Graph()
    part = g.slice(g.input((step * elements,), "float32"), (0,), (elements,), (step,))
    g.outputs = [g.elementwise("multiply", part, 2.0)]
    (group,) = fusion_groups(g)
    assert group.name == "multiply"
    x = random((step * elements,))
    np.testing.assert_array_equal(evaluate(g, [x])[0], x[::step] * 2)


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("shape", [(3, 130, 9), (4, 2, 6000)])
def test_reductions_over_the_last_dimensions(random, op, shape):
    g = Graph()
    g.outputs = [g.reduce(op, g.input(shape, "float32"), (2,))]
    x = random(shape)
    expected = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[op].reduce(x, axis=2)
    np.testing.assert_allclose(evaluate(g, [x])[0], expected, rtol=1e-3, atol=1e-3)


def test_a_row_that_fits_crosses_from_hbm_once():
    def softmax_time(columns):
        g = Graph()
        x = g.input((128, columns), "float32")
        top = g.broadcast_in_dim(g.reduce("maximum", x, (1,)), x.shape, (0,))
        g.outputs = [g.elementwise("exponential", g.elementwise("subtract", x, top))]
        (cost,) = costs(g)
        return cost.instructions

    assert softmax_time(2048) < softmax_time(8192)


def test_counting_along_any_dimension():
    for dim in (0, 1, 2):
        g = Graph()
        x = g.input((3, 40, 50), "int32")
        g.outputs = [g.elementwise("add", x, g.iota((3, 40, 50), dim))]
        expected = np.broadcast_to(
            np.arange((3, 40, 50)[dim]).reshape([-1 if d == dim else 1 for d in range(3)]),
            (3, 40, 50),
        )
        np.testing.assert_array_equal(evaluate(g, [np.zeros((3, 40, 50), np.int32)])[0], expected)


@pytest.mark.parametrize("dim", [0, 1])
def test_a_count_beside_a_reduction_is_one_number_to_a_row(dim, random):
    g = Graph()
    x = g.input((3, 40, 50), "float32")
    sums = g.reduce("maximum", x, (2,))
    places = g.elementwise("convert", g.iota((3, 40), dim), dtype="float32")
    g.outputs = [g.elementwise("add", sums, places)]
    assert len(fusion_groups(g)) == 1
    given = random((3, 40, 50))
    counted = np.broadcast_to(np.arange(3)[:, None] if dim == 0 else np.arange(40), (3, 40))
    np.testing.assert_array_equal(evaluate(g, [given])[0], given.max(2) + np.float32(counted))


def test_random_numbers_are_uniform():
    g = Graph()
    x = g.input((128, 512), "float32")
    g.outputs = [g.elementwise("add", x, g.rng((128, 512)))]
    (drawn,) = evaluate(g, [np.zeros((128, 512), np.float32)])
    assert 0 <= drawn.min() < 0.01
    assert 0.99 < drawn.max() <= 1
    assert abs(drawn.mean() - 0.5) < 0.01


def test_a_reduction_over_dimensions_of_which_an_operand_repeats_one(random):
    g = Graph()
    x, y = g.input((2, 3, 5000), "float32"), g.input((2, 5000), "float32")
    product = g.elementwise("multiply", x, g.broadcast_in_dim(y, x.shape, (0, 2)))
    g.outputs = [g.reduce("add", product, (1, 2))]
    arrays = random((2, 3, 5000)), random((2, 5000), seed=1)
    expected = (arrays[0] * arrays[1][:, None]).sum((1, 2))
    np.testing.assert_allclose(evaluate(g, arrays)[0], expected, rtol=1e-3, atol=1e-2)


class Tensor:
    """A tensor in HBM, by its shape."""

    def __init__(self, *shape):
        self.shape = shape


def space_of(shape, other, dims):
    """Lengths of rows and of columns, and the first element, of each matrix of a sum."""
    y = in_hbm(Tensor(*other), other).repeated(shape, dims)
    found = matrix_parts({"x": in_hbm(Tensor(*shape), shape), "y": y}, 2048)
    lengths = [(part.frame.shape, part.frame.p_dims) for part in found]
    firsts = [part.places["x"].offset[0] for part in found]
    return [
        ([shape[dim] for dim in rows], list(shape[len(rows) :]), first)
        for (shape, rows), first in zip(lengths, firsts, strict=True)
    ]


def test_dimensions_walked_evenly_are_one():
    assert space_of((2, 3, 4, 100), (100,), (3,)) == [([24], [100], 0)]


def test_a_dimension_that_one_operand_repeats_stays_apart():
    # 4000 columns are cut in two, as so few rows leave most partitions empty.
    assert space_of((2, 3, 4, 1000), (2, 4, 1000), (0, 2, 3)) == [([2, 2, 3], [2000], 0)]


def test_many_short_rows_are_cut_at_no_divisor_of_their_number():
    # 2053 is a prime: 128 x 16 rows, then 5
    assert space_of((2053, 3), (3,), (1,)) == [([128], [16, 3], 0), ([1], [5, 3], 6144)]


def test_rows_of_several_dimensions_stay_whole():
    shape = (7, 300, 2, 3)
    y = in_hbm(Tensor(7, 300), (7, 300)).repeated(shape, (0, 1))
    parts = row_parts({"x": in_hbm(Tensor(*shape), shape), "y": y}, 2, 60)
    found = [(part.frame.shape, part.frame.p_dims, part.counted) for part in parts]
    assert found == [((210, 10, 6), (0,), 1)]
    assert parts[0].places["y"].steps == ((10,), (1,), (0,))


def test_a_vector_is_spread_and_its_rest_is_a_row():
    assert space_of((1009,), (1009,), (0,)) == [([128], [7], 0), ([1], [113], 896)]
    # Of 1000 elements 125 rows have as many.
    assert space_of((1000,), (1000,), (0,)) == [([125], [8], 0)]


def test_a_long_vector_is_cut_into_rows_of_one_instruction():
    length = 130 * 2048 + 300
    assert space_of((length,), (length,), (0,)) == [
        ([130], [2048], 0),
        ([128], [2], 130 * 2048),
        ([1], [44], 130 * 2048 + 256),
    ]


def test_short_columns_take_part_of_the_rows_where_that_makes_fewer_tiles():
    # What rows do not step through evenly is walked one by one, the longest along the partitions.
    found = [([64], [128, 16], 2048 * at) for at in range(8)]
    assert space_of((64, 1024, 16), (64, 16), (0, 2)) == found
    # A prime number is one part.
    found = [([1021], [16], 1021 * 16 * at) for at in range(64)]
    assert space_of((64, 1021, 16), (64, 16), (0, 2)) == found


def test_one_element_is_a_matrix_without_dimensions():
    assert space_of((1, 1), (1, 1), (0, 1)) == [([], [], 0)]


FIXED_S = 5e-6  # starting and ending a few transfers and instructions


def floor_s(cost):
    """What a kernel's bytes take at the rate of all DMA engines, and a fixed part."""
    return cost.hbm_bytes / float(target("trn2").core.dma_bytes_per_s) + FIXED_S


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("elements", [1, 127, 128, 129, 1 << 20, (1 << 20) + 1, 1048573])
@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "float8_e5m2", "int32", "int16", "int8", "uint8"]
)
def test_a_fill_takes_what_its_bytes_take(dtype, elements):
    g = Graph()
    wanted = TensorType((elements,), dtype)
    g.outputs = [g.constant(3.0, wanted)]
    (cost,) = costs(g)
    assert cost.device_time_s < 1.5 * floor_s(cost)
    (found,) = evaluate(g, [])
    np.testing.assert_array_equal(found, np.full(elements, 3, wanted.numpy_dtype()))


@pytest.mark.parametrize("number", [2**24 + 1, -(2**31), 2**31 - 1, -1, 0])
def test_an_integer_constant_keeps_all_its_bits(number):
    g = Graph()
    g.outputs = [g.constant(float(number), TensorType((3, 5), "int32"))]
    assert set(evaluate(g, [])[0].flatten().tolist()) == {number}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("shape", "given", "dims"),
    [
        ((1000, 1024), (1000, 1), (0, 1)),
        ((1000, 1024), (1, 1024), (0, 1)),
        ((1000, 1024), (), ()),
        ((4, 1 << 18), (1, 1 << 18), (0, 1)),
        ((64, 1024, 16), (64, 1, 16), (0, 1, 2)),
        ((8, 64, 32, 32), (64,), (1,)),
        ((8, 16, 32, 16), (8, 32), (0, 2)),
        ((96, 7, 1000), (7,), (1,)),
        ((333, 3, 300), (333, 1, 300), (0, 1, 2)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_a_broadcast_takes_what_its_bytes_take(shape, given, dims, dtype):
    g = Graph()
    x = g.input(given, dtype)
    g.outputs = [g.broadcast_in_dim(x, shape, dims)]
    (cost,) = costs(g)
    assert cost.device_time_s < 4 * floor_s(cost)
    values = np.arange(x.type.elements).reshape(given).astype(x.type.numpy_dtype())
    wide = [1] * len(shape)
    for dim, length in zip(dims, given, strict=True):
        wide[dim] = length
    (found,) = evaluate(g, [values])
    np.testing.assert_array_equal(found, np.broadcast_to(values.reshape(wide), shape))


def test_operands_that_meet_again_and_again_are_looked_at_once():
    """Thirty squares of a reduction: looking at both operands of each would never end."""
    g = Graph()
    x = g.input((4, 8), "float32")
    total = g.reduce("maximum", x, (1,))
    for _ in range(30):
        total = g.elementwise("multiply", total, total)
    g.outputs = [g.elementwise("add", x, g.broadcast_in_dim(total, (4, 8), (0,)))]
    ones = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(evaluate(g, [ones])[0], ones + 1)


@pytest.mark.parametrize(("byte", "expected"), [(0xFF, 1 - 2.0**-24), (0x80, 0.50196081), (0, 0)])
def test_the_largest_random_bits_are_a_number_below_one(monkeypatch, byte, expected):
    """In float32 the last 128 of 2**32 round to 2**32."""
    word = int.from_bytes(bytes([byte] * 4), "little", signed=True)

    def rng(dst):
        generating.nisa.memset(dst=dst.view(generating.nl.int32), value=word)

    monkeypatch.setattr(generating.nisa, "rng", rng)
    g = Graph()
    g.outputs = [g.elementwise("add", g.rng((3, 5)), 0.0)]
    (found,) = evaluate(g, [])
    assert found.tolist() == [[pytest.approx(expected, abs=1e-7)] * 5] * 3
    assert (found < 1).all()


def test_a_constant_of_an_unsigned_integer_keeps_its_first_bit():
    g = Graph()
    g.outputs = [g.constant(2.0**32 - 1, TensorType((3, 5), "uint32"))]
    assert set(evaluate(g, [])[0].flatten().tolist()) == {2**32 - 1}


@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("columns", [1, 4, 5000])
def test_one_number_to_a_row_is_reduced_as_often_as_the_row_has_columns(op, columns):
    g = Graph()
    x = g.input((3,), "float32")
    wide = g.broadcast_in_dim(x, (3, columns), (0,))
    ones = g.constant(1.0, TensorType((3, columns), "float32"))
    top = g.broadcast_in_dim(g.reduce("maximum", wide, (1,)), wide.shape, (0,))
    g.outputs = [g.reduce(op, one, (1,)) for one in (wide, ones, top)]
    given = np.array([-1.0, 1.0, 0.0], np.float32)
    repeated = np.repeat(given[:, None], columns, 1)
    ufunc = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}[op]
    expected = [ufunc.reduce(one, 1) for one in (repeated, np.ones_like(repeated), repeated)]
    for found, wanted in zip(evaluate(g, [given]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_sums_of_short_integers_wrap_around(dtype):
    x = np.full((5, 7), np.iinfo(dtype).max, dtype)
    g = Graph()
    total = g.reduce("add", g.input((5, 7), dtype), (1,))
    g.outputs = [total, g.elementwise("convert", total, dtype="float32")]
    found, wide = evaluate(g, [x])
    expected = np.add.reduce(x.astype(np.int64), 1).astype(dtype)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(wide, expected)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("step", [2, 3, 16, 17, 40])
@pytest.mark.parametrize("shape", [(130, 200), (1, 90), (5, 7, 41), (2, 3, 4, 4096)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_every_so_manyth_element_of_a_row(random, shape, step, dtype):
    g = Graph()
    x = g.input(shape, dtype)
    count = (shape[-1] - 1) // step
    inner = (*shape[:-1], count)
    first, last = (
        g.slice(x, (*[0] * (len(shape) - 1), at), inner, (*[1] * (len(shape) - 1), step))
        for at in (0, 1)
    )
    g.outputs = [g.elementwise("add", first, last)]
    array = (10 * random(shape)).astype(x.type.numpy_dtype())
    (found,) = evaluate(g, [array])
    reach = count * step
    wanted = array[..., 0:reach:step] + array[..., 1 : 1 + reach : step]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2)


def test_neighbours_are_loaded_with_what_lies_between_them():
    g = Graph()
    x = g.input((64, 56, 56), "float32")
    parts = [g.slice(x, (0, 0, at), (64, 56, 28), (1, 1, 2)) for at in (0, 1)]
    g.outputs = [g.elementwise("maximum", *parts)]
    whole = Graph()
    y = whole.input((64, 56, 28), "float32")
    whole.outputs = [whole.elementwise("maximum", y, whole.elementwise("negate", y))]
    apart, dense = (sum(one.device_time_s for one in costs(g_, "trn2")) for g_ in (g, whole))
    assert apart < 4 * dense


def adam(made, length, dtype, *, scalar_steps):
    """A step of AdamW: the parameter and both moments."""
    p, d = made.given(length, dtype=dtype), made.given(length, dtype=dtype)
    m = made.given(length, dtype="float32")
    v = made.given(length, dtype="float32", array=made.random.random(length) + 0.01)
    of = made.of
    wide = [of("convert", one, dtype="float32") if dtype != "float32" else one for one in (p, d)]
    m1 = of("add", of("multiply", m, 0.9), of("multiply", wide[1], 0.1))
    squared = of("multiply", wide[1], wide[1])
    v1 = of("add", of("multiply", v, 0.999), of("multiply", squared, 0.001))
    step = of("divide", m1, of("add", of("sqrt", v1), 1e-3))
    if scalar_steps:
        rate = made.given(1, dtype="float32", array=np.array([0.01]))
        step = of("multiply", step, made.repeated(rate, step, [0]))
    else:
        step = of("multiply", step, 0.01)
    p1 = of("subtract", of("multiply", wide[0], 0.99), step)
    return (of("convert", p1, dtype=dtype) if dtype != "float32" else p1), m1, v1


LENGTHS = [1, 1000, (1 << 15) - 1, 1 << 15, 32771, 40000, 3 << 15]
WAYS = [("float32", False), ("bfloat16", True), ("float32", True), ("bfloat16", False)]


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("32767-float32-True", "32767-bfloat16-False")
@pytest.mark.parametrize(
    ("length", "dtype", "scalar_steps"),
    [
        (length, *way)
        for at, length in enumerate(LENGTHS)
        for way in (WAYS[at % 4], WAYS[(at + 1) % 4])
    ],
)
def test_an_optimizers_step(length, dtype, scalar_steps):
    made = Made(dtype)
    found = adam(made, length, dtype, scalar_steps=scalar_steps)
    made.check(*found, chip=CHIPS[length % 4])


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_each_operand_of_a_step_is_read_once_and_each_result_written_once(chip):
    made = Made("float32")
    length = 1 << 18
    run = made.run(*adam(made, length, "float32", scalar_steps=False), chip=chip)
    moved = [span for span in run.timeline.spans() if span.opcode == "dma_copy"]
    assert len(moved) == 7 * length // (128 * 1024)


def test_a_value_that_two_operations_of_the_same_result_read_is_computed_once():
    made = Made("float32")
    x, y = made.given(256, 64), made.given(256, 64)
    shared = made.of("exponential", made.of("multiply", x, y))
    z = made.of("add", made.of("tanh", shared), made.of("multiply", shared, y))
    names = made.opcodes(z, shared)
    assert names.count("activation") == 2
    made.check(z, shared)
    made.check(shared, z)


@pytest.mark.parametrize("length", [1 << 15, (1 << 15) + 1])
def test_a_long_line_is_cut_into_rows(length):
    made = Made()
    x, y = made.given(length), made.given(length)
    total = made.of("add", made.of("multiply", x, 3.0), y)
    partitions = max(
        int(span.operands.partition("[")[2].partition(",")[0])
        for span in made.run(total).timeline.spans()
        if "SBUF" in span.operands.partition(",")[0]
    )
    assert partitions == 128
    made.check(total)


@pytest.mark.parametrize("operations", [1, 24, 25, 60])
def test_a_line_of_many_operations_gives_the_same(operations):
    made = Made()
    x = made.given(1 << 15)
    y = x
    for _ in range(operations):
        y = made.of("multiply", made.of("add", y, 1.0), 0.5)
    made.check(y)


def test_a_short_line_and_one_of_a_product_are_lines_on_the_chip():
    made = Made()
    short = made.of("add", made.given((1 << 15) - 1), 1.0)
    rows = made.graph.dot_general(made.given(256, 4), made.given(4, 128), (1, 0))
    long = made.of("add", made.graph.reshape(rows, (1 << 15,)), 2.0)
    made.check(short, long)
