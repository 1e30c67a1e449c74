"""Functions of tiles that take several instructions, against numpy."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit, simulate
from trnsim.nki import language as nl
from trnsim.nki.language import math
from trnsim.nki.notices import SimulatorOnlyWarning

GRID = np.linspace(-3.9, 3.9, 128 * 4, dtype=np.float32).reshape(128, 4)
HALVES = np.arange(-8, 8, dtype=np.float32).reshape(4, 4) / 2
ROUNDING = ["floor", "ceil", "trunc", "negative"]


@pytest.mark.parametrize("name", ROUNDING)
@pytest.mark.parametrize("values", [GRID, HALVES, np.float32([[0.49999997, -0.5, 2.0**24, -7e6]])])
def test_rounding_is_numpys(computed, name, values):
    found = computed(getattr(nl, name), values)
    np.testing.assert_array_equal(found, getattr(np, name)(values))


@pytest.mark.parametrize("name", ROUNDING)
def test_the_result_has_the_dtype_asked_for(computed, name):
    found = computed(getattr(nl, name), HALVES, dtype=nl.int32)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, getattr(np, name)(HALVES).astype(np.float32).round())


EDGES = np.float32(
    [
        [0.0, 0.5, 1.5, 2.5, 0.49999997, 1 - 2.0**-24, 1e-45, 4194304.5],
        [2.0**22 + 1.5, 2.0**23 - 0.5, 2.0**23, 2.0**23 + 1, 2.0**24 - 1, 2.0**24, 2.0**31, 3e9],
        [2.0**31 - 128, 2.0**32, 1e20, 3.4e38, np.inf, np.nan, 1.0, 65535.5],
    ]
)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint"])
@pytest.mark.parametrize("values", [EDGES, -EDGES])
def test_rounding_is_numpys_to_the_bit_for_every_magnitude(computed, name, values):
    found = computed(getattr(math, name), values)
    expected = getattr(np, name)(values)
    np.testing.assert_array_equal(found, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number])


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.int32, np.uint8])
def test_other_dtypes_are_rounded_in_themselves(computed, name, dtype):
    values = np.array([[0, 0.5, 1.5, 2.5, 7.25, 200, 255, 3]]).astype(dtype)
    found = computed(getattr(math, name), values)
    assert found.dtype == values.dtype
    expected = getattr(np, name)(values.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(found, expected)


def test_integers_stay_as_they_are(computed):
    values = np.array([[2**24 + 1, -(2**31), 2**31 - 1, 0]], np.int32)
    np.testing.assert_array_equal(computed(nl.floor, values), values)


TURNS = ["sin", "cos", "tan"]


def angles_to(largest):
    grid = np.random.default_rng(0).uniform(-largest, largest, 128 * 32).astype(np.float32)
    multiples = np.arange(-64, 64, dtype=np.float32) * np.float32(np.pi / 2)
    return np.concatenate((grid[:-128], multiples)).reshape(128, 32)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("largest", [np.pi, 9.0, 1e3, 2.0**17 * 2 * np.pi])
def test_angles_of_many_turns_are_reduced(computed, name, largest, target):
    angles = angles_to(largest)
    expected = getattr(np, name)(angles.astype(np.float64))
    # The tangent passes on the errors of the angle by its slope.
    slope = 1 + expected**2 if name == "tan" else 1
    error = np.abs(computed(getattr(nl, name), angles, target=target) - expected) / slope
    assert error.max() < 3e-7


def test_angles_are_reduced_up_to_twice_that_and_refused_beyond(computed):
    angles = angles_to(2.0**18 * 2 * np.pi * 0.999)
    assert np.abs(computed(nl.sin, angles) - np.sin(angles.astype(np.float64))).max() < 2e-6
    beyond = np.float32([[1.7e6, 1e7, 1e20, 3.4e38, np.inf, np.nan]])
    for name in TURNS:
        assert np.isnan(computed(getattr(nl, name), np.concatenate((beyond, -beyond)))).all()


def test_small_angles_and_multiples_of_pi_keep_the_relative_accuracy_of_the_sine(computed):
    near = np.float32([[1e-30, -1e-20, 1e-3, np.pi, -np.pi, 2 * np.pi, 100 * np.pi, 1000 * np.pi]])
    expected = np.sin(near.astype(np.float64))
    np.testing.assert_allclose(computed(nl.sin, near), expected, rtol=1e-5)
    assert computed(nl.sin, np.zeros((1, 1), np.float32)) == 0


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", TURNS)
def test_angles_of_sixteen_bits_are_reduced_in_float32(computed, name, dtype):
    angles = np.linspace(-300, 300, 512).reshape(128, 4).astype(dtype)
    found = computed(getattr(nl, name), angles)
    assert found.dtype == angles.dtype
    expected = getattr(np, name)(angles.astype(np.float64))
    rounding = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=rounding, atol=1e-6)
    wide = computed(getattr(nl, name), angles, dtype=nl.float32)
    np.testing.assert_allclose(wide, expected, rtol=1e-4, atol=1e-6)


def test_the_engines_sine_reduces_nothing_and_takes_one_instruction():
    @jit
    def kernel(x, as_operator):
        tile = nl.load(x)
        found = nl.ndarray(tile.shape, tile.dtype)
        if as_operator:
            nisa.activation(dst=found, op=nl.sin, data=tile)
        else:
            found = nl.sin(tile)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, found)
        return out

    nine = np.full((128, 512), 9, np.float32)
    plain, reduced = (trnsim.run(kernel, nine, which, target="trn2") for which in (True, False))
    assert abs(plain.outputs[0, 0] - 27.65) < 0.01
    assert abs(reduced.outputs[0, 0] - np.sin(9)) < 1e-6
    assert len(reduced.program) == len(plain.program) + 6
    assert reduced.timeline.device_time_s > plain.timeline.device_time_s


def test_logical_not_swaps_zero_and_one(computed):
    given = np.array([[0, 1, 1, 0]], np.float32)
    np.testing.assert_array_equal(computed(nl.logical_not, given), 1 - given)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_where_chooses_by_a_tile_that_is_not_zero(computed, random, kind):
    condition = (random((8, 6)) > 0).astype(np.float32)
    x, y = random((8, 6), kind, 1), random((8, 6), kind, 2)
    np.testing.assert_array_equal(computed(nl.where, condition, x, y), np.where(condition, x, y))


def test_where_takes_a_number_on_either_side(computed, random):
    condition = (random((8, 6)) > 0).astype(np.float32)
    x = random((8, 6), seed=1)
    np.testing.assert_array_equal(
        computed(nl.where, condition, x, 0.0), np.where(condition, x, np.float32(0))
    )
    np.testing.assert_array_equal(
        computed(nl.where, condition, 2.5, x), np.where(condition, np.float32(2.5), x)
    )


def test_where_of_floats_needs_a_dtype_of_floats(computed):
    condition, integers = np.uint8([[1, 0]]), np.int32([[3, 4]])
    for x, y, name in (
        (0.5, -0.5, "condition"),
        (integers, 0.5, "x"),
        (2.0, integers, "y"),
    ):
        with pytest.raises(
            IllegalInstruction, match=f"a float and .* the dtype of `{name}`"
        ) as caught:
            computed(nl.where, condition, x, y)
        assert caught.value.fix == "pass the dtype of the result: dtype=nl.float32"
    found = computed(nl.where, condition, 0.5, -0.5, dtype=nl.float32)
    np.testing.assert_array_equal(found, [[0.5, -0.5]])
    np.testing.assert_array_equal(computed(nl.where, condition, 2, 1), [[2, 1]])


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_dropout_zeroes_at_its_rate(computed, rate):
    found = computed(nl.dropout, np.ones((128, 512), np.float32), rate)
    assert set(np.unique(found)) <= {0.0, 1.0}
    spread = (rate * (1 - rate) / found.size) ** 0.5
    assert abs((found == 0).mean() - rate) <= 4 * spread


@pytest.mark.parametrize("name", ["divide", "mod", "fmod"])
def test_what_no_engine_has_is_refused_unless_on_awss_simulator(computed, name):
    x, y = np.float32([[7, -7, 7, -7, 6, 5.5]]), np.float32([[3, 3, -3, -3, 3, 2]])
    operator = getattr(nl, name)
    with pytest.raises(IllegalInstruction, match=rf"nl\.{name}: no engine has it") as caught:
        computed(operator, x, y)
    assert "nl.reciprocal" in caught.value.fix
    with pytest.warns(SimulatorOnlyWarning, match=rf"nl\.{name}: no engine has it"):
        found = computed(operator, x, y, as_simulator=True)
    np.testing.assert_allclose(found, getattr(np, name)(x, y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["divide", "mod", "fmod"])
@pytest.mark.filterwarnings("ignore::trnsim.nki.notices.SimulatorOnlyWarning")
def test_numbers_divide_and_are_divided(computed, name):
    x = np.float32([[7, -5, 3.5, 2]])
    for given in ((x, 2.0), (2.0, x), *(((x, 0.0), (x, -0.0)) if name == "divide" else ())):
        with np.errstate(divide="ignore"):
            expected = getattr(np, name)(*given)
        found = computed(getattr(nl, name), *given, as_simulator=True)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [10**400, "2", None], ids=["large", "text", "None"])
@pytest.mark.parametrize("name", ["divide", "mod", "fmod"])
@pytest.mark.filterwarnings("ignore::trnsim.nki.notices.SimulatorOnlyWarning")
def test_only_a_number_that_python_can_handle_divides(computed, name, value):
    with pytest.raises(IllegalInstruction, match=r"^nl\.(divide|mod).*; legal: .*number"):
        computed(getattr(nl, name), np.float32([[7, -5]]), value, as_simulator=True)


@pytest.mark.filterwarnings("ignore::trnsim.nki.notices.SimulatorOnlyWarning")
def test_remainders_end_where_multiples_are_rounded(computed):
    x = np.float32([[2.0**24 - 1, -(2.0**24) + 1, 1e10, 5, -5, 5, np.inf]])
    y = np.float32([[7, 5, 3, np.inf, np.inf, 0, 3]])
    found = computed(nl.mod, x, y, as_simulator=True)
    np.testing.assert_array_equal(found, [[0, 0, -1021, *4 * [np.nan]]])


@pytest.mark.parametrize("name", ["mod", "fmod", "divide"])
def test_two_numbers_are_refused_by_name(name):
    @jit
    def kernel():
        return getattr(nl, name)(5, 3)

    with (
        pytest.warns(SimulatorOnlyWarning),
        pytest.raises(IllegalInstruction, match=r"of int; legal: tiles and numbers"),
    ):
        simulate(kernel)()


def test_a_function_prints_as_its_name():
    assert repr(nl.floor) == "nl.floor"
    assert nl.where.__name__ == "where"
