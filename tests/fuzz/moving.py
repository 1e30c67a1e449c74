"""Instructions that move, choose and find, and control: for each family a legal step of it.

As `computing`.
"""

from __future__ import annotations

from formats import FLOATS, FORMATS, INTEGERS
from kernel import At, Line, Loop, Name, Step, op
from maker import ANY, SBUF, V3, binary, command, engine, one_in_psum
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


# Searches, gathers, statistics


def max8(g):
    """And where the eight are, now and then."""
    P, F = g.pick(g.partitions), g.pick((8, 9, 24, 64))
    data, dst = g.filled((P, F), g.pick(FLOATS[:1] + INTEGERS)), g.alloc((P, 8), "float32")
    if g.do(Step("max8", {"dst": dst, "src": data})) and g.chance(0.7):
        found = g.alloc((P, 8), g.pick(("uint16", "uint32")))
        g.do(Step("nc_find_index8", {"dst": found, "data": data, "vals": dst}))


def bn_stats(g):
    P, F = g.size()
    count = g.pick((1, 1, 2))
    stats = g.alloc((P, 6 * count), "float32")
    for i in range(count):
        part = stats.then("[]", slice(0, P), slice(6 * i, 6 * i + 6))
        if not g.do(Step("bn_stats", {"dst": part, "data": g.read(P, F, ANY)})):
            return
    g.do(Step("bn_aggr", {"dst": g.write(P, 2, FLOATS), "data": stats}))


def _indices(g, shape, name, limit):
    """A tile of indices, below a limit."""
    view = g.alloc(shape, name)
    array = g.array(shape, name)
    values = g.rng.integers(0, limit, shape).astype(name)
    g.inputs[array.tensor] = (values, name)
    tensor = g.oracle.tensors[array.tensor]
    tensor.values = type(tensor.values)(values.reshape(-1).astype(float))
    g.do(Step("dma_copy", {"dst": view, "src": array}))
    return view


def nc_n_gather(g):
    P, F = g.size()
    count = g.pick(g.columns)
    name = g.pick(g.formats)
    args = {"data": g.read(P, F, (name,), SBUF), "indices": _indices(g, (P, count), "uint32", F)}
    g.do(Step("nc_n_gather", {"dst": g.write(P, count, (name,), SBUF), **args}))


def local_gather(g):
    P, columns, each = g.pick((16, 32, 64, 128)), g.pick((1, 2, 3)), g.pick((1, 2, 4))
    F = g.pick(g.columns) + each
    name = g.pick(f for f in g.formats if FORMATS[f].itemsize > 1)
    count = g.pick((16 * columns, 16 * columns - 5))
    data, index = g.filled((P, F), name), _indices(g, (P, columns), "uint16", F - each + 1)
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


# Control


def loop(g):
    """A loop over parts of a tile; its variable is a number or a register."""
    P, F = g.size()
    count = g.pick((2, 3, 4))
    src = g.filled((P, count * F), g.pick(f for f in g.formats if f in ANY))
    dst = (
        src if g.chance(0.3) else g.alloc((P, count * F), g.pick(("float32", "bfloat16", "int32")))
    )
    kind = g.pick(("range", "nl.affine_range", "nl.static_range", "nl.dynamic_range"))
    here = slice(0, P), At("i", F, F)
    args = {"dst": dst.then("[]", *here), "data": src.then("[]", *here)}
    args |= {"op0": op(binary(g)), "operand0": g.number(), "engine": engine("vector")}
    g.do(Loop("i", count, kind, (Step("tensor_scalar", args),)))


def register(g):
    """A register, set by a number or from memory, that indexes a tile."""
    P, F = g.size()
    count, name = g.pick((2, 3)), g.name("r")
    at = int(g.rng.integers(0, count))
    g.do(Line(f"{name} = nisa.register_alloc({at})", "register", {"name": name, "value": at}))
    if g.chance(0.5):
        cell = _indices(g, (1, 1), "int32", count)
        args = {"name": name, "src": cell}
        g.do(Line(f"nisa.register_load({name}, {cell})", "register_load", args))
    src, dst = g.filled((P, count * F), "float32"), g.write(P, F, ANY, SBUF)
    part = src.then("[]", slice(0, P), At(name, F, F))
    g.do(Step("tensor_copy", {"dst": dst, "src": part, "engine": engine("vector")}))
    if g.chance(0.5):
        cell = g.alloc((1, 1), g.pick(("int32", "float32")))
        args = {"dst": cell, "name": name}
        g.do(Line(f"nisa.register_store({cell}, {name})", "register_store", args))


def exchange(g):
    """Each core writes its half of a tensor in shared HBM, and reads the other's (LNC=2)."""
    P, F = g.size()
    name = g.pick(g.formats)
    tile = g.filled((P, F), name)
    text = f"""\
rank = nl.program_id(0)
mail = nl.ndarray((2, {P}, {F}), dtype=nl.{name}, buffer=nl.shared_hbm)
nisa.dma_copy(dst=mail[rank], src={tile})
nisa.core_barrier(mail, (0, 1))
nisa.dma_copy(dst={tile}, src=mail[1 - rank])"""
    g.do(Line(text, "exchange", {"tile": tile}))


def gather(g):
    """Rows of a tensor in HBM, by a column of indices in SBUF."""
    if g.generation < V3:
        return
    P, F = g.size()
    rows, name = g.pick(g.partitions), g.pick(f for f in g.formats if f != "tfloat32")
    index = _indices(g, (P, 1), g.pick(("int32", "uint32")), rows)
    source = g.array((rows, F), name).then("vector_select", 0, Name(str(index)))
    g.do(Step("dma_copy", {"dst": g.alloc((P, F), name), "src": source}))


def reinterpret(g):
    """The bits of a tensor as integers."""
    P, F = g.size()
    name, seen = g.pick((("float32", "int32"), ("bfloat16", "uint16"), ("int32", "uint8")))
    method = g.pick(("view", "reinterpret_cast"))
    source = g.filled((P, F), name).then(method, Name(f"nl.{seen}"))
    width = F * FORMATS[name].itemsize // FORMATS[seen].itemsize
    args = {"dst": g.write(P, width, (seen,), SBUF), "data": source, "op0": op("bitwise_and")}
    g.do(Step("tensor_scalar", args | {"operand0": g.pick((1, 127, 255))}))
