"""Kernels that XLA's CPU client calls back for."""

# nki: 0.6
# Kernels of one core, in graphs of two: NKI 0.7 refuses them (tests of check_degree).

import threading

import jax
import jax.numpy as jnp
import nki
import numpy as np
import pytest
from nki_kernels import double, into, stored, unwritten

from trnsim.jax import private
from trnsim.jax.host_kernels import HostKernels
from trnsim.jax.kernel_calls import TARGET

pytestmark = pytest.mark.usefixtures("neuron")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def module_of(function, *given):
    """A function's module, as JAX sends it."""
    return str(jax.jit(function).lower(*given).compiler_ir("stablehlo")).encode()


def test_a_program_without_kernels_calls_nothing_and_is_not_waited_for():
    code = module_of(lambda x: x + 1, X)
    kernels = HostKernels(code)
    assert not kernels.has_kernels
    assert not kernels.callbacks(private.module_of(code))
    assert kernels.run(lambda: [[object()]])  # an object that nobody can wait for


def test_each_call_becomes_one_of_python_in_functions_loops_and_branches():
    def program(p, x):
        x = jax.lax.scan(lambda c, _: (double(c), None), x, length=3)[0]
        return jax.lax.cond(p, double, lambda y: double(y + 1), x)

    code = module_of(program, True, X)
    module = private.module_of(code)
    callbacks = HostKernels(code).callbacks(module)
    assert len(callbacks) == 3
    text = str(module)
    assert TARGET not in text
    assert sorted(at for at in range(9) if f"index = {at} : ui64" in text) == [0, 1, 2]
    for callback in callbacks:
        (found,) = callback(X)
        np.testing.assert_array_equal(found, X * 2)


def test_what_it_reads_is_not_changed_by_a_kernel_that_writes():
    found = jax.jit(lambda x: (into(x, x), x))(jnp.asarray(X))
    np.testing.assert_array_equal(found[0], X * 2)
    np.testing.assert_array_equal(found[1], X)


def test_after_an_error_the_other_calls_give_zeros_at_once():
    calls = []

    @nki.jit
    def counted(x):
        calls.append(1)
        return stored(nki.language.load(x), x.shape, x.dtype)

    jax.jit(counted).lower(X)
    before = len(calls)
    program = jax.jit(
        lambda x: jax.lax.scan(lambda c, _: (counted(unwritten(c)), None), x, length=5)[0]
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match="no instruction has written"):
        program(X)
    assert len(calls) == before


def test_several_threads_run_one_program():
    program, found, errors = jax.jit(lambda x: double(x) + 1), {}, []

    def run(number):
        try:
            for _ in range(5):
                found[number] = np.asarray(program(jnp.full((4, 3), number, jnp.float32)))
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not errors
    for number, result in found.items():
        np.testing.assert_array_equal(result, np.full((4, 3), 2 * number + 1, np.float32))


def test_it_is_found_by_a_program_stored_in_the_same_process():
    compiled = jax.jit(lambda x: double(x) - 1).lower(X).compile()
    from jax.experimental.serialize_executable import (  # noqa: PLC0415
        deserialize_and_load,
        serialize,
    )

    again = deserialize_and_load(*serialize(compiled), execution_devices=jax.devices()[:1])
    np.testing.assert_array_equal(again(jnp.asarray(X)), X * 2 - 1)


class Array:
    """Stands for an array of the private client, which notes that somebody waited."""

    def __init__(self, error=None):
        self.error = error
        self.is_awaited = False

    def is_deleted(self):
        return False

    def block_until_ready(self):
        self.is_awaited = True
        if self.error:
            raise self.error


def test_every_device_is_waited_for_though_one_failed():
    kernels = HostKernels(TARGET.encode())
    assert kernels.has_kernels
    arrays = [Array(), Array(ValueError("of a device")), Array()]
    with pytest.raises(ValueError, match="of a device"):
        kernels.run(lambda: [arrays])
    assert all(one.is_awaited for one in arrays)
