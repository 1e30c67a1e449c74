"""Training loops as the libraries' own pages write them; prints a run's losses as one JSON line.

`python jax_loops.py LOOP DTYPE`: no line of a loop names a device.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 8
IMAGES = np.random.default_rng(0).standard_normal((16, 8, 8, 3)).astype(np.float32)
ROWS = IMAGES.reshape(16, -1)
LABELS = np.random.default_rng(1).integers(0, 10, 16)
TOKENS = np.random.default_rng(2).integers(0, 50, (4, 12))


def entropy(logits, labels):
    logits = logits.astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def linen(dtype):
    """Embedding, attention, normalization and dropout, with a `TrainState`."""
    from flax import linen as nn
    from flax.training.train_state import TrainState

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, tokens, *, is_trained):
            x = nn.Embed(50, 32, param_dtype=dtype, dtype=dtype)(tokens)
            for _ in range(2):
                h = nn.LayerNorm(param_dtype=dtype, dtype=dtype)(x)
                mask = nn.make_causal_mask(tokens)
                x += nn.SelfAttention(4, param_dtype=dtype, dtype=dtype)(h, mask=mask)
                h = nn.RMSNorm(param_dtype=dtype, dtype=dtype)(x)
                h = nn.gelu(nn.Dense(64, param_dtype=dtype, dtype=dtype)(h))
                h = nn.Dropout(0.1, deterministic=not is_trained)(h)
                x += nn.Dense(32, param_dtype=dtype, dtype=dtype)(h)
            return nn.Dense(50, param_dtype=dtype, dtype=dtype)(x)

    model = Decoder()
    params = model.init(jax.random.key(0), TOKENS, is_trained=False)["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-2))

    @jax.jit
    def step(state, tokens, key):
        def loss(params):
            logits = state.apply_fn(
                {"params": params}, tokens[:, :-1], is_trained=True, rngs={"dropout": key}
            )
            return entropy(logits, tokens[:, 1:])

        value, slopes = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=slopes), value

    keys = jax.random.split(jax.random.key(1), STEPS)
    losses = []
    for key in keys:
        state, value = step(state, TOKENS, key)
        losses.append(value)
    return losses


def nnx(dtype):
    """Convolutions, batch normalization and dropout, whose state is the module's own."""
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs):
            kinds = {"param_dtype": dtype, "dtype": dtype, "rngs": rngs}
            self.taps = nnx.Conv(3, 8, (3, 3), **kinds)
            self.norm = nnx.BatchNorm(8, **kinds)
            self.drop = nnx.Dropout(0.2, rngs=rngs)
            self.last = nnx.Linear(4 * 4 * 8, 10, **kinds)

        def __call__(self, x):
            x = nnx.avg_pool(nnx.relu(self.norm(self.taps(x))), (2, 2), strides=(2, 2))
            return self.last(self.drop(x.reshape(x.shape[0], -1)))

    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, images, labels):
        value, slopes = nnx.value_and_grad(lambda model: entropy(model(images), labels))(model)
        optimizer.update(model, slopes)
        return value

    images = IMAGES.astype(dtype)
    return [step(model, optimizer, images, LABELS) for _ in range(STEPS)]


def equinox(dtype):
    """A perceptron under `filter_vmap`, and a recurrent cell under `scan`."""
    import equinox as eqx

    class Network(eqx.Module):
        cell: eqx.nn.GRUCell
        head: eqx.nn.MLP

        def __init__(self, key):
            first, second = jax.random.split(key)
            self.cell = eqx.nn.GRUCell(24, 16, dtype=dtype, key=first)
            self.head = eqx.nn.MLP(16, 10, 32, 2, dtype=dtype, key=second)

        def __call__(self, rows):
            start = jnp.zeros(16, dtype)
            last, _ = jax.lax.scan(lambda h, row: (self.cell(row, h), None), start, rows)
            return self.head(last)

    model = Network(jax.random.key(3))
    way = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))
    state = way.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, state, rows, labels):
        def loss(model):
            return entropy(eqx.filter_vmap(model)(rows), labels)

        value, slopes = eqx.filter_value_and_grad(loss)(model)
        updates, state = way.update(slopes, state, model)
        return eqx.apply_updates(model, updates), state, value

    rows, losses = ROWS.reshape(16, 8, 24).astype(dtype), []
    for _ in range(STEPS):
        model, state, value = step(model, state, rows, LABELS)
        losses.append(value)
    return losses


def keras(dtype):
    """`compile` and `fit`, which shuffles and drops out; bfloat16 beside weights of float32."""
    import keras

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else dtype)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(10, dtype="float32"),
        ]
    )
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=entropy, metrics=["accuracy"])
    fitted = model.fit(IMAGES, LABELS, batch_size=8, epochs=STEPS, verbose=0)
    return fitted.history["loss"]


def scanned(dtype):
    """All of optax's loop in one `scan`: a schedule, Adam, and averages of weights."""
    rate = optax.warmup_cosine_decay_schedule(0.0, 3e-2, 2, STEPS)
    way = optax.chain(optax.clip(1.0), optax.scale_by_adam(), optax.scale_by_learning_rate(rate))
    keys = jax.random.split(jax.random.key(5), 2)
    params = {
        "in": (jax.random.normal(keys[0], (192, 32)) / 14).astype(dtype),
        "out": (jax.random.normal(keys[1], (32, 10)) / 6).astype(dtype),
    }

    def step(carried, _):
        params, state, average = carried

        def loss(params):
            hidden = jax.nn.silu(jnp.asarray(ROWS, dtype) @ params["in"])
            return entropy(hidden @ params["out"], LABELS)

        value, slopes = jax.value_and_grad(loss)(params)
        updates, state = way.update(slopes, state, params)
        params = optax.apply_updates(params, updates)
        return (params, state, optax.incremental_update(params, average, 0.1)), value

    losses = jax.jit(lambda start: jax.lax.scan(step, start, None, length=STEPS)[1])
    return list(losses((params, way.init(params), params)))


def searched(dtype):
    """L-BFGS with a line search, whose loops end when values say so."""
    way = optax.lbfgs()
    params = jnp.zeros((192, 10), dtype)

    def loss(params):
        return entropy(jnp.asarray(ROWS, dtype) @ params, LABELS) + 1e-2 * jnp.sum(params**2)

    @jax.jit
    def step(params, state):
        value, slopes = optax.value_and_grad_from_state(loss)(params, state=state)
        updates, state = way.update(slopes, state, params, value=value, grad=slopes, value_fn=loss)
        return optax.apply_updates(params, updates), state, value

    state, losses = way.init(params), []
    for _ in range(STEPS):
        params, state, value = step(params, state)
        losses.append(value)
    return losses


LOOPS = {one.__name__: one for one in (linen, nnx, equinox, keras, scanned, searched)}


if __name__ == "__main__":
    found = LOOPS[sys.argv[1]](sys.argv[2])
    answer = {"device": jax.devices()[0].platform, "losses": [float(one).hex() for one in found]}
    print("ANSWER" + json.dumps(answer))
