"""Libraries of JAX train on the device, unmodified: each loss is that of XLA's CPU, bit for bit."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("flax", reason="make clients installs flax, equinox, optax and keras")

from launched import run

LOOPS = Path(__file__).parent / "jax_loops.py"
NO_EXCESS = "--xla_allow_excess_precision=false"
"""Has XLA's CPU round each operation to its dtype, as the device does."""
CASES = [
    *((loop, dtype) for loop in ("linen", "nnx", "equinox", "keras", "scanned")
      for dtype in ("float32", "bfloat16")),
    ("searched", "float32"),  # optax's line search keeps float32 among numbers of bfloat16
]  # fmt: skip


def losses(platform, loop, dtype, folder):
    command = [sys.executable, str(LOOPS), loop, dtype]
    variables = {"JAX_PLATFORMS": platform, "KERAS_BACKEND": "jax", "XLA_FLAGS": NO_EXCESS}
    said = run(command, folder, KERAS_HOME=str(folder), **variables)
    (line,) = [line for line in said.splitlines() if line.startswith("ANSWER")]
    answer = json.loads(line.removeprefix("ANSWER"))
    assert answer["device"] == (platform or "neuron")
    return answer["losses"]


@pytest.mark.parametrize(("loop", "dtype"), CASES)
def test_a_loop_trains_as_on_the_cpu(tmp_path, loop, dtype):
    ours = losses("", loop, dtype, tmp_path)
    assert ours == losses("cpu", loop, dtype, tmp_path)
    first, *_, last = map(float.fromhex, ours)
    assert last < first
