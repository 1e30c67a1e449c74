"""An import in progress: what MLIR's values are, and the graph to which operations go.

A value of MLIR is an entry of a scope: a tensor of the graph (`Value`); numbers that are known (an
array, of which one that repeats takes the memory of one); a `Stack` of parts; a pair of words
(`Wide`); a tuple of entries. Whoever reads an entry asks for what it can take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from trnsim.errors import EmulatorError, InternalError, NotModelled
from trnsim.graph import Graph, Value
from trnsim.graph.building.build import Build
from trnsim.graph.types import ELEMENT_TYPES, Array, TensorType
from trnsim.jax.stablehlo import mlir, refused
from trnsim.jax.stablehlo.mlir import Block, Op, Ssa
from trnsim.jax.stablehlo.origins import Path
from trnsim.jax.stablehlo.rules import RULES, Rule
from trnsim.jax.stablehlo.stack import Part, Stack

Entry = Any
"""What a value of MLIR is: a tensor of the graph, known numbers, or parts."""

_ENDS: Final = ("func.return", "stablehlo.return", "sdy.return")
_FOLDED: Final = 4096
"""Elements of known numbers up to which an operation on them is computed at once."""


_PARTS: Final = 256
"""Parts of a tensor up to which an operation on its elements is computed part by part."""


class NoCounterpart(NotModelled):
    """An operation of StableHLO that a graph does not have, with the line of the program."""


@dataclass(frozen=True, slots=True)
class Device:
    """One of the devices that run a program together: its number, and how many they are."""

    number: int = 0
    count: int = 1


@dataclass
class Target:
    """A graph that is being made.

    Attributes:
        functions: the module's functions by their names.
        device: whose program it is.
        b: the graph, and what it is built with.
        constants: inputs of the graph that hold known numbers, by number.
        tables: these inputs, by where their numbers lie in memory.
        operators: StableHLO's operations that were imported, in order.
        asked: what the program asked of its device.
    """

    functions: dict[str, Op]
    device: Device = Device()
    b: Build = field(default_factory=Build)
    constants: dict[int, Array] = field(default_factory=dict[int, Array])
    tables: dict[Any, Value] = field(default_factory=dict[Any, Value])
    operators: list[str] = field(default_factory=list[str])
    asked: set[str] = field(default_factory=set[str])

    def another(self) -> Target:
        """An empty graph for the same module."""
        return Target(self.functions, self.device, operators=self.operators, asked=self.asked)


@dataclass(frozen=True, slots=True)
class Share:
    """A device's own window of a tensor of which it reads no more."""

    window: Entry


class Scope:
    """The values that a block sees.

    Attributes:
        into: the graph to which its operations go.
        path: the program's scopes around it.
    """

    def __init__(self, into: Target, parent: Scope | None = None, path: Path | None = None) -> None:
        self.into = into
        self.path: Path = path or (parent.path if parent else Path())
        self._parent = parent
        self._entries: dict[Ssa, Entry] = {}

    @property
    def b(self) -> Build:
        """What the graph is built with."""
        return self.into.b

    @property
    def graph(self) -> Graph:
        """The graph to which operations go."""
        return self.into.b.graph

    def bind(self, ssa: Ssa, entry: Entry) -> None:
        """Say what a value of MLIR is."""
        self._entries[ssa] = entry

    def entry(self, ssa: Ssa) -> Entry:
        """What a value of MLIR is."""
        if ssa in self._entries:
            return self._entries[ssa]
        if self._parent is None:
            raise InternalError(f"{ssa} has no maker in its function")
        return self._parent.entry(ssa)

    def has(self, ssa: Ssa) -> bool:
        """Whether this scope or one around it knows a value."""
        return ssa in self._entries or (self._parent is not None and self._parent.has(ssa))

    def value(self, ssa: Ssa) -> Value:
        """A value of MLIR as a tensor of the graph."""
        return self.tensor(self.entry(ssa))

    def tensor(self, entry: Entry) -> Value:
        """An entry as a tensor of the graph."""
        if isinstance(entry, Value):
            return entry
        if isinstance(entry, Stack):
            return self._joined(entry)
        if isinstance(entry, np.ndarray):
            return self._constant(entry)
        raise NotModelled(f"{type(entry).__name__.lower()} where a tensor is read")

    def operand(self, ssa: Ssa) -> Value | float:
        """A value of MLIR as an operand of an elementwise operation: a number where it repeats."""
        known = self.known(ssa)
        return self.value(ssa) if known is None or not is_one(known) else number_of(known)

    def known(self, ssa: Ssa) -> Array | None:
        """The numbers of a value of MLIR, where they are known."""
        entry = self.entry(ssa)
        return entry if isinstance(entry, np.ndarray) else None

    def result(self, op: Op, place: int = 0) -> TensorType:
        """The type of what an operation gives."""
        return mlir.tensor_type(op.results[place].type)

    def run(self, block: Block, given: Sequence[Entry], path: Path | None = None) -> list[Entry]:
        """What a block returns; its operations go to the graph."""
        inner = Scope(self.into, self, path)
        for argument, entry in zip(block.arguments, given, strict=True):
            inner.bind(argument, entry)
        for op in block.operations:
            operation = op.operation
            if operation.name in _ENDS:
                return [inner.entry(value) for value in operation.operands]
            inner.add(operation)
        return []

    def add(self, op: Op) -> None:
        """Import an operation.

        Raises:
            NoCounterpart: the graph has none of its kind, with the program's line.
        """
        origin = self.path.origin(op)
        self.graph.came_from = origin
        try:
            found = self._found(op)
        except NoCounterpart:
            raise
        except EmulatorError as error:
            named = error.reason if op.name in error.reason else f"{op.name}: {error.reason}"
            raise NoCounterpart(
                named, fix=error.fix, source=error.source, line=origin.line
            ) from error
        several = found if isinstance(found, tuple | list) and len(op.results) != 1 else (found,)
        for result, entry in zip(op.results, several, strict=True):
            made = replace(entry, origin=origin) if isinstance(entry, Stack) else entry
            self.bind(result, made)

    def _found(self, op: Op) -> Any:
        """The results of an operation: computed at once where that is cheap."""
        made = RULES.get(op.name)
        if made is None:
            refused.refuse(op.name)
        self.into.operators.append(op.name)
        if made.is_by_parts:
            stack = self._split(op)
            if stack is not None:
                return self._by_parts(op, made, stack)
        is_known = made.is_pure and len(op.operands) and not len(op.regions)
        arrays = [self.known(value) for value in op.operands] if is_known else [None]
        if any(one is None for one in arrays):
            return made.build(self, op)
        return self._folded(op, made, [one for one in arrays if one is not None])

    def _split(self, op: Op) -> Stack | None:
        """The operand by whose parts an operation is computed: a few; None if there is none."""
        entries = [self.entry(value) for value in op.operands]
        stacks = [one for one in entries if isinstance(one, Stack)]
        if not stacks or any(one.cuts != stacks[0].cuts for one in stacks[1:]):
            return None
        return stacks[0] if len(stacks[0].parts) <= _PARTS else None

    def _by_parts(self, op: Op, made: Rule, stack: Stack) -> Stack:
        """The result of an operation on each element, a part after the other."""
        parts, first = list[Part](), 0
        for part in stack.parts:
            apart = Scope(self.into, self)
            for value in op.operands:
                apart.bind(value, self._part(self.entry(value), stack.dim, first, part.length))
            parts.append(Part(made.build(apart, op), 0, part.length))
            first += part.length
        return Stack(self.result(op), stack.dim, tuple(parts))

    def _part(self, entry: Entry, dim: int, start: int, length: int) -> Entry:
        """Some places of an entry; of a stack, the part that is they."""
        if isinstance(entry, Stack):
            (part,) = entry.within(start, length)
            return self.cut(part.entry, dim, part.start, part.length)
        return self.cut(entry, dim, start, length)

    def _folded(self, op: Op, made: Rule, arrays: list[Array]) -> Any:
        """The numbers of results whose operands are all known; a few of them, or all one."""
        sizes = [len(one.ravel()[:1]) if is_one(one) else one.size for one in arrays]
        shape = mlir.shape_of(op.results[0].type)
        is_small = int(np.prod(shape)) <= _FOLDED and max(one.size for one in arrays) <= _FOLDED
        types = [*(one.dtype.name for one in arrays), mlir.element_type(op.results[0].type)]
        is_ours = all(name in ELEMENT_TYPES for name in types) and len(op.results) == 1
        is_alike = all(size <= 1 for size in sizes) and all(one.shape == shape for one in arrays)
        if not is_ours or not (is_small or is_alike) or not np.prod(shape):
            return made.build(self, op)
        apart = Scope(self.into.another(), self)
        given = [one.ravel()[:1] if is_alike and not is_small else one for one in arrays]
        for ssa, one in zip(op.operands, given, strict=True):
            apart.bind(ssa, apart.graph.input(one.shape, one.dtype.name))
        found = made.build(apart, op)
        if isinstance(found, np.ndarray):
            return found
        apart.graph.outputs = [apart.tensor(found)]
        with np.errstate(all="ignore"):
            held = [*given, *apart.into.constants.values()]
            (numbers,) = apart.graph.reference(held)
        return compact(np.broadcast_to(numbers, shape))

    def call(self, name: str, given: Sequence[Entry], path: Path) -> list[Entry]:
        """What a function of the module returns; its operations go to the graph."""
        function = self.into.functions[name]
        outer = Scope(self.into, None, path)
        return outer.run(function.regions[0].blocks[0], given)

    def _constant(self, numbers: Array) -> Value:
        """Known numbers in the graph: an operation where they are all one, else an input."""
        wanted = TensorType(numbers.shape, numbers.dtype.name)
        if wanted.dtype not in ELEMENT_TYPES:
            raise NotModelled(
                f"a constant of {wanted.dtype}; a NeuronCore stores {', '.join(ELEMENT_TYPES)}"
            )
        if is_one(numbers) or not numbers.size:
            return self.graph.constant(number_of(numbers) if numbers.size else 0.0, wanted)
        kept = [dim for dim, step in enumerate(numbers.strides) if step or wanted.shape[dim] == 1]
        table = numbers[tuple(slice(None) if dim in kept else 0 for dim in range(numbers.ndim))]
        return self.graph.broadcast_in_dim(self._table(table), wanted.shape, kept)

    def _table(self, numbers: Array) -> Value:
        """An input of the graph that holds known numbers; the same memory is one input."""
        place = numbers.__array_interface__["data"][0], numbers.shape, numbers.strides
        if place not in self.into.tables:
            value = self.graph.input(numbers.shape, numbers.dtype.name)
            self.into.constants[value.number] = numbers
            self.into.tables[place] = value
        return self.into.tables[place]

    def _joined(self, stack: Stack) -> Value:
        """The parts of a stack behind one another."""
        self.graph.came_from = stack.origin or self.graph.came_from
        parts = [self.cut(one.entry, stack.dim, one.start, one.length) for one in stack.parts]
        return self.graph.concatenate([self.tensor(one) for one in parts], stack.dim)

    def cut(self, entry: Entry, dim: int, start: int, length: int) -> Entry:
        """A run of places along a dimension."""
        if isinstance(entry, np.ndarray):
            return entry[(*(slice(None),) * dim, slice(start, start + length))]
        value = self.tensor(entry)
        starts = [start if at == dim else 0 for at in range(len(value.shape))]
        shape = [length if at == dim else n for at, n in enumerate(value.shape)]
        return self.graph.slice(value, starts, shape)


def is_one(numbers: Array) -> bool:
    """Whether all elements are known to be the same number: one, repeated."""
    return numbers.size == 1 or (numbers.size > 1 and not any(numbers.strides))


def compact(numbers: Array) -> Array:
    """The same numbers; where they are all one, in the memory of one."""
    if numbers.size < 2 or is_one(numbers):  # noqa: PLR2004  two are the fewest that may differ
        return numbers
    dense = np.ascontiguousarray(numbers)
    rows = dense.view(np.uint8).reshape(numbers.size, -1)
    if not (rows == rows[0]).all():
        return numbers
    return np.broadcast_to(dense[(0,) * dense.ndim], dense.shape)


def number_of(numbers: Array) -> float:
    """The number that all elements are."""
    return float(numbers[(0,) * numbers.ndim])
