"""A Llama of two layers, trained on eight cores: FSDP x TP, the vocabulary split as well.

    NEURON_RT_NUM_CORES=8 trnsim run examples/llama_sharded_jax.py --report here

Each parameter lies in parts on all cores. Before a layer computes, its weights are gathered over
the axis "fsdp", along which the batch is split; over "tp" heads and columns stay apart. `jit` works
out the rest, and the report lists what the cores exchange.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 2, 48, 12, 96, 192
BATCH, TOKENS = 8, 16
RATE, MOMENTUM = 0.05, 0.9
COLUMNS, ROWS = P(None, "fsdp", "tp"), P(None, "tp", "fsdp")
SPLIT = {
    **dict.fromkeys(("attention_norm", "network_norm"), P()),
    **dict.fromkeys(("q", "k", "v", "gate", "up"), COLUMNS),
    **dict.fromkeys(("o", "down"), ROWS),
}
"""How the parameters of all layers together lie: [layer, rows, columns]."""
PLACES = {"table": P("tp", "fsdp"), "layers": SPLIT}


def mesh_of(fsdp, tp):
    """A mesh of the first devices."""
    return Mesh(np.array(jax.devices()[: fsdp * tp]).reshape(fsdp, tp), ("fsdp", "tp"))


def placed(mesh, places):
    """Shardings over a mesh."""
    return jax.tree.map(lambda one: NamedSharding(mesh, one), places)


def parameters():
    """Parameters, those of all layers together."""
    rng, shapes = np.random.default_rng(1), dict.fromkeys("qkvo", (WIDTH, WIDTH))
    shapes |= dict.fromkeys(("gate", "up"), (WIDTH, HIDDEN)) | {"down": (HIDDEN, WIDTH)}
    layers = {name: rng.normal(0, 0.1, (LAYERS, *shape)) for name, shape in shapes.items()}
    norms = dict.fromkeys(("attention_norm", "network_norm"), np.ones((LAYERS, WIDTH)))
    table = rng.normal(0, 0.1, (VOCABULARY, WIDTH))
    return jax.tree.map(np.float32, {"table": table, "layers": layers | norms})


def batches(count):
    """Sequences of tokens, each of a few that follow one another."""
    first = np.random.default_rng(2).integers(0, VOCABULARY, (count, BATCH, 1))
    return ((first + 5 * np.arange(TOKENS + 1)) % VOCABULARY).astype(np.int32)


def norm(x, weight):
    """`x` over the root of the mean of its squares, times a weight."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * weight


def rotated(x):
    """Queries or keys, [batch, heads, tokens, 2 n], turned by their places."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[2])[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    left, right, cos, sin = x[..., :half], x[..., half:], jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def attention(x, weights):
    """Causal attention."""
    q, k, v = (
        (x @ weights[name]).reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for name in "qkv"
    )
    scores = rotated(q) @ rotated(k).swapaxes(-1, -2) * (WIDTH / HEADS) ** -0.5
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    shares = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    return (shares @ v).swapaxes(1, 2).reshape(x.shape) @ weights["o"]


def network(x, weights):
    """The gated network."""
    return (jax.nn.silu(x @ weights["gate"]) * (x @ weights["up"])) @ weights["down"]


def loss_of(params, tokens, keep):
    """The mean cross entropy of the next token; `keep` says how a tensor is to lie."""

    def layer(x, weights):
        gathered = {name: [None if n == "fsdp" else n for n in SPLIT[name][1:]] for name in weights}
        weights = {name: keep(one, P(*gathered[name])) for name, one in weights.items()}
        with jax.named_scope("attention"):
            x = keep(x + attention(norm(x, weights["attention_norm"]), weights), P("fsdp"))
        with jax.named_scope("network"):
            x = keep(x + network(norm(x, weights["network_norm"]), weights), P("fsdp"))
        return x, None

    table = keep(params["table"], P("tp"))
    x, _ = jax.lax.scan(layer, keep(table[tokens[:, :-1]], P("fsdp")), params["layers"])
    with jax.named_scope("loss"):
        logs = jax.nn.log_softmax(keep(x @ table.T, P("fsdp", None, "tp")))
        return -jnp.mean(jnp.take_along_axis(logs, tokens[:, 1:, None], -1))


def step(state, tokens, keep=lambda x, _: x):
    """Parameters and momentum after one step, and the loss before it."""
    params, speed = state
    loss, slope = jax.value_and_grad(loss_of)(params, tokens, keep)
    speed = jax.tree.map(lambda v, g: MOMENTUM * v + g, speed, slope)
    return (jax.tree.map(lambda p, v: p - RATE * v, params, speed), speed), loss


def step_over(mesh):
    """The step compiled over a mesh, the state on it, and how tokens lie there."""
    places, rows = placed(mesh, PLACES), NamedSharding(mesh, P("fsdp"))

    def split_step(state, tokens):
        return step(
            state, tokens, lambda x, at: jax.lax.with_sharding_constraint(x, placed(mesh, at))
        )

    results = ((places, places), NamedSharding(mesh, P()))
    params = jax.device_put(parameters(), places)
    state = params, jax.tree.map(jnp.zeros_like, params)
    return jax.jit(split_step, in_shardings=((places, places), rows), out_shardings=results), state


def main():
    """Ten steps."""
    train, state = step_over(mesh_of(len(jax.devices()) // 2, 2))
    losses = list[float]()
    for tokens in batches(10):
        state, loss = train(state, tokens)
        losses.append(float(loss))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {len(jax.devices())} devices")


if __name__ == "__main__":
    main()
