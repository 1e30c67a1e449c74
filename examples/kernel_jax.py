"""Kernels of one's own in a program of JAX, with their gradient, on an emulated Trainium.

`trnsim run examples/kernel_jax.py` times the step, kernels included, and each kernel apart.
"""

import os

os.environ["NEURON_LOGICAL_NC_CONFIG"] = "1"  # kernels of one core, and the graphs around them

import jax
import jax.numpy as jnp
import nki
import nki.language as nl


@nki.jit
def squared_relu(x):
    """max(x, 0) ** 2."""
    positive = nl.maximum(nl.load(x), 0.0)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, value=nl.multiply(positive, positive))
    return result


@nki.jit
def squared_relu_gradient(x, of_result):
    """The gradient of x, from that of the result: 2 max(x, 0) times it."""
    positive = nl.maximum(nl.load(x), 0.0)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, value=nl.multiply(nl.multiply(positive, 2.0), nl.load(of_result)))
    return result


@jax.custom_vjp
def activation(x):
    return squared_relu(x)


activation.defvjp(
    lambda x: (squared_relu(x), x),
    lambda x, of_result: (squared_relu_gradient(x, of_result),),
)


@jax.jit
def step(weights, x):
    """The loss and its gradient: a product, the kernel, a mean."""

    def loss_of(weights):
        with jax.named_scope("mlp"):
            return jnp.mean(activation(x @ weights))

    return jax.value_and_grad(loss_of)(weights)


x = jax.random.normal(jax.random.key(0), (128, 64))
weights = jax.random.normal(jax.random.key(1), (64, 256)) / 8
loss, gradient = step(weights, x)
expected = jax.grad(lambda weights: jnp.mean(jnp.maximum(x @ weights, 0.0) ** 2))(weights)
print(f"loss {loss:.4f} on {x.devices().pop().platform}")
print("gradient as JAX's own:", bool(jnp.allclose(gradient, expected, rtol=1e-5)))
print("rows of x:", jax.lax.map(lambda row: squared_relu(row[None])[0], x[:2, :4]).shape)
