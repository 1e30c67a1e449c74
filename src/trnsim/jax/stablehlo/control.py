"""Calls, branches, loops, tuples and tokens.

A loop whose condition is known at every trip is unrolled, as PyTorch's loops are: its body is
imported once per trip, and the compiler merges equal layers. A loop of more than
`MOST_UNROLLED_OPERATIONS` stays a loop with a known number of trips. A loop whose condition depends
on values stays a loop with an unknown number of trips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import Graph, Value
from trnsim.graph.ops.control_flow import Case, If, While
from trnsim.graph.types import Array
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.composites import composite as by_name
from trnsim.jax.stablehlo.mlir import Block, Op, Ssa
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, is_splat

MOST_UNROLLED_OPERATIONS: Final = 50_000
"""Maximum number of operations, over all trips, of a loop that is unrolled."""


@rule("func.call", is_folded=False)
def call(scope: Scope, op: Op) -> Any:
    """The operations of the called function, inlined."""
    entries = [scope.entry(ssa) for ssa in op.operands]
    return _unpack(scope.call(mlir.symbol(op, "callee"), entries, scope.path.in_call(op)))


@rule("stablehlo.composite", is_folded=False)
def composite(scope: Scope, op: Op) -> Any:
    """The operation of that name, where the graph has it; else its decomposition."""
    results = by_name(scope, op)
    if results is not None:
        return results
    entries = [scope.entry(ssa) for ssa in op.operands]
    return _unpack(scope.call(mlir.symbol(op, "decomposition"), entries, scope.path.in_call(op)))


@rule("stablehlo.optimization_barrier", is_folded=False)
def optimization_barrier(scope: Scope, op: Op) -> Any:
    """The operands: an order of operations is the compiler's to choose."""
    return _unpack([scope.entry(ssa) for ssa in op.operands])


@rule("mhlo.copy", is_folded=False)
def copy(scope: Scope, op: Op) -> Entry:
    """The operand: XLA marks an operand of a loop by this copy."""
    return scope.entry(op.operands[0])


@rule("stablehlo.tuple", is_folded=False)
def tuple_(scope: Scope, op: Op) -> Entry:
    """A tuple of entries."""
    return tuple(scope.entry(ssa) for ssa in op.operands)


@rule("stablehlo.get_tuple_element", is_folded=False)
def get_tuple_element(scope: Scope, op: Op) -> Entry:
    """An entry of a tuple, by its index."""
    return scope.entry(op.operands[0])[mlir.number(op, "index")]


@rule("stablehlo.after_all", "stablehlo.create_token", is_folded=False)
def token(scope: Scope, op: Op) -> Entry:
    """Nothing: operations come in the program's order."""
    del scope, op
    return ()


def _unpack(entries: Sequence[Entry]) -> Any:
    return entries[0] if len(entries) == 1 else tuple(entries)


@rule("stablehlo.case", "stablehlo.if", is_folded=False)
def branches(scope: Scope, op: Op) -> Any:
    """The branch that a constant selects; without a constant a choice among all branches."""
    blocks = [region.blocks[0] for region in op.regions]
    constant = scope.constant_of(op.operands[0])
    if constant is not None:
        return _unpack(scope.run(blocks[_branch_number(op, constant, len(blocks))], []))
    parts = [_BlockGraph(scope, block, []) for block in blocks]
    shared_inputs = _SharedInputs(scope, parts)
    graphs = tuple(shared_inputs.graph(part, part.results) for part in parts)
    kind = If if op.name == "stablehlo.if" else Case
    selector = scope.value(op.operands[0])
    outer_values = [scope.tensor(entry) for entry in shared_inputs.outer_entries]
    return _unpack(scope.graph.apply_to_all(kind(graphs), [selector, *outer_values]))


def _branch_number(op: Op, predicate: Array, branch_count: int) -> int:
    if op.name == "stablehlo.if":
        return 0 if bool(predicate) else 1
    number = int(predicate)
    return number if 0 <= number < branch_count else branch_count - 1


@rule("stablehlo.while", is_folded=False)
def loop(scope: Scope, op: Op) -> Any:
    """The trips one after the other, if their number is known and small; else a loop."""
    condition, body = (region.blocks[0] for region in op.regions)
    entries = [scope.entry(ssa) for ssa in op.operands]
    trips = _trip_count(scope, op)
    if trips is not None and trips * _operation_count(scope, body) <= MOST_UNROLLED_OPERATIONS:
        return _unpack(_unroll(scope, (condition, body), entries, trips))
    return _unpack(_while_loop(scope, condition, body, entries, trips))


def _unroll(
    scope: Scope, blocks: tuple[Block, Block], entries: Sequence[Entry], trips: int
) -> Sequence[Entry]:
    """Every trip's operations, as long as the condition holds."""
    condition, body = blocks
    for trip in count():
        (is_true,) = Scope(scope.target.empty_target(), scope).run(condition, entries)
        if not isinstance(is_true, np.ndarray):
            raise NotModelled("a while whose condition is no longer known after a trip")
        if not bool(is_true):
            break
        entries = scope.run(body, entries, scope.path.in_trip(trip, trips))
    return entries


def _trip_count(scope: Scope, op: Op) -> int | None:
    """The trips of a loop that counts by a step up to a bound; None where they are not known."""
    condition, body = (region.blocks[0] for region in op.regions)
    comparison = condition.operations[len(condition.operations) - 1].operation.operands[0].owner
    if getattr(comparison, "name", "") != "stablehlo.compare":
        return None
    counter = _counter(scope, comparison, condition, op)
    if counter is None:
        return None
    index, start, bound, direction = counter
    step = _counter_step(body, index)
    holds = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
    if not step or direction not in holds:
        return None
    if not holds[direction](start, bound):
        return 0
    if (step > 0) != direction.startswith("L"):
        return None
    distance = abs(bound - start) + (1 if direction.endswith("E") else 0)
    return -(-distance // abs(step))


def _counter(
    scope: Scope, comparison: Op, condition: Block, op: Op
) -> tuple[int, int, int, str] | None:
    """The counter of a loop: its index among the operands, start, bound and comparison."""
    arguments = list(condition.arguments)
    sides = list(comparison.operands)
    direction = mlir.symbol(comparison, "comparison_direction")
    if sides[0] not in arguments:
        sides.reverse()
        direction = direction.translate(str.maketrans("LG", "GL"))
    if sides[0] not in arguments or not _is_integer(sides[0]):
        return None
    index = arguments.index(sides[0])
    start = scope.constant_of(op.operands[index])
    bound = _constant_bound(scope, sides[1], arguments, op)
    if start is None or bound is None or start.size != 1 or bound.size != 1:
        return None
    return index, int(start), int(bound), direction


def _is_integer(ssa: Ssa) -> bool:
    return "int" in mlir.element_type(ssa.type)


def _constant_bound(scope: Scope, ssa: Ssa, arguments: list[Ssa], op: Op) -> Array | None:
    """The value of a bound that is a constant, from outside the loop, or unchanged by its trips."""
    producer = ssa.owner
    if getattr(producer, "name", "") == "stablehlo.constant":
        return mlir.constant(producer)
    if ssa in arguments:
        index = arguments.index(ssa)
        body = op.regions[1].blocks[0]
        next_value = body.operations[len(body.operations) - 1].operation.operands[index]
        return (
            scope.constant_of(op.operands[index]) if next_value == body.arguments[index] else None
        )
    return scope.constant_of(ssa) if scope.has_entry(ssa) else None


def _counter_step(body: Block, index: int) -> int | None:
    """The change of a counter in a trip; None where it is not known."""
    producer = body.operations[len(body.operations) - 1].operation.operands[index].owner
    name = getattr(producer, "name", "")
    if name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    counter = body.arguments[index]
    sides = [ssa for ssa in producer.operands if ssa != counter]
    if len(sides) != 1 or getattr(sides[0].owner, "name", "") != "stablehlo.constant":
        return None
    if name == "stablehlo.subtract" and producer.operands[0] != counter:
        return None
    step = int(mlir.constant(sides[0].owner))
    return step if name == "stablehlo.add" else -step


def _operation_count(scope: Scope, block: Block) -> int:
    """The number of operations of a block, including the functions that it calls and its loops."""
    count = 0
    for view in block.operations:
        op = view.operation
        count += 1 + sum(
            _operation_count(scope, inner_op.blocks[0])
            for inner_op in op.regions
            if len(inner_op.blocks)
        )
        if op.name == "func.call":
            callee = scope.target.functions[mlir.symbol(op, "callee")]
            count += _operation_count(scope, mlir.body_of(callee))
    return count


def _while_loop(
    scope: Scope, condition: Block, body: Block, entries: Sequence[Entry], trips: int | None
) -> Sequence[Entry]:
    """A loop of the graph; values that it reads from outside are operands that no trip changes."""
    carried_values = [scope.tensor(entry) for entry in entries]
    parts = [_BlockGraph(scope, block, carried_values) for block in (condition, body)]
    shared_inputs = _SharedInputs(scope, parts)
    condition_graph = shared_inputs.graph(parts[0], parts[0].results)
    unchanged_inputs = shared_inputs.inputs(parts[1])
    body_graph = shared_inputs.graph(parts[1], [*parts[1].results, *unchanged_inputs])
    outer_values = [scope.tensor(entry) for entry in shared_inputs.outer_entries]
    results = scope.graph.apply_to_all(
        While(condition_graph, body_graph, trips), [*carried_values, *outer_values]
    )
    return results[: len(carried_values)]


class _BlockGraph:
    """A block as a graph of its own.

    Attributes:
        carried_inputs: the graph's inputs for the values carried from trip to trip.
        outside_inputs: the graph's inputs for the values outside that the block reads.
    """

    def __init__(self, outer_scope: Scope, block: Block, carried_values: Sequence[Value]) -> None:
        self.scope = Scope(outer_scope.target.empty_target(), outer_scope)
        graph = self.scope.graph
        self.carried_inputs = [graph.input(value.shape, value.dtype) for value in carried_values]
        self.outside_inputs: dict[Ssa, Value] = {}
        for ssa in dict.fromkeys(_free_values(block, outer_scope)):
            entry = outer_scope.entry(ssa)
            if not (isinstance(entry, np.ndarray) and is_splat(entry)):
                value = outer_scope.tensor(entry)
                self.outside_inputs[ssa] = graph.input(value.shape, value.dtype)
                self.scope.bind(ssa, self.outside_inputs[ssa])
        results = self.scope.run(block, self.carried_inputs)
        self.results = [self.scope.tensor(result) for result in results]

    @property
    def constants(self) -> dict[int, Array]:
        """The constants that inputs of the graph hold, by the number of the input."""
        return self.scope.target.constants


class _SharedInputs:
    """Several blocks' graphs with the same inputs.

    Attributes:
        outer_entries: the enclosing scope's entries for these inputs, after the carried inputs.
    """

    def __init__(self, scope: Scope, parts: Sequence[_BlockGraph]) -> None:
        self._ssas = list(dict.fromkeys(ssa for part in parts for ssa in part.outside_inputs))
        self._constants = [numbers for part in parts for numbers in part.constants.values()]
        self._scope = scope
        self.outer_entries: list[Entry] = [*map(scope.entry, self._ssas), *self._constants]

    def inputs(self, part: _BlockGraph) -> list[Value]:
        """Inputs of one part for the outer values of all parts, so that all parts take the same.

        An outer value that this part does not read becomes an input that it does not use.
        """
        graph, inputs = part.scope.graph, list[Value]()
        numbers = {id(array): number for number, array in part.constants.items()}
        values = {value.number: value for value in graph.inputs}
        for ssa in self._ssas:
            if ssa not in part.outside_inputs:
                type_ = mlir.tensor_type(ssa.type)
                part.outside_inputs[ssa] = graph.input(type_.shape, type_.dtype)
            inputs.append(part.outside_inputs[ssa])
        for array in self._constants:
            number = numbers.get(id(array))
            if number is None:  # only another part reads these numbers
                value = graph.input(array.shape, array.dtype.name)
                part.constants[value.number] = array
                inputs.append(value)
            else:
                inputs.append(values[number])
        return inputs

    def graph(self, part: _BlockGraph, results: Sequence[Value]) -> Graph:
        """A part's graph, with all inputs in one order."""
        shared_values = self.inputs(part)
        graph = part.scope.graph
        graph.inputs, graph.outputs = [*part.carried_inputs, *shared_values], list(results)
        graph.prune()
        return graph


def _free_values(block: Block, scope: Scope) -> Iterator[Ssa]:
    """The values that a block and its inner blocks read from outside."""
    for view in block.operations:
        op = view.operation
        yield from (value for value in op.operands if scope.has_entry(value))
        for region in op.regions:
            for inner_block in region.blocks:
                yield from _free_values(inner_block, scope)
