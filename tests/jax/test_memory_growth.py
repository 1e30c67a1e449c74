"""Long loops: a process that calls and copies ten thousand times stays as large as it was."""

from pathlib import Path

import pytest

PROGRAM = """
import jax, numpy as np

add = jax.jit(lambda a: a + 1)
x = np.ones(256, np.float32)
y = add(jax.device_put(x))
y.block_until_ready()

def peak_kib():
    (line,) = [one for one in open("/proc/self/status") if one.startswith("VmHWM")]
    return int(line.split()[1])

def grown_kib(work):
    before = peak_kib()
    for _ in range(10_000):
        work()
    print(peak_kib() - before)

grown_kib(lambda: add(y))
grown_kib(lambda: jax.device_put(x))
"""
MOST_KIB = 20 << 10


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="Linux says the peak there")
def test_ten_thousand_calls_and_copies_keep_within_twenty_mebibytes(ran):
    grown = [int(line) for line in ran(PROGRAM, JAX_PLATFORMS="neuron").stdout.split()]
    assert len(grown) == 2
    assert max(grown) < MOST_KIB
