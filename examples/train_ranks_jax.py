"""Data-parallel training in JAX that goes on from its last checkpoint, for `trnsim launch`.

Every process has one device, and rows of its own of each batch. Process 0 saves after each step; a
program that is started again finds the file and goes on after the step that it holds.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

STEPS = 8
ROWS = 64  # of a batch, over all processes
RATE = 0.1

checkpoint = Path(sys.argv[1])
jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("rank",))


def shared(spec, own):
    """An array of all processes, from what this one has of it."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, spec), own)


def loss_of(params, x, y):
    """The mean squared error of two layers."""
    first, second = params
    return jnp.mean((jnp.tanh(x @ first) @ second - y) ** 2)


def step_of_a_rank(params, x, y):
    """A step down the gradient of the loss over all ranks' rows, and that loss."""

    def mean_of(params):
        return jax.lax.pmean(loss_of(params, x, y), "rank")

    loss, gradients = jax.value_and_grad(mean_of)(params)
    return [p - RATE * g for p, g in zip(params, gradients, strict=True)], loss


step = jax.jit(
    jax.shard_map(
        step_of_a_rank, mesh=mesh, in_specs=(P(), P("rank"), P("rank")), out_specs=(P(), P())
    )
)

random = np.random.default_rng(0)
features = random.normal(size=(STEPS, ROWS, 16)).astype(np.float32)
targets = np.sin(features.sum(-1, keepdims=True))
parameters = [random.normal(size=shape) / shape[0] ** 0.5 for shape in ((16, 64), (64, 1))]

first = 0
if checkpoint.exists():
    saved = np.load(checkpoint)
    parameters = [saved["first"], saved["second"]]
    first = int(saved["step"]) + 1
    print(f"goes on after step {first}")

parameters = [shared(P(), p.astype(np.float32)) for p in parameters]
share = ROWS // jax.process_count()
mine = slice(jax.process_index() * share, (jax.process_index() + 1) * share)
for number in range(first, STEPS):
    x, y = (shared(P("rank"), batch[number, mine]) for batch in (features, targets))
    parameters, loss = step(parameters, x, y)
    print(f"step {number + 1}: loss {float(loss):.4f}")
    if jax.process_index() == 0:
        unfinished = checkpoint.with_suffix(".new.npz")
        np.savez(unfinished, first=parameters[0], second=parameters[1], step=number)
        unfinished.replace(checkpoint)  # at once: a rank that is lost leaves the old one or this
