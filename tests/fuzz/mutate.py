"""Illegal kernels: a legal one with one mistake of those that people make.

Some mistakes no chip takes; others (another dtype, another operand) may be legal by luck.
Either way a kernel runs or ends in a named error with its line and a fix, never in an error of
numpy or of Python.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from formats import FORMATS
from kernel import UNPUBLISHED, Alloc, Claim, Line, Loop, Name, Step, View, op
from wrong import OF_TENSORS, WRONG

_WRONG = (
    *(None, 0, -1, 2.5, 10**12, "add", (), [], (1, 2), [[1, 2]], True, float("nan"), object),
    *(op("add"), op("exp"), op("float32"), Name("nisa.engine.tensor"), Name("nisa.dma_copy")),
    Name("nl.sbuf"),
)
_WRONG_INDICES = (500, -500, slice(0, 500), slice(3, 1), None, "x", 1.5, slice(0, 2, -1), ())


def mutate(kernel, seed):
    """The kernel with a mistake, and whether no chip could take it."""
    rng = np.random.default_rng((seed, 1))
    changes = list(_SURE) + list(_MAYBE)
    change = changes[int(rng.integers(len(changes)))]
    found = change(rng, _flat(kernel.steps))
    if found is None:
        change = _unwritten
        found = change(rng, _flat(kernel.steps))
    return replace(kernel, steps=tuple(found), outputs=()), change in _SURE


def _pick(rng, options):
    options = list(options)
    return options[int(rng.integers(len(options)))] if options else None


def _flat(steps):
    """The steps as a list, those of a claim one by one."""
    return [one for step in steps for one in (step.body if isinstance(step, Claim) else (step,))]


# What is always wrong: a few lines at the end


def _start_partition(rng, steps):
    start = _pick(rng, (8, 40, 72, 100))
    tile = View("wrong").then("[]", slice(start, start + 8))
    step = Step("memset", {"dst": tile, "value": 0.0})
    return [*steps, Alloc("wrong", (128, 4), "float32"), step]


def _out_of_bounds(rng, steps):
    index = _pick(rng, (slice(0, 9), slice(3, 3), 8, -9))
    if rng.random() < 0.5:
        tile = View("wrong").then("ap", [[8, 4], [1, 9]], int(rng.integers(0, 3)))
    else:
        tile = View("wrong").then("[]", slice(0, 4), index)
    step = Step("memset", {"dst": tile, "value": 0.0})
    return [*steps, Alloc("wrong", (4, 8), "float32"), step]


def _too_many_partitions(rng, steps):
    shape = (int(rng.integers(129, 1000)), 4)
    return [*steps, Alloc("wrong", shape, "float32", _pick(rng, ("sbuf", "psum")))]


def _too_large(rng, steps):
    address = _pick(rng, (None, (0, 1 << 20), (120, 0), (-32, 0)))
    columns = 4 if address else 10**6
    return [*steps, Alloc("wrong", (32, columns), "float32", "sbuf", address)]


def _unwritten(rng, steps):
    opcode, source = _pick(
        rng, (("tensor_copy", "src"), ("reciprocal", "data"), ("max8", "src"), ("dma_copy", "src"))
    )
    made = [Alloc("wrong", (8, 8), "float32"), Alloc("result", (8, 8), "float32")]
    return [*steps, *made, Step(opcode, {"dst": View("result"), source: View("wrong")})]


def _wrong_dtype(rng, steps):
    wrong = Alloc("wrong", (8, 8), "float32"), Alloc("result", (8, 8), "bfloat16", "psum")
    fill = Step("memset", {"dst": View("wrong"), "value": 1.0})
    other = Step("memset", {"dst": View("result"), "value": 1.0})
    step = _pick(
        rng,
        (
            Step("nc_transpose", {"dst": View("result"), "data": View("wrong")}),
            Step("tensor_scalar", _bits(View("wrong"))),
            Step("nc_matmul", {"dst": View("wrong"), "stationary": View("result"), "moving": None}),
            Step("tensor_copy_predicated", _predicated()),
        ),
    )
    return [*steps, *wrong, fill, other, step]


def _bits(tile):
    return {"dst": tile, "data": tile, "op0": op("bitwise_and"), "operand0": 1}


def _predicated():
    return {"dst": View("wrong"), "src": View("result"), "predicate": View("wrong")}


def _instruction(rng, steps):
    """An instruction whose operands no chip takes, or a use of a register that means nothing."""
    text, options = WRONG[int(rng.integers(len(WRONG)))]
    drawn = {name: _pick(rng, values) for name, values in options.items()}
    return [*steps, Line(OF_TENSORS, "nothing"), Line(text.format(**drawn), "nothing")]


_SURE = (
    *[_instruction] * 4,
    _start_partition,
    _out_of_bounds,
    _too_many_partitions,
    _too_large,
    _unwritten,
    _wrong_dtype,
)


# What may be wrong: something of a step of the kernel


def _places(steps):
    """Where instructions stand: at the top, or in the body of a loop."""
    found = [(i,) for i, step in enumerate(steps) if isinstance(step, Step)]
    for i, step in enumerate(steps):
        if isinstance(step, Loop):
            found += [(i, j) for j, one in enumerate(step.body) if isinstance(one, Step)]
    return found


def _published(steps):
    """Likewise, of those that nki.isa has: the classes of the others are called by Python."""
    return [place for place in _places(steps) if _at(steps, place).opcode not in UNPUBLISHED]


def _at(steps, place):
    first, *inner = place
    return steps[first].body[inner[0]] if inner else steps[first]


def _with(steps, place, step):
    """The steps with another one at a place."""
    first, *inner = place
    if inner:
        body = list(steps[first].body)
        body[inner[0]] = step
        step = replace(steps[first], body=tuple(body))
    return [*steps[:first], step, *steps[first + 1 :]]


def _argument(rng, steps):
    """Another value for an argument."""
    place = _pick(rng, _places(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = _pick(rng, step.args)
    value = _pick(rng, _WRONG)
    value = Name("object()") if value is object else value
    return _with(steps, place, replace(step, args=step.args | {name: value}))


def _missing(rng, steps):
    """An argument less."""
    place = _pick(rng, _published(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = _pick(rng, step.args)
    args = {key: value for key, value in step.args.items() if key != name}
    return _with(steps, place, replace(step, args=args))


def _unknown(rng, steps):
    """An argument more."""
    place = _pick(rng, _published(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = _pick(rng, ("mask", "engine", "reduce_cmd", "axis", "op1", "dtype", "oob_mode"))
    return _with(
        steps, place, replace(step, args=step.args | {name: _pick(rng, (None, 3, "x", op("add")))})
    )


def _view(rng, steps):
    """A view that does not fit."""
    place = _pick(rng, _places(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = _pick(rng, (key for key, value in step.args.items() if isinstance(value, View)))
    if name is None:
        return None
    dim, length = (int(n) for n in rng.integers(-4, 5, 2))
    number = _pick(rng, (dim, 2.5, None, "x", True))
    view = step.args[name]
    method, args = _pick(
        rng,
        (
            ("[]", (_pick(rng, _WRONG_INDICES),)),
            ("[]", (slice(0, 1), _pick(rng, _WRONG_INDICES))),
            ("slice", (number, dim, length)),
            ("select", (number, length)),
            ("permute", ((1, 0),)),
            ("permute", (_pick(rng, ((), (0, number), number)),)),
            ("reshape", (_pick(rng, ((length, -1), (), (number,), number)),)),
            ("reshape_dim", (number, (length, -1))),
            ("reshape_dim", (1, _pick(rng, (number, (number,))))),
            ("flatten_dims", (number, length)),
            ("expand_dim", (number,)),
            ("squeeze_dim", (number,)),
            ("broadcast", (number, length)),
            ("broadcast", (1, number)),
            ("ap", (_pick(rng, ([], [[1]], [[number, 2], [1, 1]], number, [["x", 1]])), 0)),
            ("ap", ([[8, 1], [1, 1]], number)),
            ("view", (_pick(rng, (Name("nl.int8"), Name("nl.add"), number)),)),
        ),
    )
    return _with(steps, place, replace(step, args=step.args | {name: view.then(method, *args)}))


def _dtype(rng, steps):
    """Another dtype, shape or address of a tensor."""
    place = _pick(rng, [i for i, step in enumerate(steps) if isinstance(step, Alloc)])
    if place is None:
        return None
    step = steps[place]
    kind = int(rng.integers(3))
    if kind == 0:
        names = (*FORMATS, "float8_e8m0fnu", "float8_e4m3fn_x4", "float4_e2m1fn_x4", "add", "sbuf")
        steps[place] = replace(step, dtype=_pick(rng, names))
    elif kind == 1:
        shapes = ((), (0, 4), (4, -1), (2.5, 3), (None, 2), 7, (4,), "x", (1,) * 7, (4, "x"))
        steps[place] = replace(step, shape=_pick(rng, shapes))
    else:
        addresses = ((0,), (0, 0, 0), (None, 0), (1.5, 0), "xy", 3, (40, 0), (0, 3))
        steps[place] = replace(step, address=_pick(rng, addresses))
    return steps


def _statement(rng, steps):
    """A line that asks for something odd."""
    text = _pick(
        rng,
        (
            "nisa.register_alloc('x')",
            "nisa.register_alloc(2.5)",
            "nisa.register_load(3, None)",
            "nisa.register_store(None, 3)",
            "nisa.register_move(nisa.register_alloc(), nisa.register_alloc())",
            "nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.add)",
            "nl.ndarray((4, 4), dtype=None)",
            "nl.ndarray((4, 4), dtype=nl.float32, buffer=None)",
            "nl.zeros((4, 4), dtype='float99')",
            "nl.full((4, 4), None, dtype=nl.float32)",
            "nl.load(None)",
            "nl.store(None, 3)",
            "nl.add(1, 2)",
            "nl.exp('x')",
            "nl.matmul(None, None)",
            "nl.sum(nl.zeros((4, 4), dtype=nl.float32), axis=None)",
            "nl.sum(nl.zeros((4, 4), dtype=nl.float32), axis=7)",
            "nl.sum(nl.zeros((4, 4), dtype=nl.float32), axis='x')",
            "nl.transpose(nl.zeros((200, 4), dtype=nl.float32))",
            "nl.where(None, 1, 2)",
            "nl.broadcast_to(nl.zeros((4, 4), dtype=nl.float32), shape=(5, 5))",
            "nl.broadcast_to(nl.zeros((4, 4), dtype=nl.float32), shape=None)",
            "nl.copy(3)",
            "[i for i in nl.dynamic_range(0, 4, 0)]",
            "[i for i in nl.dynamic_range(None)]",
            "[i for i in nl.dynamic_range(2.5)]",
            "nl.fori_loop(0, 2, None)",
            "nl.while_loop(None, None)",
            "nl.program_id(7)",
            "nl.program_id('x')",
            "nisa.core_barrier(None, (0, 1))",
            "nisa.sendrecv(None, None, 0, 1, 0)",
            "nisa.iota(nl.ndarray((4, 4), dtype=nl.int32), pattern=None)",
            "nisa.iota(nl.ndarray((4, 4), dtype=nl.int32), [[1, 4]], offset='x')",
            "nisa.memset(nl.ndarray((4, 4), dtype=nl.int32), value='x')",
            "nisa.memset(nl.ndarray((4, 4), dtype=nl.int32), value=None)",
            "nisa.memset(nl.ndarray((4, 4), dtype=nl.int32), value=float('nan'))",
        ),
    )
    return [*steps, Line(text, "nothing")]


_MAYBE = (_argument, _argument, _argument, _missing, _unknown, _view, _view, _dtype, _statement)
