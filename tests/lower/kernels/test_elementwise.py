import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.lower import evaluate, lowering
from trnsim.lower.fusion import fusion_groups

X, Y = np.linspace(0.1, 0.9, 60, dtype=np.float32), np.linspace(0.5, 2, 60, dtype=np.float32)


@pytest.mark.parametrize("left", [X, 0.5])
@pytest.mark.parametrize("right", [Y, 2.0])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("subtract", np.subtract), ("divide", np.divide), ("power", np.power)],
)
def test_numbers_stand_on_either_side(name, expected, left, right):
    if not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
        return
    g = Graph()
    operands, arrays = [], []
    for side in (left, right):
        if isinstance(side, np.ndarray):
            operands.append(g.input(side.shape, "float32"))
            arrays.append(side)
        else:
            operands.append(side)
    g.outputs = [g.elementwise(name, *operands)]
    np.testing.assert_allclose(evaluate(g, arrays)[0], expected(left, right), rtol=1e-5)


def test_a_cast_to_integers_drops_the_fraction():
    g = Graph()
    g.outputs = [g.elementwise("convert", g.input((4,), "float32"), dtype="int32")]
    values = np.array([-1.7, -0.2, 0.9, 2.5], np.float32)
    assert evaluate(g, [values])[0].tolist() == [-1, 0, 0, 2]


def test_a_choice_takes_numbers_and_tensors():
    g = Graph()
    mask, x = g.input((3,), "uint8"), g.input((3,), "float32")
    g.outputs = [g.elementwise("select", mask, x, -1.0, dtype="float32")]
    found = evaluate(g, [np.array([1, 0, 1], np.uint8), np.arange(3, dtype=np.float32)])
    assert found[0].tolist() == [0, -1, 2]


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.0**31, 3e38, 1e-45, np.inf, -np.inf, np.nan]
ATTRIBUTES = {"compare": {"direction": "LT"}}


def of_a_number(name, number, is_first):
    g = Graph()
    x = g.input((150, 3), "float32")
    operands = (number, x) if is_first else (x, number)
    if name == "select":
        mask = g.input((150, 3), "uint8")
        operands = (mask, *operands)
    g.outputs = [g.elementwise(name, *operands, dtype="float32", **ATTRIBUTES.get(name, {}))]
    return g


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("remainder-True")
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(
    "name",
    ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder",
     "compare", "select"],
)  # fmt: skip
def test_no_number_changes_the_instructions(name, is_first):
    """Times are remembered without them, so one that raised would hide behind another."""

    def measured(number):
        (group,) = fusion_groups(of_a_number(name, number, is_first))
        return lowering._measure(group, "trn2", is_mirrored=False)

    usual = measured(3.0)
    for number in NUMBERS:
        assert measured(number) == usual, number


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_quotient_by_zero_is_infinite_or_no_number(zero):
    x = np.array([0, 1, -1, np.inf, np.nan], np.float32)
    g = Graph()
    g.outputs = [g.elementwise("divide", g.input((5,), "float32"), zero)]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(g, [x])[0], np.divide(x, zero))


def chain(given, dtype, *steps):
    """The result of operations one after the other, and every value between, in HBM too."""
    g = Graph()
    value = g.input(given.shape, dtype)
    made = []
    for name, *numbers, wanted in steps:
        value = g.elementwise(name, value, *numbers, dtype=wanted)
        made.append(value)
    results = []
    for outputs in ([value], made):
        g.outputs = outputs
        assert len(fusion_groups(g)) == 1
        results.append(evaluate(g, [given])[-1])
    np.testing.assert_array_equal(*results)
    return results[0].tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_a_short_integer_between_two_operations_is_within_its_limits(dtype):
    limits = np.iinfo(dtype)
    given = np.array([1e6, -1e6, np.nan, 3.7, 100.5], np.float32)
    whole = [limits.max, limits.min, 0, 3, 100]
    assert chain(given, "float32", ("convert", dtype), ("convert", "float32")) == whole
    doubled = [float(np.array(2 * number).astype(dtype)) for number in whole]
    steps = (("convert", dtype), ("multiply", 2.0, dtype), ("convert", "float32"))
    assert chain(given, "float32", *steps) == doubled


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum"])
def test_a_truth_value_between_two_operations_is_0_or_1(name):
    both = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    g = Graph()
    x, y = (g.input((4,), "bool") for _ in both)
    held = g.elementwise(name, x, y)
    g.outputs = [held, g.elementwise("convert", held, dtype="int32")]
    truth, number = evaluate(g, list(both))
    holds = {"add": 0b0111, "subtract": 0b0110, "multiply": 0b0001, "maximum": 0b0111}[name]
    expected = [int(digit) for digit in f"{holds:04b}"]
    assert truth.view(np.uint8).tolist() == number.tolist() == expected


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_cube_roots_of_all_magnitudes(target):
    x = np.array([1e-38, -1e-30, 1e-12, 27.0, -1e20, 3e38, np.inf, np.nan, 0.0], np.float32)
    g = Graph()
    g.outputs = [g.elementwise("cbrt", g.input(x.shape, "float32"))]
    np.testing.assert_allclose(evaluate(g, [x], target)[0], np.cbrt(x), rtol=2e-6)


@pytest.mark.parametrize("name", ["remainder", "floor_remainder"])
@pytest.mark.parametrize("divisor", [3e-26, np.full(3, 3e-26, np.float32)], ids=["number", "tile"])
def test_remainders_of_tiny_numbers_have_the_sign_of_their_operand(name, divisor):
    x = np.array([1.1e-25, -1.1e-25, 1e-26], np.float32)
    g = Graph()
    left = g.input(x.shape, "float32")
    is_number = isinstance(divisor, float)
    right = divisor if is_number else g.input(x.shape, "float32")
    g.outputs = [g.elementwise(name, left, right)]
    expected = {"remainder": np.fmod, "floor_remainder": np.mod}[name](x, np.float32(divisor))
    found = evaluate(g, [x] if is_number else [x, divisor])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-3)
