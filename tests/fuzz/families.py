"""One function for each family of instructions: a legal step of it, with random operands.

Each takes a `Maker` and writes a step, unless its generation has not got the instruction. What is
legal is AWS's page of the instruction in nki.isa.
"""

from __future__ import annotations

from formats import FLOATS, FORMATS, INTEGERS
from kernel import At, Line, Loop, Name, Step
from maker import command, engine, op
from operators import (
    ACTIVATIONS,
    BINARY,
    BITVEC,
    COMPARISONS,
    NEWEST,
    UNARY,
)

SBUF = ("sbuf",)
ANY = (*FLOATS, *INTEGERS)
_CUMULATIVE = tuple(f for f in ANY if f not in {"tfloat32", "int32", "uint32"})
_V3, _V4 = 3, 4


def _one_in_psum(g):
    """Memories of two inputs, of which at most one may be in PSUM."""
    return g.pick(((SBUF, SBUF), (SBUF, ("psum",)), (("psum",), SBUF)))


def _binary(g):
    return g.pick(n for n in BINARY if n != "power" and (g.generation >= _V4 or n not in NEWEST))


def _unary(g):
    return g.pick(n for n in UNARY if g.generation >= _V4 or n not in NEWEST)


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
    named = g.pick((None, "vector", "gpsimd", *(("scalar",) if g.generation >= _V3 else ())))
    memories = SBUF if named == "gpsimd" else ("sbuf", "psum")
    args = {"dst": g.write(P, F, g.formats, memories), "src": g.read(P, F, g.formats, memories)}
    g.do(Step("tensor_copy", args | ({"engine": engine(named)} if named else {})))


def memset(g):
    P, F = g.size()
    dst = g.write(P, F, ANY)
    value = g.number() if FORMATS[g.oracle.format(dst).name].is_float else float(g.pick((0, 1, 7)))
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


# Element by element


def tensor_tensor(g):
    P, F = g.size()
    first, second = _one_in_psum(g)
    kind = g.pick(("float", "float", "bits", "exact"))
    if kind == "bits":
        formats, name = (g.pick(INTEGERS),), g.pick(BITVEC[:3])
    elif kind == "exact":
        formats, name = ("int32", "uint32"), _binary(g)
    else:
        formats, name = ANY, _binary(g)
    args = {
        "dst": g.write(P, F, formats, SBUF if kind == "exact" else ("sbuf", "psum")),
        "data1": g.read(P, F, formats, SBUF if kind == "exact" else first),
        "data2": g.read(P, F, formats, SBUF if kind == "exact" else second),
        "op": op(name),
    }
    if kind != "exact":
        args["engine"] = engine("vector")
    g.do(Step("tensor_tensor", args))


def power(g):
    """Of positive numbers, on GpSimd."""
    P, F = g.size()
    base = g.filled((P, F), "float32")
    args = {"dst": base, "data": base, "op0": op("abs"), "op1": op("add"), "operand1": 0.5}
    if g.do(Step("tensor_scalar", args)):
        other = g.read(P, F, FLOATS, SBUF)
        args = {"dst": g.write(P, F, FLOATS, SBUF), "data1": base, "data2": other}
        g.do(Step("tensor_tensor", args | {"op": op("power")}))


def tensor_scalar(g):
    P, F = g.size()
    if g.chance(0.2):
        _bitvec_scalar(g, P, F)
        return
    args = {"dst": g.write(P, F, ANY), "data": g.read(P, F, ANY)}
    for number in range(g.pick((1, 2))):
        if g.chance(0.2):
            args[f"op{number}"] = op(_unary(g))
            continue
        args[f"op{number}"], args[f"operand{number}"] = op(_binary(g)), g.column(P)
        if g.chance(0.3):
            args[f"reverse{number}"] = True
    if args["op0"].last != "rsqrt":
        args["engine"] = engine("vector")
    elif "psum" in {g.oracle.tensor(args[name]).buffer for name in ("dst", "data")}:
        return
    elif len(args) > 3:
        args["engine"] = engine("vector")
    g.do(Step("tensor_scalar", args))


def _bitvec_scalar(g, P, F):
    name = g.pick(INTEGERS)
    args = {"dst": g.write(P, F, (name,)), "data": g.read(P, F, (name,))}
    for number in range(g.pick((1, 2))):
        chosen = g.pick(BITVEC)
        amount = g.pick(range(8 * FORMATS[name].itemsize)) if "shift" in chosen else g.pick((1, 6))
        args |= {f"op{number}": op(chosen), f"operand{number}": int(amount)}
    g.do(Step("tensor_scalar", args))


def scalar_tensor_tensor(g):
    P, F = g.size()
    first, second = _one_in_psum(g)
    args = {
        "dst": g.write(P, F, ANY),
        "data": g.read(P, F, ANY, first),
        "op0": op(_binary(g)),
        "operand0": g.column(P),
        "op1": op(_binary(g)),
        "operand1": g.read(P, F, ANY, second),
        "reverse0": g.chance(0.3),
        "reverse1": g.chance(0.3),
    }
    g.do(Step("scalar_tensor_tensor", args))


def reciprocal(g):
    P, F = g.size()
    g.do(Step("reciprocal", {"dst": g.write(P, F, ANY), "data": g.read(P, F, ANY)}))


# Reductions


def tensor_reduce(g):
    P, F = g.size()
    inner = int(g.rng.integers(1, 9))
    is_bits = g.chance(0.2)
    formats = INTEGERS if is_bits else ANY
    name = g.pick(BITVEC[:3]) if is_bits else g.pick(_REDUCTIONS)
    data = g.filled((P, F, inner), g.pick(f for f in g.formats if f in formats))
    whole = g.chance(0.3)
    if is_bits:
        formats = (g.oracle.format(data).name,)
    args = {
        "dst": g.write(P, 1 if whole else F, formats),
        "op": op(name),
        "data": data,
        "axis": (1, 2) if whole else 2,
    }
    if not is_bits and g.chance(0.3):
        args["negate"] = True
    g.do(Step("tensor_reduce", args))


_REDUCTIONS = (
    *("add", "add", "subtract", "multiply", "maximum", "minimum"),
    *("logical_and", "logical_or", "logical_xor"),
)


def tensor_partition_reduce(g):
    P, F = g.size()
    is_bits = g.chance(0.3)
    name = g.pick(BITVEC[:2]) if is_bits else g.pick(("add", "average", "maximum"))
    formats = (g.pick(INTEGERS),) if is_bits else ANY
    args = {"dst": g.write(1, F, formats, SBUF), "op": op(name)}
    g.do(Step("tensor_partition_reduce", args | {"data": g.read(P, F, formats, SBUF)}))


def tensor_scalar_reduce(g):
    """Two of them now and then, of which the second goes on with what the first left."""
    P, F = g.size()
    args = {
        "data": g.read(P, F, ANY),
        "op0": op(g.pick(("add", "multiply", "maximum", "subtract"))),
        "operand0": g.column(P),
        "reduce_op": op(g.pick(("add", "multiply", "maximum", "minimum"))),
    }
    result = {"reduce_res": g.write(P, 1, ANY)}
    if g.chance(0.3):
        args |= {"reduce_cmd": command("load_reduce"), "reduce_init": g.column(P)}
    elif g.chance(0.3):
        first = {"dst": g.write(P, F, ANY), **args}
        if not g.do(Step("tensor_scalar_reduce", first)):
            return
        args["reduce_cmd"] = command("reduce")
    g.do(Step("tensor_scalar_reduce", {"dst": g.write(P, F, ANY), **args, **result}))


def tensor_scalar_cumulative(g):
    P, F = g.size()
    args = {
        "dst": g.write(P, F, _CUMULATIVE),
        "src": g.read(P, F, _CUMULATIVE),
        "op0": op(g.pick(("add", "multiply", "maximum", "subtract"))),
        "op1": op(g.pick(("add", "subtract", "multiply", "maximum", "minimum"))),
        "imm0": g.column(P),
    }
    if g.chance(0.3):
        args |= {"imm1": g.column(P), "reduce_cmd": command("load_reduce")}
    g.do(Step("tensor_scalar_cumulative", args))


def tensor_tensor_scan(g):
    P, F = g.size()
    first, second = _one_in_psum(g)
    args = {
        "dst": g.write(P, F, ANY),
        "data0": g.read(P, F, ANY, first),
        "data1": g.read(P, F, ANY, second),
        "initial": g.column(P),
        "op0": op(g.pick(("multiply", "add", "subtract", "maximum", "minimum"))),
        "op1": op(g.pick(("multiply", "add", "subtract", "maximum", "less"))),
        "reverse0": g.chance(0.3),
        "reverse1": g.chance(0.3),
    }
    g.do(Step("tensor_tensor_scan", args))


# The Scalar Engine


def activation(g):
    P, F = g.size()
    args = {
        "dst": g.write(P, F, ANY),
        "op": op(g.pick(ACTIVATIONS)),
        "data": g.read(P, F, ANY),
        "scale": g.column(P),
    }
    if g.chance(0.4) and args["op"].last != "reciprocal":
        args["bias"] = g.read(P, 1, ("float32", "bfloat16"))
    if g.chance(0.3):
        args |= {"reduce_op": op("add"), "reduce_res": g.write(P, 1, FLOATS)}
        if g.chance(0.5):
            g.do(Step("activation_reduce", args))
            return
        args["reduce_cmd"] = command("reset_reduce")
    g.do(Step("activation", args))


def exponential(g):
    if g.generation < _V4:
        return
    P, F = g.size()
    formats = tuple(f for f in ANY if f not in {"tfloat32", "float8_e4m3fn"})
    targets = tuple(f for f in formats if f != "uint32")
    args = {"dst": g.write(P, F, targets), "src": g.read(P, F, formats), "max_value": g.column(P)}
    if g.chance(0.5):
        args |= {"reduce_res": g.write(P, 1, ("float32", "bfloat16", "float16"))}
        args["reduce_cmd"] = command("reset_reduce")
    g.do(Step("exponential", args))


# The Tensor Engine


def nc_matmul(g):
    """One, or a few that accumulate in PSUM, also in a loop."""
    K, M = g.pick(g.partitions), g.pick((1, 4, 7, 32, 64, 128))
    N, count = g.pick(g.columns), g.pick((1, 1, 2, 3))
    wide = ("float32", "tfloat32")
    narrow = tuple(f for f in g.formats if f in FLOATS and f not in {*wide, "float8_e4m3fn"})
    formats = wide if g.chance(0.4) else narrow
    dst = g.alloc(
        (M, N), g.pick(("float32", "bfloat16") if g.generation >= _V4 else ("float32",)), "psum"
    )
    if count > 1 and g.chance(0.5):
        left, right = (
            g.filled((K, count * M), g.pick(formats)),
            g.filled((K, count * N), g.pick(formats)),
        )
        args = {"dst": dst, "stationary": left.then("[]", slice(0, K), At("i", M, M))}
        args["moving"] = right.then("[]", slice(0, K), At("i", N, N))
        kind = g.pick(("nl.affine_range", "nl.sequential_range", "range", "nl.dynamic_range"))
        g.do(Loop("i", count, kind, (Step("nc_matmul", args),)))
        return
    for number in range(count):
        args = {
            "dst": dst,
            "stationary": g.read(K, M, formats, SBUF),
            "moving": g.read(K, N, formats, SBUF),
        }
        accumulate = g.pick((None, number > 0))
        if not g.do(
            Step("nc_matmul", args | ({} if accumulate is None else {"accumulate": accumulate}))
        ):
            return


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
    if g.generation < _V3:
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
    first, second = _one_in_psum(g)
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
    first, second = _one_in_psum(g)
    name = g.pick(f for f in g.formats if f in ANY)
    dst = g.read(P, F, (name,)) if g.chance(0.0) else g.filled((P, F), name)
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
    args |= {"op0": op(_binary(g)), "operand0": g.number(), "engine": engine("vector")}
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
    if g.generation < _V3:
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


FAMILIES = (
    gather,
    reinterpret,
    dma_copy,
    tensor_copy,
    memset,
    nc_transpose,
    dma_transpose,
    nc_stream_shuffle,
    tensor_tensor,
    tensor_tensor,
    power,
    tensor_scalar,
    tensor_scalar,
    scalar_tensor_tensor,
    reciprocal,
    tensor_reduce,
    tensor_partition_reduce,
    tensor_scalar_reduce,
    tensor_scalar_cumulative,
    tensor_tensor_scan,
    activation,
    activation,
    exponential,
    nc_matmul,
    nc_matmul,
    iota,
    affine_select,
    range_select,
    select_reduce,
    tensor_copy_predicated,
    max8,
    bn_stats,
    nc_n_gather,
    local_gather,
    loop,
    register,
)
