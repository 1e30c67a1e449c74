"""Loops, registers and two cores: for each family a legal use of them. As `computing`."""

from __future__ import annotations

from kernel import At, Line, Loop, Name, Step, While, op
from maker import ANY, SBUF, binary, engine

_UNROLLED = ("range", "nl.affine_range", "nl.static_range")
_DYNAMIC = ("nl.dynamic_range", "nl.fori_loop")


def loop(g):
    """A loop over parts of a tile; its variable is a number or a register."""
    P, F = g.size()
    count, step = g.pick((2, 3, 4)), g.pick((1, 1, 2))
    values = range(int(g.rng.integers(0, 2)), count, step)
    kind = g.pick(_UNROLLED + _DYNAMIC)
    first, last = _bound(g, values.start, kind), _bound(g, values.stop, kind)
    bounds = f"{first}, {last}, {step}" if step > 1 else f"{first}, {last}"
    shape, here = (P, count * F), (slice(0, P), At("i", F, F))
    if kind == "nl.fori_loop":  # NKI 0.6 refuses arithmetic on its variable
        shape, here = (P, count, F), (slice(0, P), Name("i"), slice(0, F))
    src = g.filled(shape, g.pick(f for f in g.formats if f in ANY))
    if g.chance(0.3):
        dst = src
    else:
        dst = g.alloc(shape, g.pick(("float32", "bfloat16", "int32")))
        g.do(Step("memset", {"dst": dst, "value": 1}))
    args = {"dst": dst.then("[]", *here), "data": src.then("[]", *here)}
    args |= {"op0": op(binary(g)), "operand0": g.number(), "engine": engine("vector")}
    g.do(Loop("i", values, kind, (Step("tensor_scalar", args),), bounds))


def _bound(g, value, kind):
    """A bound of a loop as the source has it: a register of a device loop, or a number."""
    if kind in _DYNAMIC and g.chance(0.5):
        return set_register(g, value)
    return str(value)


def _line(g, opcode, operands, **args):
    return g.do(Line(f"nisa.{opcode}({operands})", opcode, args))


def set_register(g, value):
    """The name of a new register that holds a value, one way or another."""
    name = g.name("r")
    way = g.pick(("alloc", "load", "move", "copy"))
    initial = value if way == "alloc" else g.pick((0, 7, -1))
    text = f"{name} = nisa.register_alloc({initial})"
    g.do(Line(text, "register", {"name": name, "value": initial}))
    if way == "load":
        cell = _cell(g, value)
        _line(g, "register_load", f"{name}, {cell}", name=name, src=cell)
    elif way == "move":
        _line(g, "register_move", f"{name}, {value}", name=name, value=value)
    elif way == "copy":
        other = set_register(g, value)
        _line(g, "register_move", f"{name}, {other}", name=name, value=other)
    return name


def _cell(g, value):
    """One element of memory that holds a value."""
    return g.given(g.rng.integers(value, value + 1, (1, 1)).astype("int32"), "int32")


def register(g):
    """A register that indexes a tile: between brackets, or as the offset of a pattern."""
    P, F = g.size()
    count = g.pick((2, 3))
    name = set_register(g, int(g.rng.integers(0, count)))
    src, dst = g.filled((P, count * F), "float32"), g.write(P, F, ANY, SBUF)
    if g.chance(0.5):
        part = src.then("[]", slice(0, P), At(name, F, F))
    else:
        src = g.filled((P, count, F), "float32", is_placed=False)
        part = src.then("ap", [[count * F, P], [1, F]], 0, Name(name), 1)
    g.do(Step("tensor_copy", {"dst": dst, "src": part, "engine": engine("vector")}))
    _store(g, name)


def _store(g, name):
    """What a register holds, in memory, now and then."""
    if g.chance(0.5):
        cell = g.alloc((1, 1), g.pick(("int32", "float32")))
        _line(g, "register_store", f"{cell}, {name}", dst=cell, name=name)


def while_loop(g):
    """A counter in memory counts down to the end of a loop that adds to a tile.

    The register that the loop starts from keeps its value: the body is given another one.
    """
    P, F = g.size()
    count = int(g.rng.integers(0, 4))
    total, data = g.filled((P, F), "float32"), g.read(P, F, ("float32", "bfloat16"), SBUF)
    left, one = _cell(g, count), _cell(g, 1)
    start, inner = set_register(g, count), g.name("r")
    added = {"dst": total, "data1": total, "data2": data, "op": op("add")}
    lowered = {"dst": left, "data1": left, "data2": one, "op": op("subtract")}
    load = {"name": inner, "src": left}
    body = (
        Step("tensor_tensor", added | {"engine": engine("vector")}),
        Step("tensor_tensor", lowered),
        Line(f"nisa.register_load({inner}, {left})", "register_load", load),
    )
    if g.do(While(inner, start, body)):
        _store(g, start)


def nested(g):
    """A loop within another one, over the columns of a tile."""
    P, F = g.size()
    rows, columns = g.pick((1, 2, 3)), g.pick((1, 2))
    src, dst = (g.filled((P, rows, columns * F), "float32") for _ in range(2))
    kinds = g.pick(_DYNAMIC + _UNROLLED), g.pick(_UNROLLED)
    inner = slice(0, P), Name("i"), At("j", F, F)
    args = {"dst": dst.then("[]", *inner), "data": src.then("[]", *inner)}
    args |= {"op0": op("add"), "operand0": g.number(), "engine": engine("vector")}
    body = Loop("j", range(columns), kinds[1], (Step("tensor_scalar", args),))
    g.do(Loop("i", range(rows), kinds[0], (body,), f"0, {rows}"))


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
