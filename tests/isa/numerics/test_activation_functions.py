"""The Scalar Engine's functions, against the math module and their derivatives in float64."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.isa.numerics import activation_functions


def normal_below(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


ORACLES = {
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "sigmoid": sigmoid,
    "gelu": lambda x: x * normal_below(x),
    "gelu_dx": lambda x: normal_below(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: (
        x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: (
        sigmoid(1.702 * x) + 1.702 * x * sigmoid(1.702 * x) * sigmoid(-1.702 * x)
    ),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": lambda x: sigmoid(x) + x * sigmoid(x) * sigmoid(-x),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "prelu": lambda x: max(x, 0.0),
    "sine": math.sin,
}
LIMITS = {  # at -inf and at +inf
    "erf": (-1, 1),
    "erf_dx": (0, 0),
    "sigmoid": (0, 1),
    "gelu": (0, np.inf),
    "gelu_dx": (0, 1),
    "gelu_apprx_tanh": (0, np.inf),
    "gelu_apprx_sigmoid": (0, np.inf),
    "gelu_apprx_sigmoid_dx": (0, 1),
    "silu": (0, np.inf),
    "silu_dx": (0, 1),
    "softplus": (0, np.inf),
    "mish": (0, np.inf),
    "prelu": (0, np.inf),
    "sine": (-np.inf, np.inf),
}


@pytest.mark.parametrize("name", ORACLES)
def test_a_function_is_accurate_to_float32(name):
    x = np.linspace(-3.1, 3.1, 4001).astype(np.float32)
    found = getattr(activation_functions, name)(x)
    assert found.dtype == np.float32
    exact = np.array([ORACLES[name](float(v)) for v in x])
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=3e-7)


@pytest.mark.parametrize("name", LIMITS)
def test_infinite_inputs_give_the_limit_and_nan_stays(name):
    found = getattr(activation_functions, name)(np.array([-np.inf, np.inf, np.nan], np.float32))
    assert tuple(found[:2]) == LIMITS[name]
    assert np.isnan(found[2])


@pytest.mark.parametrize("name", LIMITS)
def test_the_largest_numbers_raise_no_warning(name):
    largest = np.finfo(np.float32).max
    found = getattr(activation_functions, name)(
        np.array([-largest, largest, 0.0, -0.0], np.float32)
    )
    assert not np.isnan(found).any()


def test_erf_is_within_2e_7_of_the_math_module_on_1e5_points():
    x = np.linspace(-6, 6, 100_001).astype(np.float32)
    exact = np.array([math.erf(float(v)) for v in x])
    assert np.abs(activation_functions.erf(x) - exact).max() < 2e-7


@given(st.floats(-12, 12, width=32))
def test_erf_has_a_small_relative_error_down_to_zero(x):
    found = float(activation_functions.erf(np.array([x], np.float32))[0])
    assert found == pytest.approx(math.erf(x), rel=3e-7, abs=1e-38)


def test_gelu_keeps_its_relative_accuracy_far_below_zero():
    x = np.array([-4.0, -5.0, -6.0, -8.0], np.float32)
    exact = [float(v) * normal_below(float(v)) for v in x]
    np.testing.assert_allclose(activation_functions.gelu(x), exact, rtol=2e-6)


def test_the_sine_of_9_extrapolates_a_cubic_as_the_hardware_does():
    found = activation_functions.sine(np.array([9.0, -9.0], np.float32))
    assert found[0] == pytest.approx(27.65, abs=0.005)
    assert found[1] == -found[0]


@given(st.floats(3.25, 100, width=32))
def test_outside_the_period_the_sine_is_its_third_order_expansion_at_pi(x):
    beyond = x - math.pi
    found = float(activation_functions.sine(np.array([x], np.float32))[0])
    assert found == pytest.approx(beyond**3 / 6 - beyond, rel=1e-5, abs=1e-5)


def test_the_sine_is_continuous_where_the_cubic_begins():
    edge = np.float32(math.pi)
    near = np.array([np.nextafter(edge, np.float32(s)) for s in (3, 4)] + [edge], np.float32)
    np.testing.assert_allclose(activation_functions.sine(near), 0, atol=1e-6)


def test_prelu_takes_a_slope_or_one_for_each_partition():
    x = np.array([[-2.0, 4.0], [-2.0, 4.0]], np.float32)
    assert activation_functions.prelu(x, 0.25).tolist() == [[-0.5, 4.0], [-0.5, 4.0]]
    slopes = np.array([[0.5], [-1.0]], np.float32)
    assert activation_functions.prelu(x, slopes).tolist() == [[-1.0, 4.0], [2.0, 4.0]]
