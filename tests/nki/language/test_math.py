"""Functions of tiles that take several instructions, against numpy."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction
from trnsim.nki import language as nl
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


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_the_cosine_is_right_beyond_half_a_turn(computed, target):
    angles = np.linspace(-4.7, 4.7, 256, dtype=np.float32).reshape(64, 4)
    np.testing.assert_allclose(computed(nl.cos, angles, target=target), np.cos(angles), atol=1e-6)


def test_the_tangent_is_right_within_half_a_turn(computed):
    angles = np.linspace(-1.5, 1.5, 256, dtype=np.float32).reshape(64, 4)
    np.testing.assert_allclose(computed(nl.tan, angles), np.tan(angles), rtol=1e-5, atol=1e-6)


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
    for given in ((x, 2.0), (2.0, x)):
        found = computed(getattr(nl, name), *given, as_simulator=True)
        np.testing.assert_allclose(found, getattr(np, name)(*given), rtol=1e-6, atol=1e-6)


def test_a_function_prints_as_its_name():
    assert repr(nl.floor) == "nl.floor"
    assert nl.where.__name__ == "where"
