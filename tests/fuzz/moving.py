"""Instructions that move and choose: for each family a legal step of it.

As `computing`.
"""

from __future__ import annotations

from formats import FLOATS, FORMATS
from kernel import Name, Step, op
from maker import ANY, SBUF, V3, command, engine, one_in_psum
from operators import COMPARISONS

# Copies


def dma_copy(g):
    P, F = g.size()
    formats = (g.pick(g.formats),) if g.chance(0.5) else g.formats
    source = g.read(P, F, formats, SBUF)
    if g.chance(0.5):
        dst = g.write(P, F, formats, SBUF)
    else:
        dst = g.alloc((P, F), g.pick(formats), "private_hbm")
        if g.do(Step("dma_copy", {"dst": dst, "src": source})):
            dst, source = g.write(P, F, formats, SBUF), dst
    g.do(Step("dma_copy", {"dst": dst, "src": source}))


def tensor_copy(g):
    P, F = g.size()
    named = g.pick((None, "vector", "gpsimd", *(("scalar",) if g.generation >= V3 else ())))
    memories = SBUF if named == "gpsimd" else ("sbuf", "psum")
    args = {"dst": g.write(P, F, g.formats, memories), "src": g.read(P, F, g.formats, memories)}
    g.do(Step("tensor_copy", args | ({"engine": engine(named)} if named else {})))


def dma_compute(g):
    """A sum of tensors in SBUF and HBM, in formats of their own."""
    P, F = g.size()
    srcs = [
        g.read(P, F, ANY, SBUF) if g.chance(0.6) else g.array((P, F), g.pick(g.formats))
        for _ in range(g.pick((1, 2, 2, 3)))
    ]
    args = {"dst": g.write(P, F, ANY, SBUF), "srcs": srcs, "reduce_op": op("add")}
    g.do(Step("dma_compute", args))


def memset(g):
    P, F = g.size()
    dst = g.write(P, F, ANY)
    value = g.number() if FORMATS[g.oracle.format(dst).name].is_float else g.pick((0, 1, 7))
    g.do(Step("memset", {"dst": dst, "value": value}))


def nc_transpose(g):
    limit = g.pick((32, 128))
    P, F = (min(n, limit) for n in g.size())
    name = g.pick(f for f in g.formats if f in ANY and (limit == 32 or FORMATS[f].itemsize > 1))
    memories = (SBUF, ("psum",)) if limit == 128 else (SBUF, SBUF)
    args = {"dst": g.write(F, P, (name,), memories[1]), "data": g.read(P, F, (name,), memories[0])}
    g.do(Step("nc_transpose", args))


def dma_transpose(g):
    P, F = g.size()
    name = g.pick(f for f in g.formats if FORMATS[f].itemsize > 1)
    if g.chance(0.5):
        src, dst = g.filled((P, F), name), g.alloc((F, P), name)
    else:
        a, b, c = (int(n) for n in g.rng.integers(1, 6, 3))
        src, dst = g.filled((a, b, c, P), name), g.alloc((P, b, c, a), name)
    g.do(Step("dma_transpose", {"dst": dst, "src": src}))


def nc_stream_shuffle(g):
    P, F = g.size()
    name = g.pick(g.formats)
    rows = g.rng.integers(0, min(P % 32 or 32, 32), 32)
    mask = [255 if g.chance(0.1) else int(row) for row in rows]
    args = {"dst": g.filled((P, F), name), "src": g.filled((P, F), name), "shuffle_mask": mask}
    g.do(Step("nc_stream_shuffle", args))


# Patterns and choices


def _pattern(g, F):
    inner = g.pick(n for n in range(1, F + 1) if F % n == 0)
    steps = [int(n) for n in g.rng.integers(-20, 21, 2)]
    return [[steps[0], F // inner], [steps[1], inner]] if g.chance(0.5) else [[steps[0], F]]


def iota(g):
    P, F = g.size()
    args = {"dst": g.write(P, F, ANY, SBUF), "pattern": _pattern(g, F)}
    args |= {"offset": g.pick((0, 3, -100, 1 << 20)), "channel_multiplier": g.pick((0, 1, -7))}
    g.do(Step("iota", args))


def affine_select(g):
    P, F = g.size()
    args = {
        "dst": g.write(P, F, ANY, SBUF),
        "pattern": _pattern(g, F),
        "channel_multiplier": g.pick((0, 1, -7)),
        "on_true_tile": g.read(P, F, ANY, SBUF),
        "on_false_value": g.number(),
        "cmp_op": op(g.pick((*COMPARISONS, "not_equal"))),
        "offset": g.pick((0, 3, -10)),
    }
    g.do(Step("affine_select", args))


def range_select(g):
    if g.generation < V3:
        return
    P, F = g.size()
    args = {
        "dst": g.write(P, F, FLOATS),
        "on_true_tile": g.read(P, F, FLOATS),
        "comp_op0": op(g.pick(COMPARISONS)),
        "comp_op1": op(g.pick(COMPARISONS)),
        "bound0": g.read(P, 1, ("float32",)),
        "bound1": g.read(P, 1, ("float32",)),
        "range_start": g.pick((0, 5, -3)),
    }
    if g.chance(0.5):
        args["reduce_res"] = g.write(P, 1, FLOATS)
    g.do(Step("range_select", args))


def select_reduce(g):
    P, F = g.size()
    first, second = one_in_psum(g)
    formats = tuple(f for f in ANY if f not in {"tfloat32", "int32", "uint32"})
    args = {
        "dst": g.write(P, F, ANY),
        "predicate": g.read(P, F, ("int8", "uint8", "int16", "uint16"), first),
        "on_true": g.read(P, F, formats, second),
        "on_false": g.column(P),
        "reverse_pred": g.chance(0.3),
    }
    if g.chance(0.5):
        args |= {"reduce_res": g.write(P, 1, FLOATS), "reduce_cmd": command("reset_reduce")}
    g.do(Step("select_reduce", args))


def tensor_copy_predicated(g):
    P, F = g.size()
    first, second = one_in_psum(g)
    name = g.pick(f for f in g.formats if f in ANY)
    dst = g.filled((P, F), name)
    is_number = g.chance(0.3) and FORMATS[name].is_float
    args = {
        "dst": dst,
        "src": g.number() if is_number else g.read(P, F, (name,), first),
        "predicate": g.read(P, F, ("uint8", "uint16", "uint32"), second),
        "reverse_pred": g.chance(0.3),
    }
    g.do(Step("tensor_copy_predicated", args))


# Gathers and statistics


def bn_stats(g):
    P, F = g.size()
    count = g.pick((1, 1, 2))
    stats = g.alloc((P, 6 * count), "float32")
    for i in range(count):
        part = stats.then("[]", slice(0, P), slice(6 * i, 6 * i + 6))
        if not g.do(Step("bn_stats", {"dst": part, "data": g.read(P, F, ANY)})):
            return
    g.do(Step("bn_aggr", {"dst": g.write(P, 2, FLOATS), "data": stats}))


def nc_n_gather(g):
    P, F = g.size()
    count = g.pick(g.columns)
    name = g.pick(g.formats)
    args = {"data": g.read(P, F, (name,), SBUF), "indices": g.indices((P, count), "uint32", F)}
    g.do(Step("nc_n_gather", {"dst": g.write(P, count, (name,), SBUF), **args}))


def local_gather(g):
    P, columns, each = g.pick((16, 32, 64, 128)), g.pick((1, 2, 3)), g.pick((1, 2, 4))
    F = g.pick(g.columns) + each
    name = g.pick(f for f in g.formats if FORMATS[f].itemsize > 1)
    count = g.pick((16 * columns, 16 * columns - 5))
    data, index = g.filled((P, F), name), g.indices((P, columns), "uint16", F - each + 1)
    first, second = (g.oracle.tensor(view).address or (0, 0) for view in (data, index))
    if first[0] != second[0]:
        return
    args = {
        "dst": g.alloc((P, count * each), name),
        "src_buffer": data,
        "index": index,
        "num_elem_per_idx": each,
        "num_valid_indices": count,
    }
    g.do(Step("local_gather", args))


def reinterpret(g):
    """The bits of a tensor as integers."""
    P, F = g.size()
    name, seen = g.pick((("float32", "int32"), ("bfloat16", "uint16"), ("int32", "uint8")))
    method = g.pick(("view", "reinterpret_cast"))
    source = g.filled((P, F), name).then(method, Name(f"nl.{seen}"))
    width = F * FORMATS[name].itemsize // FORMATS[seen].itemsize
    args = {"dst": g.write(P, width, (seen,), SBUF), "data": source, "op0": op("bitwise_and")}
    g.do(Step("tensor_scalar", args | {"operand0": g.pick((1, 127, 255))}))
