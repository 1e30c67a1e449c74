"""Random numbers: for each family legal steps of it, and claims of what is documented of them.

As `computing`. A count of n fair draws stays within 6.5 standard deviations but once in 10**10.
"""

from __future__ import annotations

import numpy as np
from formats import FORMATS, INTEGERS
from kernel import Claim, Step, op
from maker import ANY, SBUF, V3, V4, engine

_DEVIATIONS = 6.5
_WORDS = {"gpsimd": 6, "vector": 24}
_VECTOR = {"engine": engine("vector")}


def _engines(g):
    """Where numbers are drawn, and where states can be had."""
    drawn = ("vector",) if g.generation < V3 else ("vector", "gpsimd")
    return drawn, drawn[1:] + (("vector",) if g.generation >= V4 else ())


def _tile(g, shape, dtype, where="gpsimd"):
    """A tensor that starts at partition 0: each partition draws from a generator of its own."""
    buffer = "psum" if where == "vector" and g.chance(0.3) else "sbuf"
    return g.alloc(shape, dtype, buffer, is_placed=False)


def _sum(g, view):
    """Steps that add all elements of a view up, and the view of the sum."""
    P = g.oracle.shape(view)[0]
    rows, total = g.alloc((P, 1), "float32"), g.alloc((1, 1), "float32")
    free = len(g.oracle.shape(view)) - 1
    return total, (
        Step("tensor_reduce", {"dst": rows, "op": op("add"), "data": view, "axis": free}),
        Step("tensor_partition_reduce", {"dst": total, "op": op("add"), "data": rows}),
    )


def _around(count, mean, deviation):
    """The range of a sum of `count` independent draws."""
    slack = _DEVIATIONS * deviation * np.sqrt(count) + 1
    return count * mean - slack, count * mean + slack


def _same(g, first, second):
    """Steps that compare two tensors of integers, and the view that holds 1 where they agree."""
    equal = g.alloc(g.oracle.shape(first), "int32")
    args = {"dst": equal, "data1": first, "data2": second, "op": op("equal"), **_VECTOR}
    return equal, (Step("tensor_tensor", args),)


def rng(g):
    """Each bit of the numbers is 1 in a half of them."""
    P, F = g.size()
    where = g.pick(_engines(g)[0])
    name = g.pick(INTEGERS)
    bit = g.pick(range(8 * FORMATS[name].itemsize - 1))
    drawn, bits = _tile(g, (P, F), name, where), g.alloc((P, F), name)
    masked = {"dst": bits, "data": drawn, "op0": op("bitwise_and"), "operand0": 1 << bit}
    masked |= {"op1": op("right_shift"), "operand1": bit}
    total, added = _sum(g, bits)
    steps = (
        Step("rng", {"dst": drawn, "engine": engine(where)}),
        Step("tensor_scalar", masked),
        *added,
    )
    g.do(Claim(steps, total, *_around(P * F, 0.5, 0.5)))


def seeded(g):
    """Equal seeds give equal numbers, whatever was drawn before."""
    P, F = g.size()
    name = g.pick(INTEGERS)
    seed = g.given(g.rng.integers(0, 1 << 31, (1, 1)).astype("int32"), "int32")
    first, second = _tile(g, (P, F), name), _tile(g, (P, F), name)
    equal, compared = _same(g, first, second)
    seeding = Step("set_rng_seed", {"src_seeds": seed})
    draws = [Step("rng", {"dst": tile, **_VECTOR}) for tile in (first, second)]
    between = (Step("rng", {"dst": second, **_VECTOR}),) if g.chance(0.5) else ()
    g.do(Claim((seeding, draws[0], *between, seeding, draws[1], *compared), equal, 1, 1))


def restored(g):
    """What rand_set_state is given comes back, and gives the same numbers again."""
    places = _engines(g)[1]
    if not places:
        return
    P, F = g.size()
    where = g.pick(places)
    here, shape = {"engine": engine(where)}, (P, _WORDS[where])
    first, second = (_tile(g, (P, F), "uint32") for _ in range(2))
    if g.chance(0.5):
        words = g.rng.integers(1, 1 << 32, shape).astype("uint32")
        state, steps = g.given(words, "uint32", is_placed=False), ()
    else:
        state = _tile(g, shape, "uint32")
        steps = (Step("rand_get_state", {"dst": state, **here}),)
    again = _tile(g, shape, "uint32", where)
    restore = Step("rand_set_state", {"src_seeds": state, **here})
    draws = [Step("rng", {"dst": tile, **here}) for tile in (first, second)]
    equal, compared = _same(g, first, second)
    steps += (restore, draws[0], restore, Step("rand_get_state", {"dst": again, **here}))
    g.do(Claim((*steps, draws[1], *compared), equal, 1, 1))


def rand2(g):
    """A uniform distribution: its sum is near the middle of the range."""
    if g.generation < V4:
        return
    P, F = g.size()
    low = g.number()
    high = low + abs(g.number()) + 0.25
    columns = (g.given(np.full((P, 1), x, "float32"), "float32") for x in (low, high))
    args = dict(zip(("min", "max"), columns if g.chance(0.3) else (low, high), strict=True))
    name = g.pick([f for f in ANY if f != "float8_e4m3fn"])
    if name != "float32":
        g.do(Step("rand2", {"dst": g.write(P, F, (name,)), **args}))
        return
    drawn = g.alloc((P, F), name)
    total, added = _sum(g, drawn)
    spread = (high - low) / np.sqrt(12)
    steps = (Step("rand2", {"dst": drawn, **args}), *added)
    g.do(Claim(steps, total, *_around(P * F, (low + high) / 2, spread)))


def dropout(g):
    """Of ones a share of `prob` is dropped; any other element is kept as it is, or zero."""
    P, F = g.size()
    share = g.pick((0.0, 1.0, 0.5, 0.125, 0.9))
    wide = g.given(np.full((P, 1), share, "float32"), "float32")
    prob = wide if g.chance(0.5) else share
    if g.chance(0.5):
        name = g.pick([f for f in g.formats if f in ANY])
        args = {"dst": g.write(P, F, (name,)), "data": g.read(P, F, (name,)), "prob": prob}
        g.do(Step("dropout", args))
        return
    ones, kept = g.alloc((P, F), "float32"), g.alloc((P, F), "float32")
    if not g.do(Step("memset", {"dst": ones, "value": 1.0})):
        return
    total, added = _sum(g, kept)
    steps = (Step("dropout", {"dst": kept, "data": ones, "prob": prob}), *added)
    g.do(Claim(steps, total, *_around(P * F, 1 - share, np.sqrt(share * (1 - share)))))


def dropped_or_kept(g):
    """Each element is what it was, or zero."""
    P, F = g.size()
    name = g.pick([f for f in g.formats if f in ANY])
    data, out = g.read(P, F, (name,), SBUF), g.alloc((P, F), name)
    same, none, either = (g.alloc((P, F), "float32") for _ in range(3))
    test = {"dst": none, "data": out, "op0": op("equal"), "operand0": 0.0, **_VECTOR}
    pairs = {"dst": same, "data1": out, "data2": data, "op": op("equal"), **_VECTOR}
    joined = {"dst": either, "data1": same, "data2": none, "op": op("logical_or"), **_VECTOR}
    steps = (
        Step("dropout", {"dst": out, "data": data, "prob": 0.5}),
        Step("tensor_tensor", pairs),
        Step("tensor_scalar", test),
        Step("tensor_tensor", joined),
    )
    g.do(Claim(steps, either, 1, 1))
