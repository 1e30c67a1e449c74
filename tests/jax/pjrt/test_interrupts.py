"""Ctrl-C in slots; the process is one of its own, as signals go to the main thread."""

import pytest

PROGRAM = """
import os, signal, threading, time
import jax, jax.numpy as jnp

f = jax.jit(lambda a: jax.lax.fori_loop(0, 300, lambda i, x: jnp.sin(x), a).sum())
x = jnp.ones((64, 64))
float(f(x))
caught = 0
for delay in (0.001, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07):
    try:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            float(f(x + 1))
    except KeyboardInterrupt:
        caught += 1
    if caught == 3:
        break
print(caught, float(jnp.ones(3).sum()))
"""


@pytest.mark.slow
def test_ctrl_c_in_a_long_step_arrives_in_the_program_and_the_process_goes_on(ran):
    # JAX runs Python of its own in garbage collections, where Python itself loses an interrupt.
    assert ran(PROGRAM, JAX_PLATFORMS="neuron").stdout == "3 3.0\n"
