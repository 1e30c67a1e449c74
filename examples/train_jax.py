"""A training step of JAX, on an emulated Trainium.

Nothing here names the device: where JAX has no other accelerator, "neuron" is its default. As a
program of its own (`trnsim run examples/train_jax.py`), the step is timed on every chip.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp

SIZES = (8, 64, 1)
RATE = 0.05


def model(params, x):
    """Two layers, each in a scope that reports show."""
    for number, (weights, bias) in enumerate(params):
        with jax.named_scope(f"layer{number}"):
            x = x @ weights + bias
            if number < len(params) - 1:
                x = jnp.tanh(x)
    return x


def loss_of(params, x, y):
    """The mean squared error."""
    return jnp.mean((model(params, x) - y) ** 2)


@jax.jit
def step(params, x, y):
    """Parameters after one step down the gradient, and the loss before it."""
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradients), loss


key = jax.random.key(0)
features = jax.random.normal(key, (128, SIZES[0]))
targets = jnp.sin(features.sum(1, keepdims=True)) + features[:, :1]
parameters = [
    (jax.random.normal(jax.random.key(n + 1), (rows, columns)) / rows**0.5, jnp.zeros(columns))
    for n, (rows, columns) in enumerate(pairwise(SIZES))
]
losses = []
for _ in range(30):
    parameters, loss = step(parameters, features, targets)
    losses.append(float(loss))
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {jax.default_backend()}")
