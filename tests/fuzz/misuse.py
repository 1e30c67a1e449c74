"""Mistakes in something of a kernel's step, which may be legal by luck.

Each function takes a random generator and the steps, and returns the changed steps, or None where
the kernel has nothing to change in this way.
"""

from __future__ import annotations

from dataclasses import replace

from formats import FORMATS
from kernel import UNPUBLISHED, Alloc, Line, Loop, Name, Step, View, op

_WRONG = (
    *(None, 0, -1, 2.5, 10**12, "add", (), [], (1, 2), [[1, 2]], True, float("nan"), object),
    *(op("add"), op("exp"), op("float32"), Name("nisa.engine.tensor"), Name("nisa.dma_copy")),
    Name("nl.sbuf"),
    Name("np.zeros(3)"),
)
_WRONG_INDICES = (500, -500, slice(0, 500), slice(3, 1), None, "x", 1.5, slice(0, 2, -1), ())


def pick(rng, options):
    """One of the options; None of none."""
    options = list(options)
    return options[int(rng.integers(len(options)))] if options else None


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
    place = pick(rng, _places(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = pick(rng, step.args)
    value = pick(rng, (*_WRONG, *map(Name, _tensors(steps, place))))
    value = Name("object()") if value is object else value
    return _with(steps, place, replace(step, args=step.args | {name: value}))


def _tensors(steps, place):
    """The names of the tensors that are there at a place."""
    return [step.name for step in steps[: place[0]] if isinstance(step, Alloc)]


def _missing(rng, steps):
    """An argument less."""
    place = pick(rng, _published(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = pick(rng, step.args)
    args = {key: value for key, value in step.args.items() if key != name}
    return _with(steps, place, replace(step, args=args))


def _unknown(rng, steps):
    """An argument more."""
    place = pick(rng, _published(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = pick(rng, ("mask", "engine", "reduce_cmd", "axis", "op1", "dtype", "oob_mode"))
    return _with(
        steps, place, replace(step, args=step.args | {name: pick(rng, (None, 3, "x", op("add")))})
    )


def _view(rng, steps):
    """A view that does not fit."""
    place = pick(rng, _places(steps))
    if place is None:
        return None
    step = _at(steps, place)
    name = pick(rng, (key for key, value in step.args.items() if isinstance(value, View)))
    if name is None:
        return None
    view = step.args[name]
    method, args = pick(rng, _views(rng, Name(pick(rng, _tensors(steps, place)) or "None")))
    seen = view.then(method, *args)
    return _with(steps, place, replace(step, args=step.args | {name: seen}))


def _views(rng, other):
    """Methods of a view with arguments, of which `other` is a tensor."""
    dim, length = (int(n) for n in rng.integers(-4, 5, 2))
    number = pick(rng, (dim, 2.5, None, "x", True))
    return (
        ("[]", (pick(rng, _WRONG_INDICES),)),
        ("[]", (slice(0, 1), pick(rng, _WRONG_INDICES))),
        ("slice", (number, dim, length)),
        ("select", (number, length)),
        ("permute", ((1, 0),)),
        ("permute", (pick(rng, ((), (0, number), number)),)),
        ("reshape", (pick(rng, ((length, -1), (), (number,), number)),)),
        ("reshape_dim", (number, (length, -1))),
        ("reshape_dim", (1, pick(rng, (number, (number,))))),
        ("flatten_dims", (number, length)),
        ("expand_dim", (number,)),
        ("squeeze_dim", (number,)),
        ("broadcast", (number, length)),
        ("broadcast", (1, number)),
        ("ap", (pick(rng, ([], [[1]], [[number, 2], [1, 1]], number, [["x", 1]])), 0)),
        ("ap", ([[8, 1], [1, 1]], number)),
        ("view", (pick(rng, (Name("nl.int8"), Name("nl.add"), number)),)),
        ("indirect", (other, pick(rng, (number, length, 1, 8, 16, 40)))),
        ("indirect", (other,)),
        ("select", (pick(rng, (0, 1, 2)), other)),
        ("vector_select", (pick(rng, (0, 0, 1)), other)),
        ("ap", ([[8, 4], [1, 2]], 0, other, pick(rng, (0, 1, 2)))),
    )


def _dtype(rng, steps):
    """Another dtype, shape or address of a tensor."""
    place = pick(rng, [i for i, step in enumerate(steps) if isinstance(step, Alloc)])
    if place is None:
        return None
    step = steps[place]
    kind = int(rng.integers(3))
    if kind == 0:
        names = (*FORMATS, "float8_e8m0fnu", "float8_e4m3fn_x4", "float4_e2m1fn_x4", "add", "sbuf")
        steps[place] = replace(step, dtype=pick(rng, names))
    elif kind == 1:
        shapes = ((), (0, 4), (4, -1), (2.5, 3), (None, 2), 7, (4,), "x", (1,) * 7, (4, "x"))
        steps[place] = replace(step, shape=pick(rng, shapes))
    else:
        addresses = ((0,), (0, 0, 0), (None, 0), (1.5, 0), "xy", 3, (40, 0), (0, 3))
        steps[place] = replace(step, address=pick(rng, addresses))
    return steps


def _statement(rng, steps):
    """A line that asks for something odd."""
    text = pick(
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
            "nl.sum(nl.zeros((4, 4), dtype=nl.float32), axis=1, keepdims=np.zeros(3))",
            "nl.ndarray((4, 4), dtype=nl.float32, buffer=np.zeros(3))",
            "nl.ndarray(np.zeros(3), dtype=nl.float32)",
            "nl.zeros((4, 4), dtype=nl.float32)[np.zeros(3)]",
            "nl.program_id(np.zeros(3))",
            "nisa.register_alloc(np.zeros(3))",
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


MAYBE = (_argument, _argument, _argument, _missing, _unknown, _view, _view, _dtype, _statement)
