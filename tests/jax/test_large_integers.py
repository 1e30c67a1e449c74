"""Integers that a program would round are the host's in exact numerics."""

import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from nki_kernels import double

from trnsim.device.fallback_policy import HostFallback, set_policy, state
from trnsim.device.numerics import numerics
from trnsim.jax.large_integers import LargeIntegers
from trnsim.jax.stablehlo import graph_of

pytestmark = pytest.mark.usefixtures("neuron")
LARGE = np.int32([2**24 + 1, 2**24 + 3, 2**24 + 2])
MIDDLE = np.int32([2**23 + 1] * 3 + [-(2**23) - 1] * 3)


def looped(body):
    """A loop over a number whose length is the second element, and is not known before."""

    def function(x):
        carry = np.int32(0), np.int32(0)
        return lax.while_loop(lambda c: c[0] < x[1], lambda c: (c[0] + 1, body(x, c[1])), carry)[1]

    return function


BEYOND = {
    "maximum": (lambda x: x.max(), LARGE),
    "unsigned maximum": (lambda x: x.max(), LARGE.astype(np.uint32) + 2**31),
    "place": (lambda x: x.argmax(), LARGE),
    "sum": (lambda x: x.sum(), LARGE),
    "parts of a sum": (lambda x: x.sum(), MIDDLE),
    "product": (lambda x: x.prod(), LARGE),
    "running sum": (lax.cumsum, LARGE),
    "running maximum": (lax.cummax, LARGE),
    "windows": (lambda x: lax.reduce_window(x, np.int32(0), lax.add, (2,), (1,), "VALID"), LARGE),
    "product of vectors": (lambda x: x @ x, np.int32([5001, 5003])),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda _, c: c + x.max(), np.int32(0)), LARGE),
    "loop of unknown length": (looped(lambda x, c: c + x.max()), np.int32([2**24 + 1, 2, 3])),
    "branch": (lambda x: lax.cond(x[0] > 0, lambda x: x.max(), lambda x: x[0], x), LARGE),
}


def scaled(x):
    """A product of floating point with a sum that is converted to an integer."""
    return (x.astype(np.float32) @ np.full((3, 2), 2.5, np.float32)).astype(np.int32)


def after_a_kernel(x):
    return double(x).sum()


WITHIN = {
    "elementwise": (lambda x: x * 3 + 1, LARGE),
    "sort": (jnp.sort, LARGE),
    "sum": (lambda x: x.sum(), np.arange(100, dtype=np.int32)),
    "mean": (lambda x: x.mean(), LARGE),
    "sum of floating point": (lambda x: x.sum(), LARGE.astype(np.float32)),
    "sum below the limit": (lambda x: x.sum(), np.int32([2**24 - 2, 1])),
    "least above the limit": (lambda x: x.min(), np.int32([1 - 2**24, 5])),
    "product below the limit": (lambda x: x.prod(), np.int32([4096, -4095])),
    "none": (lambda x: x.sum(1), np.zeros((2, 0), np.int32)),
    "branch": (lambda x: lax.cond(x[0] > 0, lambda x: (x % 5).sum(), lambda x: x[0], x), LARGE),
    "product of floating point": (scaled, np.int32([[2**24 + 1] * 3] * 2)),
    "results of a kernel": (after_a_kernel, np.int32([[2**24 + 1] * 3] * 4)),
}
AT_THE_LIMIT = {
    "sum": (lambda x: x.sum(), np.int32([2**24 - 1, 1])),
    "largest": (lambda x: x.max(), np.int32([2**24, 5])),
    "least": (lambda x: x.min(), np.int32([-(2**24), 5])),
    "least in a loop": (looped(lambda x, c: lax.min(c, x.min())), np.int32([-(2**24), 2])),
    "product": (lambda x: x.prod(), np.int32([4096, -4096])),
    "wrapping product": (lambda x: x.prod(), np.int32([2**16 - 1, 2**16 + 1, 2**16])),
    "largest two": (lambda x: lax.top_k(x, 2)[0], np.int32([2**24, 3, -5])),
}


def reason_of(function, x):
    imported = graph_of(jax.jit(function).lower(x).compiler_ir("stablehlo"))
    return LargeIntegers(imported.graph).reason(imported.arguments([x]))


@pytest.mark.parametrize("name", BEYOND)
def test_an_operation_that_would_round_integers_is_named(name):
    assert "has integers beyond 2**24" in reason_of(*BEYOND[name])


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_the_first_integer_of_which_a_neighbour_is_missing_is_named(name):
    assert "has integers beyond 2**24" in reason_of(*AT_THE_LIMIT[name])


@pytest.mark.parametrize("name", BEYOND)
def test_small_integers_are_those_of_the_program(name):
    function, x = BEYOND[name]
    assert not reason_of(function, np.arange(len(x), dtype=x.dtype))


@pytest.mark.parametrize("name", WITHIN)
def test_what_the_chip_computes_exactly_stays_in_the_program(name):
    assert not reason_of(*WITHIN[name])


@pytest.mark.slow_but_every(6)
@pytest.mark.parametrize("name", BEYOND)
def test_the_host_computes_integers_beyond_the_chips_and_is_counted(name, monkeypatch):
    monkeypatch.setattr(state, "on_host", Counter())
    function, x = BEYOND[name]
    with jax.default_device(jax.devices("cpu")[0]):
        expected = np.asarray(jax.jit(function)(x))
    ours = jax.jit(function)
    with numerics("exact") as on_host, pytest.warns(HostFallback, match=r"beyond 2\*\*24"):
        found = np.asarray(ours(jax.device_put(x, jax.devices("neuron")[0])))
    np.testing.assert_array_equal(found, expected)
    assert sum(on_host.values()) == 1


@pytest.mark.slow
def test_a_later_call_with_smaller_integers_is_the_programs():
    ours, device = jax.jit(lambda x: x.sum()), jax.devices("neuron")[0]
    with numerics("exact") as on_host:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HostFallback)
            ours(jax.device_put(LARGE, device))
        on_host.clear()
        assert ours(jax.device_put(np.int32([1, 2, 4]), device)) == 7
        assert not on_host


@pytest.mark.slow
def test_the_policy_chip_refuses_integers_beyond_the_chips():
    set_policy("chip")
    try:
        with numerics("exact"), pytest.raises(Exception, match=r"integers beyond 2\*\*24"):
            jax.jit(lambda x: x.max())(jax.device_put(LARGE, jax.devices("neuron")[0]))
    finally:
        set_policy("host")


@pytest.mark.slow
def test_nan_that_aws_does_not_order_is_the_hosts(monkeypatch):
    monkeypatch.setattr(state, "on_host", Counter())
    ours, device = jax.jit(lambda x: lax.top_k(x, 2)[1]), jax.devices("neuron")[0]
    with numerics("exact") as on_host:
        with pytest.warns(HostFallback, match="top_k: the operand holds NaN"):
            found = ours(jax.device_put(np.float32([1, np.nan, 3]), device))
        assert found.tolist() == [1, 2]
        on_host.clear()
        assert ours(jax.device_put(np.float32([1, 2, 3]), device)).tolist() == [2, 1]
        assert not on_host
