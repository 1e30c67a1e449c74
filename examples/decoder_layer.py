"""One decoder layer of a language model for the next token, spread over ranks (tensor parallel).

Each rank has some heads of the attention with their cache of keys and values, and some columns of
the MLP; all_reduce adds up what they contribute to the hidden state, once after each. That of the
MLP can go out in parts: while one is exchanged, the Tensor Engine computes the next, which pays
where a part's products take longer than an exchange takes to start. With LNC=2 the two cores of a
rank share its work, and core_barrier stands where one needs what the other wrote.

Sizes are those of Llama 3.2 1B, in float32. Run it: python examples/decoder_layer.py
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

BATCH, CONTEXT, HIDDEN, INNER = 32, 128, 2048, 8192
HEADS, KV_HEADS, HEAD = 32, 8, 64
EPSILON = 1e-5
ROWS, COLUMNS = 128, 512  # of the weights that one nc_matmul reads


@nki.jit
def decoder_layer(
    x, norms, wq, wk, wv, wo, w_gate, w_up, w_down, keys, values, cos, sin, ranks, parts
):
    """The hidden state [batch, hidden] after the layer, of one new token of each sequence.

    Args:
        x: the hidden state before it, the same on all ranks.
        norms: the scales of both norms, [2, hidden].
        wq, wk, wv, w_gate, w_up: this rank's columns of the weights.
        wo, w_down: this rank's rows of the weights.
        keys: the cache, [kv heads, head, batch, context]; the new token's place is the last, and
            is filled in SBUF alone.
        values: the cache, [kv heads, context, batch, head].
        cos, sin: of the angles at the new token's position, [batch, head / 2].
        ranks: how many share the layer.
        parts: in how many parts the all_reduce after the MLP goes out.
    """
    everyone = ncc.ReplicaGroup([list(range(ranks))])
    cos, sin = nl.load(cos), nl.load(sin)
    state = nl.load(x)
    heads = attention(normalized(state, norms[0:1]), wq, wk, wv, keys, values, cos, sin)
    heads = of_both_cores(heads, "heads")
    state = nl.add(state, summed(heads, wo, everyone, 1, "attention"))
    inner = of_both_cores(mlp(normalized(state, norms[1:2]), w_gate, w_up), "inner")
    state = nl.add(state, summed(inner, w_down, everyone, parts, "mlp"))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    own = share(x.shape[1])
    nisa.dma_copy(dst=out[:, own], src=state[:, own])
    return out


def share(length):
    """This core's part of `length`: all of it with LNC=1, a half with LNC=2."""
    size = length // nl.num_programs()
    return slice(nl.program_id(0) * size, (nl.program_id(0) + 1) * size)


def of_both_cores(tiles, name):
    """The tiles of core 0 and then those of core 1, which each writes to HBM for the other."""
    cores = nl.num_programs()
    if cores == 1:
        return tiles
    every = nl.ndarray(
        (cores, len(tiles), *tiles[0].shape), dtype=nl.float32, buffer=nl.shared_hbm, name=name
    )
    for number, tile in enumerate(tiles):
        nisa.dma_copy(dst=every[nl.program_id(0), number], src=tile)
    nisa.core_barrier(every, (0, 1))
    return [nl.load(every[core, number]) for core in range(cores) for number in range(len(tiles))]


def summed(left_t, right, everyone, parts, name):
    """The sum over ranks of left @ right, where left comes transposed, in tiles."""
    width = right.shape[1] // parts
    totals = []
    for part in range(parts):
        shape = (left_t[0].shape[1], width)
        addend = nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm, name=f"{name}{part}")
        total = nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm, name=f"{name}{part}_total")
        own = share(width)
        columns = slice(part * width + own.start, part * width + own.stop)
        nisa.dma_copy(dst=addend[:, own], src=product(left_t, right, columns))
        if nl.num_programs() == 2:
            nisa.core_barrier(addend, (0, 1))
        ncc.all_reduce([addend], [total], everyone, nl.add)
        totals.append(total)
    result = nl.ndarray((left_t[0].shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for part, total in enumerate(totals):
        nisa.dma_copy(dst=result[:, part * width : (part + 1) * width], src=total)
    return result


def product(left_t, right, columns):
    """left @ right[:, columns] on this core, where left comes transposed, in tiles."""
    depth, rows = left_t[0].shape
    result = nl.ndarray((rows, columns.stop - columns.start), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(columns.start, columns.stop, COLUMNS):
        last = min(first + COLUMNS, columns.stop)
        total = nl.ndarray((rows, last - first), dtype=nl.float32, buffer=nl.psum)
        for number, tile in enumerate(left_t):
            weights = nl.load(right[number * depth : (number + 1) * depth, first:last])
            nisa.nc_matmul(dst=total, stationary=tile, moving=weights)
        nisa.tensor_copy(dst=result[:, first - columns.start : last - columns.start], src=total)
    return result


def normalized(state, scale):
    """The RMS norm of each row, transposed for products."""
    rows, width = state.shape
    scales = nl.load(scale.ap(pattern=[[0, rows], [1, width]]))  # the one row for every partition
    return transposed(nl.rms_norm(state, scales, axis=1, n=width, epsilon=EPSILON))


def transposed(x):
    """Tiles of 128 columns of x, transposed by the Tensor Engine: [128, batch] each."""
    return [nl.copy(nl.transpose(x[:, at : at + ROWS])) for at in range(0, x.shape[1], ROWS)]


def mlp(x_t, w_gate, w_up):
    """silu(x @ w_gate) * (x @ w_up) for this core's columns, transposed."""
    own = share(w_gate.shape[1])
    return transposed(nl.multiply(nl.silu(product(x_t, w_gate, own)), product(x_t, w_up, own)))


def attention(x_t, wq, wk, wv, keys, values, cos, sin):
    """What this core's heads give, transposed: [head, batch] each."""
    kv_heads, head = keys.shape[:2]
    heads = share(wq.shape[1] // head)
    group = wq.shape[1] // head // kv_heads  # query heads that share a head of keys and values
    found = []
    for kv in range(heads.start // group, (heads.stop - 1) // group + 1):
        own = slice(kv * head, (kv + 1) * head)
        key, value = rotated(product(x_t, wk, own), cos, sin), product(x_t, wv, own)
        first, last = max(heads.start, kv * group), min(heads.stop, (kv + 1) * group)
        rows = product(x_t, wq, slice(first * head, last * head))
        queries = [
            rotated(rows[:, at : at + head], cos, sin) for at in range(0, rows.shape[1], head)
        ]
        found += attended(queries, key, value, keys[kv], values[kv])
    return found


def rotated(x, cos, sin):
    """The rotary embedding of x, [batch, head], whose halves are the axes of a turn."""
    half = x.shape[1] // 2
    left, right = x[:, :half], x[:, half:]
    turned = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    new_left = nl.subtract(nl.multiply(left, cos), nl.multiply(right, sin))
    new_right = nl.add(nl.multiply(right, cos), nl.multiply(left, sin))
    nisa.tensor_copy(dst=turned[:, :half], src=new_left)
    nisa.tensor_copy(dst=turned[:, half:], src=new_right)
    return turned


def attended(queries, key, value, keys, values):
    """What the queries find in older keys and values and those of the new token, transposed."""
    head, batch, context = keys.shape
    group = len(queries)
    keys, values = nl.load(keys), nl.load(values)
    nisa.tensor_copy(dst=keys[:, :, context - 1], src=nl.transpose(key))
    nisa.dma_copy(dst=values[context - 1 : context], src=value)
    queries_t = nl.ndarray((head, batch, group), dtype=nl.float32, buffer=nl.sbuf)
    for number, query in enumerate(queries):
        nisa.tensor_copy(dst=queries_t[:, :, number], src=nl.transpose(query))
    # Each sequence has its own keys and so its own product; the softmax is one for all rows.
    scores = nl.ndarray((context, batch, group), dtype=nl.float32, buffer=nl.psum)
    for one in range(batch):
        nisa.nc_matmul(dst=scores[:, one], stationary=keys[:, one], moving=queries_t[:, one])
    scores = nl.multiply(scores, head**-0.5).reshape((context, batch * group))
    weights = nl.softmax(nl.transpose(scores), axis=1)
    weights_t = nl.copy(nl.transpose(weights)).reshape((context, batch, group))
    outputs = nl.ndarray((head, batch, group), dtype=nl.float32, buffer=nl.psum)
    for one in range(batch):
        nisa.nc_matmul(dst=outputs[:, one], stationary=values[:, one], moving=weights_t[:, one])
    return [nl.copy(outputs[:, :, number]) for number in range(group)]


@cache
def layer():
    """The arguments of the layer as a whole, by name, each with the axis that ranks divide."""
    rng = np.random.default_rng(0)

    def normal(*shape, scale):
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    angles = (CONTEXT - 1) / 500_000 ** (np.arange(HEAD // 2) / (HEAD // 2))
    turns = np.tile(angles, (BATCH, 1))
    return {
        "x": (normal(BATCH, HIDDEN, scale=1), None),
        "norms": (1 + normal(2, HIDDEN, scale=0.1), None),
        "wq": (normal(HIDDEN, HEADS * HEAD, scale=HIDDEN**-0.5), 1),
        "wk": (normal(HIDDEN, KV_HEADS * HEAD, scale=HIDDEN**-0.5), 1),
        "wv": (normal(HIDDEN, KV_HEADS * HEAD, scale=HIDDEN**-0.5), 1),
        "wo": (normal(HEADS * HEAD, HIDDEN, scale=HIDDEN**-0.5), 0),
        "w_gate": (normal(HIDDEN, INNER, scale=HIDDEN**-0.5), 1),
        "w_up": (normal(HIDDEN, INNER, scale=HIDDEN**-0.5), 1),
        "w_down": (normal(INNER, HIDDEN, scale=INNER**-0.5), 0),
        "keys": (normal(KV_HEADS, HEAD, BATCH, CONTEXT, scale=1), 0),
        "values": (normal(KV_HEADS, CONTEXT, BATCH, HEAD, scale=1), 0),
        "cos": (np.cos(turns).astype(np.float32), None),
        "sin": (np.sin(turns).astype(np.float32), None),
    }


def run(ranks=8, lnc=1, parts=2, instance="trn2.48xlarge"):
    """The world of the layer on so many ranks of `lnc` cores."""

    def inputs(rank):
        own = {
            name: whole if axis is None else np.split(whole, ranks, axis)[rank]
            for name, (whole, axis) in layer().items()
        }
        return own | {"ranks": ranks, "parts": parts}

    return trnsim.run(decoder_layer[lnc], ranks=ranks, inputs=inputs, instance=instance)


if __name__ == "__main__":
    (alone,) = run(ranks=1).outputs
    for lnc in (1, 2):
        for parts in (1, 2):
            world = run(lnc=lnc, parts=parts)
            for out in world.outputs:
                np.testing.assert_allclose(out, alone, rtol=1e-5, atol=1e-5)
            print(f"{world.title}, parts={parts}: {world.total_time_s * 1e6:.1f} us")
    print(world.report("decoder_layer.html"))
