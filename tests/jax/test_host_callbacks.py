"""Callbacks of JAX in programs: computed on the host, refused as by AWS under the policy chip."""

import gc
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from trnsim.device.fallback_policy import state
from trnsim.errors import NotModelled
from trnsim.jax.host_callbacks import Functions

pytestmark = pytest.mark.usefixtures("neuron")
X = np.arange(3, dtype=np.float32)


def test_what_a_program_prints_and_calls_is_computed_on_the_host(capfd):
    seen = []

    @jax.jit
    def program(x):
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        jax.debug.print("x={}", x)
        jax.debug.callback(seen.append, x)
        pure = jax.pure_callback(np.sin, like, x)
        return pure + io_callback(np.cos, like, x, ordered=True)

    for _ in range(2):
        np.testing.assert_allclose(program(jnp.asarray(X)), np.sin(X) + np.cos(X), rtol=1e-6)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("x=[0. 1. 2.]") == 2
    assert len(seen) == 2


@pytest.mark.parametrize("dtype", ["complex64", "float8_e5m2fnuz", "int4"])
def test_a_callback_may_give_what_a_core_does_not_store(dtype):
    like = jax.ShapeDtypeStruct((3,), jnp.dtype(dtype))
    program = jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(x).astype(dtype), like, x))
    assert program(jnp.asarray(X)).dtype == like.dtype


def test_an_error_of_a_callback_is_raised_where_the_program_is_called():
    def fails(_):
        raise KeyError("of the program")

    program = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((3,), "f4"), x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="of the program"):
        jax.block_until_ready(program(jnp.asarray(X)))


def test_under_the_policy_chip_a_callback_is_refused_in_the_words_of_aws(monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    given = jnp.asarray(X)
    line = inspect.currentframe().f_lineno + 3

    def program(x):
        jax.debug.print("x={}", x)
        return x

    with pytest.raises(
        jax.errors.JaxRuntimeError, match="host callbacks are not supported"
    ) as said:
        jax.jit(program)(given)
    assert f"test_host_callbacks.py:{line}" in str(said.value)
    assert "TRNSIM_POLICY=host" in str(said.value)


def test_a_function_lives_with_its_programs_and_no_other_process_has_its_number():
    functions, others = Functions(), Functions()

    def function():
        return 1

    number = len(functions)
    functions.append(function)
    assert functions.of(number) is function
    with pytest.raises(NotModelled, match="another process"):
        others.of(number)
    del function
    gc.collect()
    with pytest.raises(NotModelled, match="another process"):
        functions.of(number)
