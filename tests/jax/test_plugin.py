"""The life of a process with the plugin: its end, and clients one after the other."""

import pytest

ENDS = """
import jax, jax.numpy as jnp, atexit
kept = [jnp.ones(3) + at for at in range(5)]
f = jax.jit(lambda a: jax.lax.fori_loop(0, 200, lambda _, x: jnp.sin(x), a))
late = f(jnp.ones((128, 128)))
class Late:
    def __del__(self):
        self.array
late_one = Late(); late_one.array = kept[0]
print("done")
"""


@pytest.mark.slow
def test_a_process_ends_with_arrays_alive_and_a_computation_under_way(ran):
    done = ran(ENDS, JAX_PLATFORMS="neuron")
    assert done.stdout == "done\n"
    assert "Exception" not in done.stderr


AGAIN = """
import jax, jax.numpy as jnp
from jax.extend.backend import clear_backends
print(float(jnp.ones(3).sum()))
clear_backends()
print(float(jnp.ones(4).sum()), jax.devices()[0].platform)
"""


@pytest.mark.slow
def test_backends_can_be_cleared_and_made_again(ran):
    assert ran(AGAIN, JAX_PLATFORMS="neuron").stdout == "3.0\n4.0 neuron\n"


def test_importing_trnsim_loads_no_jax(ran):
    program = "import sys, trnsim; print([m for m in sys.modules if m.startswith('jax')])"
    assert ran(program).stdout == "[]\n"
