"""A Llama-shaped step of two layers, those of all layers in one `scan`."""

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, BATCH, TOKENS, WIDTH, HEADS, VOCABULARY, HIDDEN = 2, 2, 16, 32, 4, 64, 48
SHAPES = {
    "norm": (WIDTH,),
    "last": (WIDTH,),
    **dict.fromkeys(("q", "k", "v", "o"), (WIDTH, WIDTH)),
    **dict.fromkeys(("gate", "up"), (WIDTH, HIDDEN)),
    "down": (HIDDEN, WIDTH),
}
RATE = 0.1


def parameters(dtype=np.float32):
    """Parameters, those of all layers together."""
    rng = np.random.default_rng(5)
    layers = {
        name: (rng.standard_normal((LAYERS, *shape)) * 0.2).astype(dtype)
        for name, shape in SHAPES.items()
    }
    table = (rng.standard_normal((VOCABULARY, WIDTH)) * 0.2).astype(dtype)
    return {"table": table, "layers": layers}


def tokens():
    """Tokens of each sequence, and the one after."""
    return np.random.default_rng(6).integers(0, VOCABULARY, (BATCH, TOKENS + 1)).astype(np.int32)


def norm(x, weight):
    """``x / sqrt(mean(x * x))`` times a weight."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(jnp.square(wide), -1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + 1e-5)).astype(x.dtype) * weight


def layer(x, weights):
    """Attention and a gated network, each beside what it reads."""
    with jax.named_scope("attention"):
        h = norm(x, weights["norm"])
        q, k, v = (
            (h @ weights[name]).reshape(BATCH, TOKENS, HEADS, -1).swapaxes(1, 2) for name in "qkv"
        )
        scores = q @ k.swapaxes(-1, -2) * (WIDTH / HEADS) ** -0.5
        seen = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
        shares = jax.nn.softmax(jnp.where(seen, scores, -1e9).astype(jnp.float32))
        mixed = (shares.astype(x.dtype) @ v).swapaxes(1, 2).reshape(BATCH, TOKENS, WIDTH)
        x = x + mixed @ weights["o"]
    with jax.named_scope("network"):
        h = norm(x, weights["last"])
        return x + (jax.nn.silu(h @ weights["gate"]) * (h @ weights["up"])) @ weights["down"]


def loss(params, given, *, is_remat):
    """The mean logarithm of what comes next."""
    step = jax.checkpoint(layer) if is_remat else layer
    x, _ = jax.lax.scan(
        lambda x, weights: (step(x, weights), None),
        params["table"][given[:, :-1]],
        params["layers"],
    )
    logits = (x @ params["table"].T).astype(jnp.float32)
    logs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logs, given[:, 1:, None], -1))


def step(params, given, *, is_remat=False):
    """The loss, and the parameters after a step of gradient descent."""
    value, slope = jax.value_and_grad(loss)(params, given, is_remat=is_remat)
    return value, jax.tree.map(lambda p, g: p - (RATE * g).astype(p.dtype), params, slope)
