"""Instructions that sort and search: for each family a legal step of it. As `computing`."""

from __future__ import annotations

import numpy as np
from formats import FLOATS, INTEGERS
from kernel import Step
from maker import V3


def _data(g):
    P, F = g.pick(g.partitions), g.pick((8, 9, 24, 64))
    return P, F, g.filled((P, F), g.pick(FLOATS[:4] + INTEGERS))


def max8(g):
    """And where the eight are, now and then."""
    P, _, data = _data(g)
    dst = g.alloc((P, 8), "float32")
    if g.do(Step("max8", {"dst": dst, "src": data})) and g.chance(0.7):
        found = g.alloc((P, 8), g.pick(("uint16", "uint32")))
        g.do(Step("nc_find_index8", {"dst": found, "data": data, "vals": dst}))


def nc_match_replace8(g):
    """The eight largest, replaced by a number that may be one of them; in place now and then."""
    P, F, data = _data(g)
    vals = g.alloc((P, 8), "float32")
    if not g.do(Step("max8", {"dst": vals, "src": data})):
        return
    name = g.oracle.format(data).name
    dst = data if g.chance(0.2) else g.alloc((P, F), g.pick((name, "float32")))
    largest = g.oracle.tensor(vals).values.high
    imm = float(g.pick(largest)) if g.chance(0.3) else g.number()
    args = {"dst": dst, "data": data, "vals": vals, "imm": imm}
    if g.chance(0.6):
        args["dst_idx"] = g.alloc((P, 8), g.pick(("uint16", "uint32", "int32")))
    g.do(Step("nc_match_replace8", args))


def topk(g):
    P, columns = g.pick((16, 32, 64, 128)), g.pick((1, 2, 3, 8))
    n = int(g.rng.integers(8, 16 * columns + 1))
    K = int(g.rng.integers(1, n + 1))
    args = {
        "val_dst": g.alloc((P, K), "bfloat16"),
        "idx_dst": g.alloc((P, K), "uint32"),
        "src": g.filled((P, columns), "bfloat16"),
        "n": n,
    }
    g.do(Step("topk", args))


def nonzero_with_count(g):
    if g.generation < V3:
        return
    P, F = g.pick((1, 16, 17, 32, 64, 128)), g.pick(g.columns)
    name = g.pick(("float32", "int32"))
    src = g.filled((P, F), name)
    if g.chance(0.6):
        values = g.rng.integers(-1, 2, (P, F)).astype(name)
        src = g.given(values, name)
    dst = g.alloc((P, F + 1), "int32")
    g.do(Step("memset", {"dst": dst, "value": 5}))
    args = {"dst": dst, "src": src}
    if g.chance(0.5):
        args |= {"index_offset": g.pick((16, -3, 1 << 20)), "padding_val": g.pick((0, 99))}
    g.do(Step("nonzero_with_count", args))


def sequence_bounds(g):
    """Segments one after the other, with padding anywhere between them."""
    lengths = g.rng.integers(1, 6, int(g.rng.integers(1, 8)))
    names = [0 if g.chance(0.2) else number + 1 for number in range(len(lengths))]
    ids = np.repeat(names, lengths)[None]
    name = g.pick(("float32", "int32"))
    dst = g.alloc((1, 2, ids.shape[1]), g.pick(("float32", "int32")))
    g.do(Step("sequence_bounds", {"dst": dst, "segment_ids": g.given(ids.astype(name), name)}))
