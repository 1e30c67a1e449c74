"""`make bench`: what a call takes on JAX's platform neuron, beside XLA's CPU in the same process.

Calls alternate between both; a figure is the best mean of many rounds, in the process's own time
(user and system), which other work on the machine disturbs less than wall time. The difference is
what the plugin adds. The last row is a training step of a small model, in wall time, as a ratio.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("JAX_PLATFORMS", "neuron,cpu")

import jax
import jax.numpy as jnp
import numpy as np

CALLS, ROUNDS = 500, 15
LIMIT_US, LIMIT_RATIO = 150, 1.3

add = jax.jit(lambda a: a + 1)
donating = jax.jit(lambda a: a + 1, donate_argnums=0)
several = jax.jit(lambda a, b: (a + b, a - b, a * b))


def loss(weights, x):
    """The loss of a small model."""
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x**2).mean()


@jax.jit
def train(weights, x):
    """One step of gradient descent."""
    return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x), strict=True)]


def run_donating(x):
    """A chain of calls, each of which takes over the last one's result."""
    for _ in range(CALLS):
        x = donating(x)
    return x


ROWS = {
    "jit(a + 1)": lambda x: [add(x) for _ in range(CALLS)],
    "the same, donated": lambda x: run_donating(add(x)),
    "three results": lambda x: [several(x, x) for _ in range(CALLS)],
    "numpy to the device": lambda x: [
        jax.device_put(np.ones(16, np.float32), x.device) for _ in range(CALLS)
    ],
    "and back": lambda x: [np.asarray(add(x)) for _ in range(CALLS)],
}


def best_us(call, places):
    """The best mean time of a call on each device, in turn."""
    times = {place: [] for place in places}
    for _ in range(ROUNDS):
        for place, x in places.items():
            start = time.process_time()
            jax.block_until_ready(call(x))
            times[place].append((time.process_time() - start) / CALLS * 1e6)
    return [min(found) for found in times.values()]


def step_ratio():
    """A training step's best time on the device over the CPU's, in turn."""
    states, times = {}, {}
    for name in ("cpu", "neuron"):
        weights = [jnp.full((512, 512), 0.01) for _ in range(4)]
        states[name] = jax.device_put((weights, jnp.ones((256, 512))), jax.devices(name)[0])
        jax.block_until_ready(train(*states[name]))
        times[name] = []
    for _ in range(2 * ROUNDS):
        for name, (weights, x) in states.items():
            start = time.perf_counter()
            states[name] = jax.block_until_ready(train(weights, x)), x
            times[name].append(time.perf_counter() - start)
    return min(times["neuron"]) / min(times["cpu"])


def main():
    """A row for each kind of call."""
    places = {
        name: jax.device_put(jnp.ones(16), jax.devices(name)[0]) for name in ("cpu", "neuron")
    }
    print(
        f"{'16 float32':<22} {'CPU us':>8} {'neuron us':>10} {'above us':>9}   (at most {LIMIT_US})"
    )
    for name, call in ROWS.items():
        for x in places.values():
            jax.block_until_ready(call(x))
        cpu, ours = best_us(call, places)
        print(f"{name:<22} {cpu:>8.2f} {ours:>10.2f} {ours - cpu:>9.2f}")
    print(f"\na training step: {step_ratio():.2f} times the CPU's (at most {LIMIT_RATIO})")


if __name__ == "__main__":
    main()
