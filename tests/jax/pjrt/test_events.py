"""Asynchronous computation: arrays before they are there, and errors that arrive with them."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.jax.pjrt.events import READY, PjrtEvent, drain, event_of, failed_event


class Array:
    """Stands for an array of the private client, whose computation ends when it is told."""

    def __init__(self, error=None):
        self.ended = threading.Event()
        self.error = error

    def is_deleted(self):
        return False

    def is_ready(self):
        return self.ended.is_set()

    def block_until_ready(self):
        self.ended.wait()
        if self.error:
            raise self.error


def test_what_is_done_shares_one_event():
    array = Array()
    array.ended.set()
    assert event_of([array]) == event_of([]) == READY


def test_a_failed_computation_is_no_ready_event():
    array = Array(ValueError("of the array"))
    array.ended.set()
    assert event_of([array]) != READY
    assert failed_event(ValueError()) != READY


def test_callbacks_are_called_when_the_computation_ends():
    array, called = Array(), []
    done = threading.Event()
    import ctypes  # noqa: PLC0415

    def callback(error, argument):
        called.append((error, argument))
        done.set()

    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(callback)
    event = PjrtEvent([array])
    event.call_back(ctypes.cast(function, ctypes.c_void_p).value, 7)
    assert not called
    array.ended.set()
    assert done.wait(10)
    assert called == [(None, 7)]
    event.call_back(ctypes.cast(function, ctypes.c_void_p).value, 8)
    assert called[1] == (None, 8), "at once"
    drain()


def test_a_call_returns_before_its_computation_ends(neuron):
    f = jax.jit(lambda a: jax.lax.fori_loop(0, 2000, lambda _, x: jnp.sin(x @ x), a))
    x = jax.device_put(np.full((64, 64), 0.1, np.float32), neuron[0])
    f(x).block_until_ready()
    made = f(x)
    assert not made.is_ready()
    assert np.isfinite(np.asarray(made)).all()
    made.block_until_ready()
    assert made.is_ready()


@pytest.mark.slow
def test_eight_threads_compute_at_once(neuron):
    f = jax.jit(lambda a, b: (a @ b).sum())
    found = {}

    def work(at):
        x = jax.device_put(np.full((8, 8), at, np.float32), neuron[at])
        for _ in range(50):
            found[at] = float(f(x, x))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {at: 512.0 * at * at for at in range(8)}
