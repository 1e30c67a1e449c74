import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e5m2

from trnsim.graph import TensorType
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.reductions import ReduceWindow, SelectAndScatter

BODIES = ["add", "multiply", "maximum", "minimum"]
NEAR = 2.0**-18


def drawn(*shape, dtype=np.float32):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def whole(*shape, dtype=np.float32):
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


# Shape, lengths, strides, low, high, dilations.
WINDOWS = [
    ((3, 30), (1, 20), (1, 3), (0, 5), (0, 6), ()),
    ((50,), (9,), (1,), (8,), (0,), (2,)),
    ((30,), (30,), (1,), (29,), (0,), ()),
    ((30,), (17,), (5,), (0,), (0,), ()),
    ((2, 9, 10), (2, 3, 2), (1, 2, 1), (1, 1, 0), (0, 1, 1), (1, 2, 3)),
    ((1,), (1,), (1,), (0,), (0,), ()),
    ((1, 1), (3, 3), (1, 1), (1, 1), (1, 1), ()),
    ((5, 5), (1, 1), (2, 2), (0, 0), (0, 0), ()),
]


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("op", BODIES)
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("shape", "lengths", "strides", "low", "high", "dilations"), WINDOWS)
def test_windows_of_any_length(agree, shape, lengths, strides, low, high, dilations, op, chip):
    window = ReduceWindow(lengths, strides, low, high, op, dilations)
    agree(window, drawn(*shape), near=NEAR, chip=chip)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("op", BODIES)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "int8", "uint8", "bool"])
def test_integers_and_truth_values_are_exact(agree, dtype, op):
    kind = TensorType((), dtype).numpy_dtype()
    x = np.random.default_rng(0).integers(0, 5, (5, 9)).astype(kind)
    if dtype in {"int32", "uint32"}:
        limits = np.iinfo(kind)
        x[0, :4] = limits.max, limits.min, 2**24 + 1, 2**24
    agree(ReduceWindow((2, 3), (1, 1), (1, 0), (0, 1), op), x)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("op", BODIES)
@pytest.mark.parametrize("dtype", [bfloat16, np.float16, float8_e5m2])
def test_short_types_are_rounded_once(agree, dtype, op):
    agree(ReduceWindow((2, 20), (1, 1), (1, 0), (0, 1), op), drawn(5, 30, dtype=dtype))


@pytest.mark.parametrize("op", BODIES)
def test_a_negative_padding_takes_away(values, op):
    x = drawn(8, 9)
    cut = ReduceWindow((2, 3), (2, 3), (-1, 0), (-2, 0), op)
    expected = ReduceWindow((2, 3), (2, 3), (0, 0), (0, 0), op).reference(x[1:-2].astype(float))
    (found,) = values(cut, x, has_reference=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_what_is_no_number_wins_and_infinities_count(agree, op):
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 3.4e38, 1, 2, np.nan, 4], np.float32)
    agree(ReduceWindow((3,), (1,), (1,), (1,), op), x, near=NEAR)
    agree(SelectAndScatter((2,), (1,), (0,), (0,), op), x, drawn(9), near=NEAR)


# Shape, lengths, strides, low, high.
SELECTED = [
    ((2, 8, 10), (1, 3, 3), (1, 2, 2), (0, 1, 1), (0, 0, 0)),
    ((6,), (3,), (1,), (1,), (1,)),
    ((1,), (1,), (1,), (0,), (0,)),
    ((9,), (2,), (3,), (0,), (0,)),
    ((4, 5), (4, 5), (1, 1), (3, 4), (3, 4)),
]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("shape", "lengths", "strides", "low", "high"), SELECTED)
def test_the_first_extreme_takes_all(agree, shape, lengths, strides, low, high, op, chip):
    operation = SelectAndScatter(lengths, strides, low, high, op)
    counts = [
        (n + a + z - w) // s + 1
        for n, w, s, a, z in zip(shape, lengths, strides, low, high, strict=True)
    ]
    agree(operation, whole(*shape), drawn(*counts), near=NEAR, chip=chip)


def test_padding_is_no_extreme(values):
    operation = SelectAndScatter((2,), (2,), (1,), (1,), "maximum")
    x, source = np.full(4, -np.inf, np.float32), np.array([1, 2, 4], np.float32)
    (found,) = values(operation, x, source, has_reference=False)
    np.testing.assert_array_equal(found, [1, 2, 0, 4])


def test_integers_are_compared_and_added_exactly(agree):
    x = np.array([2**31 - 1, -(2**31), 2**24, 2**24 + 1], np.int32)
    source = np.array([2**24 + 1, 1, 2**30, 7], np.int32)
    for op in ("maximum", "minimum"):
        agree(SelectAndScatter((2,), (1,), (1,), (0,), op), x, source)


def test_sums_of_short_types_are_rounded_once(agree):
    x, source = drawn(6, dtype=bfloat16), drawn(6, dtype=bfloat16)
    agree(SelectAndScatter((3,), (1,), (1,), (1,)), x, source)


# Strides, low, high, gaps, dilations, groups; shapes.
CONVOLUTIONS = [
    (((), (), (), (), (), 2), (3, 4), (6, 2)),
    (((2,), (3,), (2,), (1,), (2,), 2), (2, 4, 9), (6, 2, 3)),
    (((1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 4), (2, 4, 6, 7), (4, 1, 3, 3)),
    (((1, 1), (1, 1), (1, 1), (1, 2), (2, 1), 4), (2, 4, 6, 7), (8, 1, 3, 3)),
    (((1, 2, 3), (1, 0, 1), (0, 1, 1), (0, 1, 0), (1, 1, 2), 1), (1, 3, 4, 5, 6), (2, 3, 2, 3, 2)),
    (((1,), (0,), (0,), (0,), (1,), 1), (1, 1, 1), (1, 1, 1)),
    (((1,), (0,), (0,), (0,), (1,), 1), (1, 130, 1), (129, 130, 1)),
]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("attributes", "lhs", "rhs"), CONVOLUTIONS)
def test_convolutions_of_any_rank(agree, attributes, lhs, rhs, chip):
    agree(Convolution(*attributes), drawn(*lhs), drawn(*rhs), near=2.0**-16, chip=chip)


def test_a_convolution_cuts_what_its_padding_takes_away(values):
    x, w = drawn(2, 4, 9), drawn(6, 4, 3)
    plain = Convolution((1,), (0,), (0,), (0,), (1,))
    cut = Convolution((1,), (-1,), (-2,), (0,), (1,))
    (found,) = values(cut, x, w, has_reference=False)
    expected = plain.reference(x[..., 1:-2].astype(float), w.astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_convolution_names_its_result_type(values, dtype):
    op, x, w = Convolution((2,), (1,), (1,), (0,), (1,), 2), drawn(2, 4, 9), drawn(6, 2, 3)
    (found,), (expected,) = values(op, x.astype(bfloat16), w.astype(bfloat16), dtype=dtype)
    assert found.dtype.name == dtype
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=2.0**-7, atol=1e-6)
