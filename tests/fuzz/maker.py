"""What every random kernel is made of: tensors, views of them in many layouts, and values.

A `Maker` writes steps and tells the oracle of each, so that it knows what has been written and
which values would leave the documented ranges. Whatever the oracle refuses is taken back.
"""

from __future__ import annotations

from math import prod

import numpy as np
from formats import FLOATS, FORMATS, INTEGERS, available
from kernel import Alloc, Name, Step, View
from meanings import MEANINGS
from operators import BINARY, NEWEST
from oracle import Oracle, Refused

SBUF = ("sbuf",)
ANY = (*FLOATS, *INTEGERS)
V3, V4 = 3, 4
_PARTITIONS = (1, 2, 3, 5, 8, 16, 31, 32, 33, 48, 64, 100, 128)
_COLUMNS = (1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 33, 64)
_QUADRANT = 32
# Candidates whose results the oracle mostly cannot tell are of no use.
_KNOWN_SHARE = 0.7


class Maker:
    """A kernel in the making."""

    def __init__(self, rng, target):
        self.rng = rng
        self.inputs = {}
        self.steps = []
        self.oracle = Oracle(target, {})
        self.generation = self.oracle.generation
        self.formats = available(self.generation)
        self.partitions = [self.pick(_PARTITIONS) for _ in range(2)]
        self.columns = [self.pick(_COLUMNS) for _ in range(2)]
        self._count = 0
        self._next_byte = 0

    # Draws

    def pick(self, options):
        options = list(options)
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability):
        return self.rng.random() < probability

    def size(self):
        """Partitions and columns: few different ones, so that tensors meet again."""
        return self.pick(self.partitions), self.pick(self.columns)

    def number(self):
        """A constant as kernels have them."""
        if self.chance(0.5):
            return float(self.rng.integers(-4, 5))
        return float(np.round(self.rng.normal(), int(self.rng.integers(1, 6))))

    def name(self, prefix="t"):
        self._count += 1
        return f"{prefix}{self._count}"

    def values(self, shape, format_):
        """An array in a format: numbers of ordinary size, now and then extreme ones."""
        size = prod(shape)
        if format_.kind == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if format_.kind == "int":
            span = self.pick((4, 100, min(format_.largest, 2.0**20), format_.largest))
            low = max(format_.smallest, -span)
            values = np.rint(self.rng.uniform(low, min(span, format_.largest), size))
        elif self.chance(0.4):
            values = self.rng.integers(-8, 9, size).astype(float)
        else:
            values = self.rng.normal(size=size) * 2.0 ** self.rng.integers(-4, 3)
        if format_.is_float and self.chance(0.06):
            special = (0.0, format_.largest, -format_.largest, 2.0**-130, np.inf, -np.inf, np.nan)
            where = self.rng.random(size) < 0.1
            values = np.where(where, self.rng.choice(special, size), values)
        with np.errstate(all="ignore"):
            return format_.rounded(values).astype(format_.stored).reshape(shape)

    # Steps

    def do(self, step):
        """Write a step, unless the oracle refuses it or cannot tell its values."""
        before = self.oracle.snapshot()
        try:
            self.oracle.apply(step, MEANINGS)
            self._check_known(step)
        except Refused:
            self.oracle.restore(before)
            return False
        self.steps.append(step)
        return True

    def _check_known(self, step):
        for view in getattr(step, "args", {}).values():
            if isinstance(view, View) and view.tensor in self.oracle.tensors:
                values = self.oracle.tensors[view.tensor].values
                self.oracle.need(np.mean(~values.unknown()) >= _KNOWN_SHARE, "too little known")

    def alloc(self, shape, dtype, buffer="sbuf", *, is_placed=True):
        """A new tensor; in SBUF now and then at an address."""
        name, address = self.name(), None
        if is_placed and buffer == "sbuf" and self.chance(0.15):
            address = self._address(shape, FORMATS[dtype].itemsize)
        self.do(Alloc(name, tuple(shape), dtype, buffer, address))
        return View(name)

    def _address(self, shape, itemsize):
        """Behind the other placed tensors, or over them."""
        start = self.pick(self.starts(shape[0]))
        row = -(-prod(shape[1:]) * itemsize // 4) * 4
        if self.chance(0.2):
            return (start, 4 * int(self.rng.integers(0, self._next_byte // 4 + 1)))
        first, self._next_byte = self._next_byte, self._next_byte + row
        return (start, first)

    @staticmethod
    def starts(length, first=0):
        """Where `length` partitions may start: trainium_inferentia2_arch.rst, start_partition."""
        step = next(s for s in (_QUADRANT, 2 * _QUADRANT, 4 * _QUADRANT) if length <= s)
        return [start for start in range(first, 129 - length) if start % step == 0]

    def array(self, shape, dtype):
        """A new input in HBM."""
        name, stored = self.name("x"), "float32" if dtype == "tfloat32" else dtype
        self._input(name, self.values(shape, FORMATS[dtype]), stored)
        return View(name)

    def _input(self, name, values, dtype):
        self.inputs[name] = (values, dtype)
        self.oracle.tensors.update(Oracle("trn2", {name: (values, dtype)}).tensors)

    def filled(self, shape, dtype, buffer="sbuf", *, is_placed=True):
        """A new tensor on chip that holds values."""
        view = self.alloc(shape, dtype, buffer, is_placed=is_placed)
        if self.chance(0.1):
            value = self.number() if FORMATS[dtype].is_float else 1
            self.do(Step("memset", {"dst": view, "value": value}))
            return view
        source = view if buffer == "sbuf" else self.alloc(shape, dtype)
        self.do(Step("dma_copy", {"dst": source, "src": self.array(shape, dtype)}))
        if buffer != "sbuf":
            self.do(Step("tensor_copy", {"dst": view, "src": source}))
        return view

    def given(self, values, dtype, *, seen="", is_placed=True):
        """A new tensor in SBUF that holds these values, in a format or seen as another one."""
        name = self.name("x")
        self._input(name, values, dtype)
        source = View(name).then("view", Name(f"nl.{seen}")) if seen else View(name)
        view = self.alloc(values.shape, seen or dtype, is_placed=is_placed)
        self.do(Step("dma_copy", {"dst": view, "src": source}))
        return view

    def indices(self, shape, dtype, limit):
        """A tile of indices, below a limit."""
        return self.given(self.rng.integers(0, limit, shape).astype(dtype), dtype)

    # Views

    def _chosen(self, formats, memories):
        return self.pick(f for f in self.formats if f in formats), self.pick(memories)

    def read(self, P, F, formats=ANY, memories=("sbuf", "psum")):
        """A view of P partitions and F elements each, of something written."""
        old = self._existing(P, F, formats, memories, written=True)
        if old is not None and self.chance(0.6):
            return old
        dtype, buffer = self._chosen(formats, memories)
        shape, chain = self._layout(P, F, is_read=True)
        return View(self.filled(shape, dtype, buffer).tensor, chain)

    def write(self, P, F, formats=ANY, memories=("sbuf", "psum")):
        """A view that may be written: of a new tensor, or of one that holds something."""
        old = self._existing(P, F, formats, memories, written=False)
        if old is not None and self.chance(0.4):
            return old
        dtype, buffer = self._chosen(formats, memories)
        shape, chain = self._layout(P, F, is_read=False)
        view = self.alloc(shape, dtype, buffer)
        if prod(shape) != P * F and self.chance(0.8):
            self.do(Step("memset", {"dst": view, "value": 1}))
        return View(view.tensor, chain)

    def column(self, P, formats=("float32",)):
        """A number, or a [P, 1] tile."""
        if self.chance(0.5):
            return self.number()
        return self.read(P, 1, formats)

    def _existing(self, P, F, formats, memories, *, written):
        found = [
            (name, tensor)
            for name, tensor in self.oracle.tensors.items()
            if tensor.buffer in memories
            and tensor.format.name in formats
            and tensor.shape[0] >= P
            and prod(tensor.shape[1:]) >= F
            and (tensor.written.all() or not written)
        ]
        if not found:
            return None
        name, tensor = self.pick(found)
        first = tensor.address[0] if tensor.address else 0
        rows = [s - first for s in self.starts(P, first) if s - first + P <= tensor.shape[0]]
        if not rows:
            return None
        return self._part(View(name), tensor.shape, self.pick(rows), P, F)

    def _part(self, view, shape, row, P, F):
        """P rows from `row` on, and F of the flattened columns."""
        width = prod(shape[1:])
        if len(shape) != 2:
            view = view.then("reshape", (shape[0], width))
        if (row, P, F) == (0, shape[0], width):
            return view
        step = self.pick(range(1, (width - 1) // max(F - 1, 1) + 1)) if F > 1 else 1
        start = int(self.rng.integers(0, width - (F - 1) * step))
        rows, columns = slice(row, row + P), slice(start, start + (F - 1) * step + 1, step)
        if self.chance(0.3):
            pattern = [[width, P], [step, F]]
            return view.then("ap", pattern, row * width + start)
        if self.chance(0.3):
            view = view.then("slice", 1, columns.start, columns.stop, step)
            return view.then("[]", rows)
        return view.then("[]", rows, columns)

    def _layout(self, P, F, *, is_read):
        """The shape of a tensor, and a chain of views that leads to [P, F] of it."""
        inner = self.pick(n for n in range(1, F + 1) if F % n == 0)
        a, b = F // inner, inner
        more = int(self.rng.integers(1, 3))
        row = self.pick(self.starts(P))
        extra = int(self.rng.integers(0, 4))
        layouts = [
            ((P, F), ()),
            ((P, F), ()),
            ((P, a, b), ()),
            ((P, b, a), (("permute", ((0, 2, 1),)),)),
            ((P, F), (("reshape", ((P, a, b),)),)),
            ((P, F), (("reshape_dim", (1, (a, b))),)),
            ((P, a, b), (("flatten_dims", (1, 2)),)),
            ((P, F), (("expand_dim", (1,)),)),
            ((P, 1, F), (("squeeze_dim", (1,)),)),
            ((P, more + 1, F), (("select", (1, more)),)),
            ((P, more + 1, F), (("[]", (slice(0, P), more)),)),
            ((row + P, F), (("[]", (slice(row, row + P),)),)),
            ((P, F * more + extra), (("[]", (slice(0, P), slice(extra, F * more + extra, more))),)),
            ((P, F * more + extra), (("ap", ([[F * more + extra, P], [more, F]], extra)),)),
        ]
        if is_read:
            layouts += [
                ((P, a, 1), (("broadcast", (2, b)),)),
                ((P, 1, b), (("broadcast", (1, a)),)),
                ((P, b), (("ap", ([[b, P], [0, a], [1, b]], 0)),)),
            ]
        return self.pick(layouts)


def one_in_psum(g):
    """Memories of two inputs, of which at most one may be in PSUM."""
    return g.pick(((SBUF, SBUF), (SBUF, ("psum",)), (("psum",), SBUF)))


def binary(g):
    """An operator of two operands that the generation has."""
    return g.pick(n for n in BINARY if n != "power" and (g.generation >= V4 or n not in NEWEST))


def command(name):
    """A member of nisa.reduce_cmd."""
    return Name(f"nisa.reduce_cmd.{name}")


def engine(name):
    """A member of nisa.engine."""
    return Name(f"nisa.engine.{name}")
