"""An import in progress: entries for MLIR's values, and the graph under construction.

A value of MLIR is an entry of a scope: a tensor of the graph (`Value`); a constant (an array; a
splat takes the memory of one element); a `Stack` of parts; a pair of words (`Wide`); a tuple of
entries. A reader of an entry asks the scope for a form that it can take.
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
"""A value of MLIR in an import: a tensor of the graph, a constant, parts, words, or a tuple."""

_TERMINATORS: Final = ("func.return", "stablehlo.return", "sdy.return")
_MOST_FOLDED_ELEMENTS: Final = 4096
"""Maximum elements of constants whose operations are evaluated at import."""
_MOST_PARTS: Final = 256
"""Maximum number of parts of a tensor for which an operation is computed part by part."""


class NoCounterpart(NotModelled):
    """An operation of StableHLO that a graph does not have, with the line of the program."""


@dataclass(frozen=True, slots=True)
class Device:
    """One of the devices that run a program together: its number, and the number of devices."""

    number: int = 0
    count: int = 1


@dataclass
class Target:
    """A graph under construction.

    Attributes:
        functions: the module's functions by their names.
        device: the device whose program it is.
        b: the builder of the graph.
        constants: the constants that are inputs of the graph, by the number of the value.
        tables: the inputs that hold constants, by the constant's address, shape and strides.
        operators: StableHLO's operations that were imported, in order.
        reads: the properties of its device that the program reads.
    """

    functions: dict[str, Op]
    device: Device = Device()
    b: Build = field(default_factory=Build)
    constants: dict[int, Array] = field(default_factory=dict[int, Array])
    tables: dict[Any, Value] = field(default_factory=dict[Any, Value])
    operators: list[str] = field(default_factory=list[str])
    reads: set[str] = field(default_factory=set[str])

    def empty_target(self) -> Target:
        """A target for the same module, with an empty graph."""
        return Target(self.functions, self.device, operators=self.operators, reads=self.reads)


@dataclass(frozen=True, slots=True)
class Share:
    """A device's share of a tensor, the only part that the device reads."""

    window: Entry


class Scope:
    """The values that a block sees.

    Attributes:
        target: the graph to which its operations go.
        path: the program's scopes around it.
    """

    def __init__(
        self, target: Target, parent: Scope | None = None, path: Path | None = None
    ) -> None:
        self.target = target
        self.path: Path = path or (parent.path if parent else Path())
        self._parent = parent
        self._entries: dict[Ssa, Entry] = {}

    @property
    def b(self) -> Build:
        """The builder of the graph."""
        return self.target.b

    @property
    def graph(self) -> Graph:
        """The graph to which operations go."""
        return self.target.b.graph

    def bind(self, ssa: Ssa, entry: Entry) -> None:
        """Set the entry of a value of MLIR."""
        self._entries[ssa] = entry

    def entry(self, ssa: Ssa) -> Entry:
        """The entry of a value of MLIR, from this scope or a scope around it."""
        if ssa in self._entries:
            return self._entries[ssa]
        if self._parent is None:
            raise InternalError(f"{ssa} has no maker in its function")
        return self._parent.entry(ssa)

    def has_entry(self, ssa: Ssa) -> bool:
        """True if this scope or a scope around it has an entry for a value."""
        return ssa in self._entries or (self._parent is not None and self._parent.has_entry(ssa))

    def value(self, ssa: Ssa) -> Value:
        """A value of MLIR as a tensor of the graph."""
        return self.tensor(self.entry(ssa))

    def tensor(self, entry: Entry) -> Value:
        """An entry as a tensor of the graph."""
        if isinstance(entry, Value):
            return entry
        if isinstance(entry, Stack):
            return self._concatenate_parts(entry)
        if isinstance(entry, np.ndarray):
            return self._materialize(entry)
        raise NotModelled(f"{type(entry).__name__.lower()} where a tensor is read")

    def operand(self, ssa: Ssa) -> Value | float:
        """A value of MLIR as an operand of an elementwise operation: a splat as a number."""
        numbers = self.constant_of(ssa)
        return self.value(ssa) if numbers is None or not is_splat(numbers) else splat_value(numbers)

    def constant_of(self, ssa: Ssa) -> Array | None:
        """The elements of a value of MLIR that is a constant; None for any other."""
        entry = self.entry(ssa)
        return entry if isinstance(entry, np.ndarray) else None

    def result(self, op: Op, index: int = 0) -> TensorType:
        """The type of an operation's result."""
        return mlir.tensor_type(op.results[index].type)

    def run(self, block: Block, entries: Sequence[Entry], path: Path | None = None) -> list[Entry]:
        """The entries that a block returns; its operations are added to the graph."""
        inner_scope = Scope(self.target, self, path)
        for argument, entry in zip(block.arguments, entries, strict=True):
            inner_scope.bind(argument, entry)
        for op in block.operations:
            operation = op.operation
            if operation.name in _TERMINATORS:
                return [inner_scope.entry(value) for value in operation.operands]
            inner_scope.add(operation)
        return []

    def add(self, op: Op) -> None:
        """Import an operation.

        Raises:
            NoCounterpart: the graph has none of its kind, with the program's line.
        """
        origin = self.path.origin(op)
        self.graph.current_origin = origin
        try:
            results_of_rule = self._build(op)
        except NoCounterpart:
            raise
        except EmulatorError as error:
            reason = error.reason if op.name in error.reason else f"{op.name}: {error.reason}"
            raise NoCounterpart(
                reason, fix=error.fix, source=error.source, line=origin.line
            ) from error
        entries = (
            results_of_rule
            if isinstance(results_of_rule, tuple | list) and len(op.results) != 1
            else (results_of_rule,)
        )
        for result, entry in zip(op.results, entries, strict=True):
            traced_entry = replace(entry, origin=origin) if isinstance(entry, Stack) else entry
            self.bind(result, traced_entry)

    def _build(self, op: Op) -> Any:
        """The results of an operation; evaluated at import where its operands are constants."""
        rule = RULES.get(op.name)
        if rule is None:
            refused.refuse(op.name)
        self.target.operators.append(op.name)
        if rule.is_by_parts:
            stack = self._split_operand(op)
            if stack is not None:
                return self._build_by_parts(op, rule, stack)
        is_known = rule.is_folded and len(op.operands) and not len(op.regions)
        arrays = [self.constant_of(value) for value in op.operands] if is_known else [None]
        if any(array is None for array in arrays):
            return rule.build(self, op)
        return self._fold_constants(op, rule, [array for array in arrays if array is not None])

    def _split_operand(self, op: Op) -> Stack | None:
        """The operand by whose parts an operation is split; None without a stack of few parts."""
        entries = [self.entry(value) for value in op.operands]
        stacks = [stack for stack in entries if isinstance(stack, Stack)]
        if not stacks or any(stack.cuts != stacks[0].cuts for stack in stacks[1:]):
            return None
        return stacks[0] if len(stacks[0].parts) <= _MOST_PARTS else None

    def _build_by_parts(self, op: Op, rule: Rule, stack: Stack) -> Stack:
        """The result of an elementwise operation, built part by part."""
        parts, start = list[Part](), 0
        for part in stack.parts:
            scratch = Scope(self.target, self)
            for value in op.operands:
                scratch.bind(value, self._part(self.entry(value), stack.dim, start, part.length))
            parts.append(Part(rule.build(scratch, op), 0, part.length))
            start += part.length
        return Stack(self.result(op), stack.dim, tuple(parts))

    def _part(self, entry: Entry, dim: int, start: int, length: int) -> Entry:
        """The slice of an entry along `dim`; for a stack, a slice of one of its parts."""
        if isinstance(entry, Stack):
            (part,) = entry.slice_parts(start, length)
            return self.slice_along(part.entry, dim, part.start, part.length)
        return self.slice_along(entry, dim, start, length)

    def _fold_constants(self, op: Op, rule: Rule, arrays: list[Array]) -> Any:
        """The result of an operation on constants: evaluated if they are small or splats."""
        sizes = [len(array.ravel()[:1]) if is_splat(array) else array.size for array in arrays]
        shape = mlir.shape_of(op.results[0].type)
        is_small = (
            int(np.prod(shape)) <= _MOST_FOLDED_ELEMENTS
            and max(array.size for array in arrays) <= _MOST_FOLDED_ELEMENTS
        )
        types = [*(array.dtype.name for array in arrays), mlir.element_type(op.results[0].type)]
        has_graph_types = all(name in ELEMENT_TYPES for name in types) and len(op.results) == 1
        are_splats = all(size <= 1 for size in sizes) and all(
            array.shape == shape for array in arrays
        )
        if not has_graph_types or not (is_small or are_splats) or not np.prod(shape):
            return rule.build(self, op)
        scratch = Scope(self.target.empty_target(), self)
        inputs = [array.ravel()[:1] if are_splats and not is_small else array for array in arrays]
        for ssa, array in zip(op.operands, inputs, strict=True):
            scratch.bind(ssa, scratch.graph.input(array.shape, array.dtype.name))
        result = rule.build(scratch, op)
        if isinstance(result, np.ndarray):
            return result
        scratch.graph.outputs = [scratch.tensor(result)]
        with np.errstate(all="ignore"):
            arguments = [*inputs, *scratch.target.constants.values()]
            (numbers,) = scratch.graph.reference(arguments)
        return compact(np.broadcast_to(numbers, shape))

    def call(self, name: str, entries: Sequence[Entry], path: Path) -> list[Entry]:
        """The entries that a function returns; its operations are added to the graph."""
        function = self.target.functions[name]
        function_scope = Scope(self.target, None, path)
        return function_scope.run(mlir.body_of(function), entries)

    def _materialize(self, numbers: Array) -> Value:
        """A constant as a tensor of the graph: an operation for a splat, else an input."""
        type_ = TensorType(numbers.shape, numbers.dtype.name)
        if type_.dtype not in ELEMENT_TYPES:
            raise NotModelled(
                f"a constant of {type_.dtype}; a NeuronCore stores {', '.join(ELEMENT_TYPES)}"
            )
        if is_splat(numbers) or not numbers.size:
            return self.graph.constant(splat_value(numbers) if numbers.size else 0.0, type_)
        stored_dims = [
            dim for dim, step in enumerate(numbers.strides) if step or type_.shape[dim] == 1
        ]
        table = numbers[
            tuple(slice(None) if dim in stored_dims else 0 for dim in range(numbers.ndim))
        ]
        return self.graph.broadcast_in_dim(self._constant_input(table), type_.shape, stored_dims)

    def _constant_input(self, numbers: Array) -> Value:
        """The input of the graph that holds a constant; one input for the same memory."""
        memory = numbers.__array_interface__["data"][0], numbers.shape, numbers.strides
        if memory not in self.target.tables:
            value = self.graph.input(numbers.shape, numbers.dtype.name)
            self.target.constants[value.number] = numbers
            self.target.tables[memory] = value
        return self.target.tables[memory]

    def _concatenate_parts(self, stack: Stack) -> Value:
        """A stack as one tensor: its parts concatenated."""
        self.graph.current_origin = stack.origin or self.graph.current_origin
        parts = [
            self.slice_along(part.entry, stack.dim, part.start, part.length) for part in stack.parts
        ]
        return self.graph.concatenate([self.tensor(part) for part in parts], stack.dim)

    def slice_along(self, entry: Entry, dim: int, start: int, length: int) -> Entry:
        """A slice of an entry: `length` indices of a dimension from `start` on."""
        if isinstance(entry, np.ndarray):
            return entry[(*(slice(None),) * dim, slice(start, start + length))]
        value = self.tensor(entry)
        starts = [start if axis == dim else 0 for axis in range(len(value.shape))]
        shape = [length if axis == dim else n for axis, n in enumerate(value.shape)]
        return self.graph.slice(value, starts, shape)


def is_splat(numbers: Array) -> bool:
    """True if an array is one element in memory, repeated over its shape."""
    return numbers.size == 1 or (numbers.size > 1 and not any(numbers.strides))


def compact(numbers: Array) -> Array:
    """The same array; as a splat if the bytes of all elements are equal."""
    if numbers.size < 2 or is_splat(numbers):  # noqa: PLR2004  two are the fewest that may differ
        return numbers
    dense_array = np.ascontiguousarray(numbers)
    rows = dense_array.view(np.uint8).reshape(numbers.size, -1)
    if not (rows == rows[0]).all():
        return numbers
    return np.broadcast_to(dense_array[(0,) * dense_array.ndim], dense_array.shape)


def splat_value(numbers: Array) -> float:
    """The number that a splat repeats."""
    return float(numbers[(0,) * numbers.ndim])
