"""Reductions along the last free axes, softmax and rms_norm, against numpy in float64."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl

NAMES = ["sum", "max", "min", "prod", "mean"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [2, -1, [1, 2], (1, 2)], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_is_numpys(computed, random, name, axis, keepdims):
    x = random((16, 3, 5))
    found = computed(getattr(nl, name), x, axis=axis, keepdims=keepdims)
    axes = tuple(axis) if isinstance(axis, list | tuple) else axis
    expected = getattr(np, name)(x.astype(np.float64), axis=axes, keepdims=keepdims)
    expected = expected if expected.ndim > 1 else expected[:, None]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_variance_is_the_populations_and_keeps_its_axes(computed, random):
    x = random((16, 3, 5)) + 7
    found = computed(nl.var, x, axis=(1, 2))
    np.testing.assert_allclose(found, x.astype(np.float64).var((1, 2), keepdims=True), rtol=1e-5)


def test_all_is_one_where_nothing_is_zero(computed):
    x = np.float32([[1, 2, -3], [1, 0, 1], [0, 0, 0]])
    assert computed(nl.all, x, axis=1).tolist() == [[1], [0], [0]]


@pytest.mark.parametrize("axis", [-1, 1, [1, 2]], ids=str)
@pytest.mark.parametrize("scale", [1, 100])
def test_softmax_is_that_of_the_last_axes(computed, random, axis, scale):
    x = scale * (random((16, 12)) if axis == 1 else random((16, 3, 4)))
    axes = tuple(axis) if isinstance(axis, list) else axis
    powers = np.exp(x.astype(np.float64) - x.max(axes, keepdims=True))
    expected = powers / powers.sum(axes, keepdims=True)
    np.testing.assert_allclose(computed(nl.softmax, x, axis=axis), expected, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_rms_norm_divides_by_the_root_of_the_mean_square(computed, random, target):
    x, w = random((128, 64)), random((128, 64), seed=1)
    found = computed(nl.rms_norm, x, w, axis=1, n=64, epsilon=1e-5, target=target)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rms_norm_takes_a_number_of_any_type(computed):
    x, w = np.float32([[3, 4, 0, 0]]), np.ones((1, 4), np.float32)
    expected = computed(nl.rms_norm, x, w, axis=1, n=4)
    for count in (np.int64(4), np.float32(4), ml_dtypes.bfloat16(4)):
        np.testing.assert_array_equal(computed(nl.rms_norm, x, w, axis=1, n=count), expected)


@pytest.mark.parametrize("count", [0, -1, None, float("nan")])
def test_rms_norm_needs_the_number_of_elements(computed, random, count):
    x, w = random((4, 8)), random((4, 8))
    with pytest.raises(IllegalInstruction, match=r"rms_norm\(n=.*legal: the number of elements"):
        computed(nl.rms_norm, x, w, axis=1, n=count)


def test_the_result_has_the_inputs_dtype_unless_another_is_asked_for(computed, random):
    x = np.abs(random((8, 16))).astype(np.float16)
    for name in (*NAMES, "var", "softmax"):
        assert computed(getattr(nl, name), x, axis=1).dtype == np.float16
        assert computed(getattr(nl, name), x, axis=1, dtype=nl.float32).dtype == np.float32


@pytest.mark.parametrize("axis", [0, (0, 1), 1, (1,), ()], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "softmax", "var"])
def test_only_the_last_free_axes_reduce(computed, random, name, axis):
    message = rf"nl\.{name} along axis .* legal: the last free axes, such as \[1, 2\]"
    with pytest.raises(IllegalInstruction, match=message):
        computed(getattr(nl, name), random((8, 4, 4)), axis=axis)


@pytest.mark.parametrize(("name", "exact"), [("max", np.max), ("min", np.min), ("sum", np.sum)])
def test_a_reduction_is_an_operator_for_instructions_too(random, name, exact):
    @jit
    def kernel(x):
        out = nl.ndarray((x.shape[0], 1), x.dtype, buffer=nl.shared_hbm)
        result = nl.ndarray((x.shape[0], 1), x.dtype)
        nisa.tensor_reduce(result, getattr(nl, name), nl.load(x), axis=1)
        nl.store(out, result)
        return out

    x = random((8, 16))
    found = trnsim.run(kernel, x).outputs
    np.testing.assert_allclose(found, exact(x, axis=1, keepdims=True), rtol=1e-5)


def test_a_reduction_prints_as_its_name():
    assert (repr(nl.max), nl.max.name) == ("nl.max", "maximum")


def test_axes_are_kept_or_not(computed, random):
    with pytest.raises(IllegalInstruction, match=r"nl\.sum, keepdims.*legal: True or False"):
        computed(nl.sum, random((4, 4)), axis=1, keepdims=np.zeros(3))
