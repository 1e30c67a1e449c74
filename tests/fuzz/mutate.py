"""Illegal kernels: a legal one with one mistake of those that people make.

Some mistakes no chip takes; others (another dtype, another operand) may be legal by luck.
Either way a kernel runs or ends in a named error with its line and a fix, never in an error of
numpy or of Python.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from kernel import Alloc, Claim, Line, Step, View, op
from misuse import MAYBE, pick
from wrong import OF_TENSORS, WRONG


def mutate(kernel, seed):
    """The kernel with a mistake, and whether no chip could take it."""
    rng = np.random.default_rng((seed, 1))
    changes = list(_SURE) + list(MAYBE)
    change = changes[int(rng.integers(len(changes)))]
    found = change(rng, _flat(kernel.steps))
    if found is None:
        change = _unwritten
        found = change(rng, _flat(kernel.steps))
    return replace(kernel, steps=tuple(found), outputs=()), change in _SURE


def _flat(steps):
    """The steps as a list, those of a claim one by one."""
    return [one for step in steps for one in (step.body if isinstance(step, Claim) else (step,))]


# What is always wrong: a few lines at the end


def _start_partition(rng, steps):
    start = pick(rng, (8, 40, 72, 100))
    tile = View("wrong").then("[]", slice(start, start + 8))
    step = Step("memset", {"dst": tile, "value": 0.0})
    return [*steps, Alloc("wrong", (128, 4), "float32"), step]


def _out_of_bounds(rng, steps):
    index = pick(rng, (slice(0, 9), slice(3, 3), 8, -9))
    if rng.random() < 0.5:
        tile = View("wrong").then("ap", [[8, 4], [1, 9]], int(rng.integers(0, 3)))
    else:
        tile = View("wrong").then("[]", slice(0, 4), index)
    step = Step("memset", {"dst": tile, "value": 0.0})
    return [*steps, Alloc("wrong", (4, 8), "float32"), step]


def _too_many_partitions(rng, steps):
    shape = (int(rng.integers(129, 1000)), 4)
    return [*steps, Alloc("wrong", shape, "float32", pick(rng, ("sbuf", "psum")))]


def _too_large(rng, steps):
    address = pick(rng, (None, (0, 1 << 20), (120, 0), (-32, 0)))
    columns = 4 if address else 10**6
    return [*steps, Alloc("wrong", (32, columns), "float32", "sbuf", address)]


def _unwritten(rng, steps):
    opcode, source = pick(
        rng, (("tensor_copy", "src"), ("reciprocal", "data"), ("max8", "src"), ("dma_copy", "src"))
    )
    made = [Alloc("wrong", (8, 8), "float32"), Alloc("result", (8, 8), "float32")]
    return [*steps, *made, Step(opcode, {"dst": View("result"), source: View("wrong")})]


def _wrong_dtype(rng, steps):
    wrong = Alloc("wrong", (8, 8), "float32"), Alloc("result", (8, 8), "bfloat16", "psum")
    fill = Step("memset", {"dst": View("wrong"), "value": 1.0})
    other = Step("memset", {"dst": View("result"), "value": 1.0})
    step = pick(
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
    drawn = {name: pick(rng, values) for name, values in options.items()}
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
