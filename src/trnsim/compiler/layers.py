"""Equal layers of a graph: operations that repeat, so that one layer's program stands for all.

A run of layers is a stretch of the graph in which the same operations on the same types repeat:
each layer reads the one before it, values from before all layers, and inputs of its own. Two runs
belong to one stack if one reads the other layer by layer, as a backward pass reads results of the
forward pass. Layers are removed from all runs of a stack together. `shorten_graph` returns the
graph with fewer layers of its stacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final

from trnsim.graph import Graph, Kind, Node, Operation, Value
from trnsim.graph.graph import Operand

_FEWEST_EQUAL_LAYERS: Final = 3
"""Fewest equal layers of which only some are compiled."""
_MOST_DISTANCES: Final = 24
"""Number of distances at which repeats are searched."""
_LEAST_SAVING_DIVISOR: Final = 16
"""A further run must leave out at least 1 / `_LEAST_SAVING_DIVISOR` of the graph's operations."""


@dataclass(frozen=True, slots=True)
class LayerRun:
    """A run of equal layers, one after another.

    Attributes:
        start: place of the first layer's first operation.
        length: operations of a layer.
        count: number of layers.
    """

    start: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """The place after the last layer."""
        return self.start + self.length * self.count

    @property
    def saved_operations(self) -> int:
        """Number of operations in all layers but one."""
        return self.length * (self.count - 1)

    def meets(self, other: LayerRun) -> bool:
        """True if an operation is in both runs."""
        return self.start < other.end and other.start < self.end

    def layer(self, place: int) -> int | None:
        """The layer of the operation at a place; None outside the run."""
        return (place - self.start) // self.length if self.start <= place < self.end else None


@dataclass(frozen=True, slots=True)
class Tie:
    """Layer j of a run belongs to layer ``offset + sign * j`` of its stack's first run.

    The sign is -1 for a backward pass, whose layers come in reverse order.
    """

    sign: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Runs whose layers belong together.

    Attributes:
        runs: the runs in the order of the graph.
        ties: for each run, its tie to the first one.
    """

    runs: tuple[LayerRun, ...]
    ties: tuple[Tie, ...] = (Tie(1, 0),)

    @property
    def count(self) -> int:
        """Number of layers of the shortest run."""
        return min(run.count for run in self.runs)


# Search for stacks


def stacks_of(graph: Graph) -> list[Stack]:
    """The stacks of at least three equal layers, by the operations that they save, most first."""
    stacks: list[Stack] = []
    producers = producer_places(graph)
    for run in sorted(_best_runs(graph), key=lambda run: run.start):
        for number, stack in enumerate(stacks):
            tie = _tie_of(graph, producers, stack, run)
            if tie is not None:
                stacks[number] = Stack((*stack.runs, run), (*stack.ties, tie))
                break
        else:
            stacks.append(Stack((run,)))
    return sorted(stacks, key=lambda stack: -sum(run.saved_operations for run in stack.runs))


def _best_runs(graph: Graph) -> list[LayerRun]:
    """Disjoint runs: the run that saves most operations, and others that save enough of them.

    A sum of many values is left out: without its additions, its operands would still be computed.
    """
    keys = _operation_numbers(graph.nodes)
    candidates = [
        run
        for length in _distances(keys)
        for run in _runs_of_length(keys, length)
        if not _is_sum(graph, run)
    ]
    chosen: list[LayerRun] = []
    for run in sorted(candidates, key=lambda run: (-run.saved_operations, run.length)):
        is_worth_it = not chosen or run.saved_operations * _LEAST_SAVING_DIVISOR >= len(keys)
        if is_worth_it and not any(run.meets(other) for other in chosen):
            chosen.append(run)
    return chosen


def _is_sum(graph: Graph, run: LayerRun) -> bool:
    """True for a chain of equal elementwise operations, each of which reads the one before."""
    chain = graph.nodes[run.start : run.start + run.length + 1]
    return all(
        first.kind is Kind.ELEMENTWISE
        and first.operation == second.operation
        and any(value in first.results for value in second.values)
        for first, second in pairwise(chain)
    )


def producer_places(graph: Graph) -> dict[int, int]:
    """Place of the operation that makes each value, by the value's number."""
    return {value.number: place for place, node in enumerate(graph.nodes) for value in node.results}


def _operation_numbers(nodes: list[Node]) -> list[int]:
    """A number for each node, equal for equal operations on equal types."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(_operation_key(node), len(numbers)) for node in nodes]


def _operation_key(node: Node) -> Hashable:
    """The operation with its constant operands and the types of its operands and results."""
    operation: Operation = node.operation
    operands = tuple(o.type if isinstance(o, Value) else o for o in node.operands)
    return operation, operands, tuple(value.type for value in node.results)


def _distances(keys: list[int]) -> list[int]:
    """The most common distances between equal operations, the commonest first."""
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    distances: Counter[int] = Counter()
    for at in places.values():
        if len(at) >= _FEWEST_EQUAL_LAYERS:
            for step in (1, 2, 3, 4):
                distances.update(b - a for a, b in zip(at, at[step:], strict=False))
    return [distance for distance, _ in distances.most_common(_MOST_DISTANCES)]


def _runs_of_length(keys: list[int], length: int) -> list[LayerRun]:
    """The runs of at least three layers of one length."""
    runs: list[LayerRun] = []
    start, end = 0, len(keys) - length
    for place in range(end + 1):
        if place < end and keys[place] == keys[place + length]:
            continue
        count = (place - start) // length + 1
        if count >= _FEWEST_EQUAL_LAYERS:
            runs.append(LayerRun(start, length, count))
        start = place + 1
    return runs


def _tie_of(graph: Graph, producers: dict[int, int], stack: Stack, run: LayerRun) -> Tie | None:
    """The tie of a run whose layers read those of a stack one by one; None if they do not."""
    for earlier, tie in zip(stack.runs, stack.ties, strict=True):
        pairs = set(_layers_read(graph, producers, earlier, run))
        ties = Counter(Tie(sign, b - sign * a) for a, b in pairs for sign in (-1, 1))
        (commonest, count), *_ = ties.most_common(1) or [(tie, 0)]
        if 2 * count >= min(run.count, earlier.count):
            return Tie(tie.sign * commonest.sign, tie.offset + tie.sign * commonest.offset)
    return None


def _layers_read(
    graph: Graph, producers: dict[int, int], earlier: LayerRun, run: LayerRun
) -> Iterator[tuple[int, int]]:
    """Pairs of a layer of `run` and a layer of the other run that it reads."""
    for place in range(run.start, run.end):
        for value in graph.nodes[place].values:
            layer = earlier.layer(producers.get(value.number, -1))
            if layer is not None:
                yield (place - run.start) // run.length, layer


# Shortening


@dataclass(frozen=True, slots=True)
class _Cut:
    """Neighbouring layers of a run that are removed.

    Attributes:
        count: number of layers removed.
        stack: the number of the run's stack.
        sign: sign of the run's tie.
    """

    run: LayerRun
    first_layer: int
    count: int
    stack: int
    sign: int

    def removes(self, layer: int | None) -> bool:
        """True if a layer is removed."""
        return layer is not None and self.first_layer <= layer < self.first_layer + self.count

    def substitute_layer(self, layer: int, reader: tuple[_Cut, int] | None) -> int | None:
        """The layer that a reader reads instead of the removed `layer`; None if there is none.

        `reader` is the reader's cut run and its layer there, or None outside of runs. A layer of
        the same run reads the layer before the removed ones; a layer of another run in the stack
        reads the layer that now has its partner's place. Readers outside of the stack may read only
        the last layer.
        """
        shift = -self.count
        if reader is not None and reader[0].run != self.run and reader[0].stack == self.stack:
            reader_cut, reader_layer = reader
            if (reader_layer < reader_cut.first_layer) != (self.sign != reader_cut.sign):
                shift = self.count
        elif (reader is None or reader[0].run != self.run) and layer != self.run.count - 1:
            return None
        neighbour = layer + shift
        return (
            neighbour if 0 <= neighbour < self.run.count and not self.removes(neighbour) else None
        )


def shorten_graph(graph: Graph, counts: Sequence[tuple[Stack, int]]) -> Graph | None:
    """The graph with `counts` layers of each stack; None if other operations read removed layers.

    Outputs of the removed layers, such as keys of a cache, are removed with them.
    """
    ways = [list(_cuts(stack, count, number)) for number, (stack, count) in enumerate(counts)]
    for way in product(*ways):
        shorter = _Shortening(graph, [cut for cuts in way for cut in cuts]).graph()
        if shorter is not None:
            return shorter
    return None


def _cuts(stack: Stack, count: int, number: int) -> Iterator[list[_Cut]]:
    """The ways to cut a stack to `count` layers: for each way, a cut of every run."""
    excess = stack.count - count
    for first in range(count, -1, -1) if len(stack.runs) > 1 else (count,):
        cuts: list[_Cut] = []
        for run, tie in zip(stack.runs, stack.ties, strict=True):
            ends = first, first + excess - 1
            first_removed = min(tie.sign * (end - tie.offset) for end in ends)
            if 0 <= first_removed <= run.count - excess:
                cuts.append(_Cut(run, first_removed, excess, number, tie.sign))
        if len(cuts) == len(stack.runs):
            yield cuts


class _Shortening:
    """A graph without some layers of its runs."""

    def __init__(self, graph: Graph, cuts: list[_Cut]) -> None:
        self.base, self.cuts = graph, cuts
        self.producers = producer_places(graph)

    def _layer_at(self, place: int) -> tuple[_Cut, int] | None:
        """The cut of the run that an operation is in, and its layer; None outside of cut runs."""
        for cut in self.cuts:
            layer = cut.run.layer(place)
            if layer is not None:
                return cut, layer
        return None

    def _is_removed(self, place: int) -> bool:
        position = self._layer_at(place)
        return position is not None and position[0].removes(position[1])

    def _substitute(self, value: Value, reader: tuple[_Cut, int] | None) -> Value | None:
        """The value that the shorter graph reads instead of `value`; None without a substitute.

        A value that is not removed is its own substitute.
        """
        place = self.producers.get(value.number, -1)
        position = self._layer_at(place)
        if position is None or not position[0].removes(position[1]):
            return value
        cut, layer = position
        substitute = cut.substitute_layer(layer, reader)
        if substitute is None:
            return None
        results = self.base.nodes[place].results
        number = next(n for n, result in enumerate(results) if result.number == value.number)
        return self.base.nodes[place + (substitute - layer) * cut.run.length].results[number]

    def graph(self) -> Graph | None:
        """The shorter graph; None if an operation reads a removed value without a substitute."""
        nodes: list[Node] = []
        for place, node in enumerate(self.base.nodes):
            if self._is_removed(place):
                continue
            copied = self._with_substitutes(node, self._layer_at(place))
            if copied is None:
                return None
            nodes.append(copied)
        outputs = [self._substitute(value, None) for value in self.base.outputs]
        distinct_outputs = list(
            {value.number: value for value in outputs if value is not None}.values()
        )
        read = {value.number for node in nodes for value in node.values}
        read |= {value.number for value in distinct_outputs}
        return Graph([v for v in self.base.inputs if v.number in read], nodes, distinct_outputs)

    def _with_substitutes(self, node: Node, reader: tuple[_Cut, int] | None) -> Node | None:
        """The node with substitutes as operands; None if an operand has none."""
        operands: list[Operand] = []
        for operand in node.operands:
            source = self._substitute(operand, reader) if isinstance(operand, Value) else operand
            if source is None:
                return None
            operands.append(source)
        return replace(node, operands=tuple(operands))
