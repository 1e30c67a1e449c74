"""Instructions that compute: for each family a function that writes a legal step of it.

Each takes a `Maker` and draws operands, unless its generation has not got the instruction. What is
legal is AWS's page of the instruction in nki.isa.
"""

from __future__ import annotations

from formats import FLOATS, FORMATS, INTEGERS
from kernel import Step, op
from maker import ANY, SBUF, V4, binary, command, engine, one_in_psum
from operators import ACTIVATIONS, BITVEC, NEWEST, UNARY

_CUMULATIVE = tuple(f for f in ANY if f not in {"tfloat32", "int32", "uint32"})


def _unary(g):
    return g.pick(n for n in UNARY if g.generation >= V4 or n not in NEWEST)


# Element by element


def tensor_tensor(g):
    P, F = g.size()
    first, second = one_in_psum(g)
    kind = g.pick(("float", "float", "bits", "exact"))
    if kind == "bits":
        formats, name = (g.pick(INTEGERS),), g.pick(BITVEC[:3])
    elif kind == "exact":
        formats, name = ("int32", "uint32"), binary(g)
    else:
        formats, name = ANY, binary(g)
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
        args[f"op{number}"], args[f"operand{number}"] = op(binary(g)), g.column(P)
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
    first, second = one_in_psum(g)
    args = {
        "dst": g.write(P, F, ANY),
        "data": g.read(P, F, ANY, first),
        "op0": op(binary(g)),
        "operand0": g.column(P),
        "op1": op(binary(g)),
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
    first, second = one_in_psum(g)
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


# (op0, op1) of activate2.
_STAGES = (
    *(("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass")),
    *(("add", "bypass"), ("subtract", "bypass"), ("bypass", "bypass")),
)


def activate2(g):
    if g.generation < V4:
        return
    P, F = g.size()
    first, second = g.pick(_STAGES)
    args = {
        "dst": g.write(P, F, ANY),
        "op": op(g.pick(ACTIVATIONS)),
        "data": g.read(P, F, ANY),
        "imm0": g.column(P),
        "imm1": g.column(P),
        "op0": op(first),
        "op1": op(second),
        "reverse0": first != "bypass" and g.chance(0.3),
        "reverse1": second != "bypass" and g.chance(0.3),
    }
    if g.chance(0.4):
        args |= {"reduce_op": op(g.pick(("add", "maximum", "minimum")))}
        args |= {"reduce_res": g.write(P, 1, FLOATS), "reduce_cmd": command("reset_reduce")}
    g.do(Step("activate2", args))


def exponential(g):
    if g.generation < V4:
        return
    P, F = g.size()
    formats = tuple(f for f in ANY if f not in {"tfloat32", "float8_e4m3fn"})
    targets = tuple(f for f in formats if f != "uint32")
    args = {"dst": g.write(P, F, targets), "src": g.read(P, F, formats), "max_value": g.column(P)}
    if g.chance(0.5):
        args |= {"reduce_res": g.write(P, 1, ("float32", "bfloat16", "float16"))}
        args["reduce_cmd"] = command("reset_reduce")
    g.do(Step("exponential", args))
