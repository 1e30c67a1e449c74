"""What a kernel's tensors must hold: its steps, told again in float64 intervals.

Tensors are flat arrays of elements; a view is an array of element numbers, made by numpy's own
views. Nothing of trnsim is used. `Refused` is raised where a step has no documented result, so that
whoever makes or shrinks a kernel drops the step.
"""

from __future__ import annotations

from math import prod

import numpy as np
from formats import FLOAT32, FORMATS
from kernel import Alloc, At, Claim, Loop, Name, View, While
from value_intervals import Interval

# Partitions that share the offsets of an indirect view (nki.language.NkiTensor.indirect).
_LANE_GROUP = 16
_ARRAY_GROUP = 32
_LONGEST = 20


class Refused(Exception):
    """The step has no result that the documents give."""


class Tensor:
    """A tensor's elements: intervals, and which were written or accumulated into."""

    def __init__(self, shape, dtype, buffer, address=None):
        self.shape = tuple(shape)
        self.format = FORMATS[dtype]
        self.buffer = buffer
        self.address = address
        size = prod(self.shape)
        self.values = Interval(np.zeros(size))
        self.written = np.zeros(size, bool)
        self.started = np.zeros(size, bool)

    @property
    def box(self):
        """Partitions and bytes that it occupies, where its address is fixed."""
        row = prod(self.shape[1:]) * self.format.itemsize
        partition, offset = self.address
        return partition, partition + self.shape[0], offset, offset + row

    def __copy__(self):
        made = object.__new__(Tensor)
        made.__dict__.update(self.__dict__)
        return made


class Oracle:
    """The state of a kernel between two steps.

    Attributes:
        tensors: by name; those that an overlapping one has replaced are gone.
        variables: loop variables and registers.
        accumulators: the registers of the Vector and the Scalar Engine, [P, 1], or None.
        random: the state of each engine's generators, where it is known.
        generation: of the NeuronCore.
    """

    def __init__(self, target, inputs):
        self.generation = GENERATIONS[target]
        self.random = {}
        self.variables = {}
        self.accumulators = {"vector": None, "scalar": None}
        self.tensors = {}
        for name, (values, dtype) in inputs.items():
            tensor = Tensor(np.shape(values), dtype, "hbm")
            stored = np.asarray(values, tensor.format.stored).astype(np.float64)
            tensor.values = Interval(stored.reshape(-1))
            tensor.written[:] = True
            self.tensors[name] = tensor

    def snapshot(self):
        """What `restore` takes back; arrays are never changed in place."""
        tensors = {name: tensor.__copy__() for name, tensor in self.tensors.items()}
        return tensors, dict(self.variables), dict(self.accumulators), dict(self.random)

    def restore(self, snapshot):
        self.tensors, self.variables, self.accumulators, self.random = snapshot

    def run(self, steps, meanings):
        """Apply steps in order."""
        for step in steps:
            self.apply(step, meanings)

    def apply(self, step, meanings):
        if isinstance(step, Alloc):
            self._allocate(step)
        elif isinstance(step, Loop):
            for i in step.values:
                self.variables[step.variable] = i
                self.run(step.body, meanings)
        elif isinstance(step, While):
            self._repeat(step, meanings)
        elif isinstance(step, Claim):
            self.run(step.body, meanings)
            self._narrow(step)
        else:
            self._need_order(step)
            self._group = _ARRAY_GROUP if step.opcode.startswith("nc_matmul") else _LANE_GROUP
            meanings[step.opcode](self, **step.args)

    def _need_order(self, step):
        """Refuse a result that lies over other elements of an operand of its size."""
        views = {name: x for name, x in step.args.items() if isinstance(x, View)}
        for name in _RESULTS & views.keys():
            for other in views.keys() - {name}:
                if views[name].tensor == views[other].tensor:
                    dst, src = self._bytes(views[name]), self._bytes(views[other])
                    in_order = "transpose" not in step.opcode and np.array_equal(
                        dst[:, 0], src[:, 0]
                    )
                    self.need(
                        len(dst) != len(src) or in_order or not np.isin(dst, src).any(),
                        "which elements are read before they are overwritten nobody says",
                    )

    def _bytes(self, view):
        """The bytes of each element of a view, in the order of the view."""
        itemsize = self.format(view).itemsize
        return self.places(view).reshape(-1, 1) * itemsize + np.arange(itemsize)

    def _repeat(self, step, meanings):
        self.variables[step.variable] = self.variables[step.start]
        for _ in range(_LONGEST):
            if self.variables[step.variable] == 0:
                return
            self.run(step.body, meanings)
        raise Refused("the loop does not end")

    def _narrow(self, claim):
        values = self.bits(claim.view)
        low, high = np.maximum(values.low, claim.low), np.minimum(values.high, claim.high)
        self.need(low <= high, "the claim contradicts the intervals")
        self.put(claim.view, Interval(low, high))

    def _allocate(self, step):
        made = Tensor(step.shape, step.dtype, step.buffer, step.address)
        if step.address is not None:
            for name, other in list(self.tensors.items()):
                if other.address and other.buffer == made.buffer and _overlap(made.box, other.box):
                    del self.tensors[name]
        self.tensors[step.name] = made

    # Reading and writing

    def tensor(self, view):
        if view.tensor not in self.tensors:
            raise Refused(f"{view.tensor} is gone")
        return self.tensors[view.tensor]

    def format(self, view):
        """The format under which a view's elements are seen."""
        casts = [args[0].last for method, args in view.chain if method in _CASTS]
        return FORMATS[casts[-1]] if casts else self.tensor(view).format

    def shape(self, view):
        return self.places(view).shape

    def places(self, view):
        """The element numbers of a view, in elements of its own format."""
        tensor = self.tensor(view)
        places = np.arange(prod(tensor.shape)).reshape(tensor.shape)
        itemsize = tensor.format.itemsize
        for method, args in view.chain:
            if method in _CASTS:
                new = FORMATS[args[0].last].itemsize
                places, itemsize = _recounted(places, itemsize, new), new
            else:
                places = self._seen(places, method, args)
        return places

    def _seen(self, places, method, args):
        if method == "[]":
            return places[tuple(self._index(index) for index in args)]
        if method == "vector_select":
            return places[self._rows(args[1].text)]
        if method == "indirect":
            return self._snake(places, *args)
        if method == "ap":
            return self._pattern(places, *args)
        return _METHODS[method](places, *args)

    def _pattern(self, places, pattern, offset, register=None, dim=0):
        """From the first element on; a register counts steps of a dimension of the view."""
        grids = np.ix_(*[np.arange(count) * step for step, count in pattern])
        if register is not None:
            row = prod(places.shape[dim + 1 :])
            offset += self.variables[register.last] * row
        return places.reshape(-1)[0] + offset + sum(grids)

    def _snake(self, places, name, count):
        """Element i of a partition: the column that index[i % G, i // G] of its group names."""
        index = self.bits(View(name.text))
        self.need(index.is_point, "the indices are not known")
        groups = index.low.astype(int).reshape(-1, self._group, *index.shape[1:])
        columns = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :count]
        rows = np.arange(len(places))
        return places[rows[:, None], columns[rows // self._group]]

    def _rows(self, name):
        """What a column of indices holds."""
        rows = self.bits(View(name))
        self.need(rows.is_point and len(rows.shape) == len("PF"), "the indices are not known")
        return rows.low[:, 0].astype(int)

    def _index(self, index):
        if isinstance(index, At):
            start = self.variables[index.variable] * index.scale
            return slice(start, start + index.size)
        return self.variables[index.last] if isinstance(index, Name) else index

    def bits(self, view):
        """The elements as stored, in the shape of the view.

        Raises:
            Refused: where something has not been written.
        """
        tensor, places = self.tensor(view), self.places(view)
        if self.format(view) is not tensor.format:
            return self._reinterpreted(tensor, view, places)
        if not tensor.written[places].all():
            raise Refused(f"{view} is not written")
        return tensor.values.map(lambda values: values[places])

    def _reinterpreted(self, tensor, view, places):
        """Through bytes, which only exact and fully written tensors have."""
        if not (tensor.written.all() and tensor.values.is_point):
            raise Refused(f"the bytes of {view} are not known")
        if np.isnan(tensor.values.low).any():
            raise Refused(f"{view} holds NaN, of which the bits are nobody's")
        stored = tensor.values.low.astype(tensor.format.stored)
        return Interval(stored.view(self.format(view).stored)[places].astype(np.float64))

    def load(self, view):
        """The values in float32, as [P, F]."""
        values = self.bits(view).map(lambda x: x.reshape(x.shape[0], -1))
        is_wide = self.format(view).kind == "int" and self.format(view).itemsize > 2
        return values.rounded(FLOAT32) if is_wide else values

    def column(self, operand, like):
        """A number, or a [P, 1] tile, to be broadcast along the free axis of `like`."""
        if isinstance(operand, View):
            return self.load(operand)
        with np.errstate(over="ignore"):
            number = float(np.float32(0.0 if operand is None else operand))
        return Interval(np.full((like.shape[0], 1), number))

    def store(self, view, values):
        """Write `values`, rounded once to the format of the view."""
        self.put(view, values.rounded(self.format(view)))

    def put(self, view, values, where=None):
        """Write elements as stored, or those of them for which `where` holds."""
        tensor, places = self.tensor(view), self.places(view)
        if self.format(view) is not tensor.format:
            raise Refused("the oracle does not write bytes of another format")
        chosen = np.ones(places.shape, bool) if where is None else where.reshape(places.shape)
        at = places[chosen]
        low, high = tensor.values.low.copy(), tensor.values.high.copy()
        low[at] = values.low.reshape(places.shape)[chosen]
        high[at] = values.high.reshape(places.shape)[chosen]
        tensor.values = Interval(low, low if np.array_equal(low, high, equal_nan=True) else high)
        tensor.written = tensor.written.copy()
        tensor.written[at] = True

    def mark_started(self, view):
        """A matmul has written these elements."""
        tensor = self.tensor(view)
        tensor.started = tensor.started.copy()
        tensor.started[self.places(view)] = True

    def need(self, condition, why="out of range"):
        """Refuse unless a condition holds."""
        if not np.all(condition):
            raise Refused(why)


GENERATIONS = {"trn1": 2, "inf2": 2, "trn2": 3, "trn3": 4}
_CASTS = ("view", "reinterpret_cast")
_RESULTS = {"dst", "reduce_res"}


def _overlap(a, b):
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _recounted(places, itemsize, new):
    """Element numbers in units of another size; the last axis is contiguous."""
    if new < itemsize:
        parts = itemsize // new
        inner = places[..., None] * parts + np.arange(parts)
        return inner.reshape(*places.shape[:-1], -1)
    return places[..., :: new // itemsize] * itemsize // new


_METHODS = {
    "slice": lambda x, dim, start, end, step=1: x[
        (slice(None),) * dim + (slice(start, end, step),)
    ],
    "select": lambda x, dim, index: x.take(index, axis=dim),
    "permute": lambda x, dims: x.transpose(dims),
    "reshape": lambda x, shape: x.reshape(shape),
    "reshape_dim": lambda x, dim, lengths: x.reshape(*x.shape[:dim], *lengths, *x.shape[dim + 1 :]),
    "flatten_dims": lambda x, first, last: x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :]),
    "expand_dim": np.expand_dims,
    "squeeze_dim": lambda x, dim: x.squeeze(dim),
    "broadcast": lambda x, dim, size: np.broadcast_to(
        x, (*x.shape[:dim], size, *x.shape[dim + 1 :])
    ),
}
