"""Equal layers of a graph: operations that repeat, so that one layer's program stands for all.

A run of layers is a stretch of the graph's operations that repeats with the same operations and
types: each layer reads the one before it, what came before all layers, and inputs of its own. The
layers of several runs belong together where one reads the other layer by layer, as the backward
pass does what the forward pass kept: such runs are a stack, from which layers go together.
`shortened` gives the graph with fewer layers of its stacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from trnsim.graph import Graph, Node, Operation, Value
from trnsim.graph.graph import Operand

_FEWEST: Final = 3
"""Layers from which on it pays to compile fewer of them."""
_TRIED: Final = 24
"""Distances at which a repeat is looked for."""
_PAYS: Final = 16
"""The share of a graph, one in so many, that a further run leaves out at least."""


@dataclass(frozen=True, slots=True)
class LayerRun:
    """Equal layers, one after another.

    Attributes:
        start: the place of the first layer's first operation.
        length: operations of a layer.
        count: how many layers there are.
    """

    start: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """The place after the last layer."""
        return self.start + self.length * self.count

    @property
    def saved(self) -> int:
        """Operations beside those of one layer."""
        return self.length * (self.count - 1)

    def meets(self, other: LayerRun) -> bool:
        """Whether both have an operation."""
        return self.start < other.end and other.start < self.end

    def layer(self, place: int) -> int | None:
        """The layer of the operation at a place; None outside."""
        return (place - self.start) // self.length if self.start <= place < self.end else None


@dataclass(frozen=True, slots=True)
class Tie:
    """How layers of a run belong to those of a stack's first run: layer j to ``offset + sign * j``.

    A backward pass has a sign of -1.
    """

    sign: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Runs whose layers belong together.

    Attributes:
        runs: in the order of the graph.
        ties: of each run to the first one.
    """

    runs: tuple[LayerRun, ...]
    ties: tuple[Tie, ...] = (Tie(1, 0),)

    @property
    def count(self) -> int:
        """Layers of its shortest run."""
        return min(run.count for run in self.runs)


# Finding them


def stacks_of(graph: Graph) -> list[Stack]:
    """The stacks of equal layers, of at least three each, that which saves most first."""
    stacks: list[Stack] = []
    makers = _makers(graph)
    for run in sorted(_best(graph), key=lambda run: run.start):
        for number, stack in enumerate(stacks):
            tie = _tied(graph, makers, stack, run)
            if tie is not None:
                stacks[number] = Stack((*stack.runs, run), (*stack.ties, tie))
                break
        else:
            stacks.append(Stack((run,)))
    return sorted(stacks, key=lambda stack: -sum(run.saved for run in stack.runs))


def _best(graph: Graph) -> list[LayerRun]:
    """Runs that do not meet: that which saves most, and others that save a good part."""
    keys = _numbered(graph.nodes)
    candidates = [run for length in _distances(keys) for run in _runs(keys, length)]
    best: list[LayerRun] = []
    for run in sorted(candidates, key=lambda run: (-run.saved, run.length)):
        is_worth_it = not best or run.saved * _PAYS >= len(keys)
        if is_worth_it and not any(run.meets(other) for other in best):
            best.append(run)
    return best


def _makers(graph: Graph) -> dict[int, int]:
    """The place of the operation that makes each value."""
    return {value.number: at for at, node in enumerate(graph.nodes) for value in node.results}


def _numbered(nodes: list[Node]) -> list[int]:
    """A number for each operation, the same for those that do the same to the same types."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(_key(node), len(numbers)) for node in nodes]


def _key(node: Node) -> Hashable:
    operation: Operation = node.operation
    operands = tuple(o.type if isinstance(o, Value) else o for o in node.operands)
    return operation, operands, tuple(value.type for value in node.results)


def _distances(keys: list[int]) -> list[int]:
    """Distances between equal operations that occur seldom, the commonest first."""
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    distances: Counter[int] = Counter()
    for at in places.values():
        if len(at) >= _FEWEST:
            for step in (1, 2, 3, 4):
                distances.update(b - a for a, b in zip(at, at[step:], strict=False))
    return [distance for distance, _ in distances.most_common(_TRIED)]


def _runs(keys: list[int], length: int) -> list[LayerRun]:
    """The stretches that repeat at a distance at least three times."""
    runs: list[LayerRun] = []
    start, end = 0, len(keys) - length
    for place in range(end + 1):
        if place < end and keys[place] == keys[place + length]:
            continue
        count = (place - start) // length + 1
        if count >= _FEWEST:
            runs.append(LayerRun(start, length, count))
        start = place + 1
    return runs


def _tied(graph: Graph, makers: dict[int, int], stack: Stack, run: LayerRun) -> Tie | None:
    """How a run's layers read those of a stack, one by one, if they do."""
    for other, tie in zip(stack.runs, stack.ties, strict=True):
        pairs = set(_read(graph, makers, other, run))
        ties = Counter(Tie(sign, at - sign * mine) for mine, at in pairs for sign in (-1, 1))
        (closest, times), *_ = ties.most_common(1) or [(tie, 0)]
        if 2 * times >= min(run.count, other.count):
            return Tie(tie.sign * closest.sign, tie.offset + tie.sign * closest.offset)
    return None


def _read(
    graph: Graph, makers: dict[int, int], other: LayerRun, run: LayerRun
) -> Iterator[tuple[int, int]]:
    """Pairs of a run's layer and a layer of another run that it reads."""
    for place in range(run.start, run.end):
        for value in graph.nodes[place].values:
            at = other.layer(makers.get(value.number, -1))
            if at is not None:
                yield (place - run.start) // run.length, at


# Shortening


@dataclass(frozen=True, slots=True)
class _Cut:
    """Neighbouring layers of a run that go.

    Attributes:
        run: whose.
        first: the first one that goes.
        many: how many.
        stack: the number of the run's stack.
        sign: that of the run's tie.
    """

    run: LayerRun
    first: int
    many: int
    stack: int
    sign: int

    def drops(self, layer: int | None) -> bool:
        """Whether a layer goes."""
        return layer is not None and self.first <= layer < self.first + self.many

    def instead(self, layer: int, reader: tuple[_Cut, int] | None) -> int | None:
        """The layer that a reader, the layer of a cut run if it is in one, sees for one that goes.

        A layer sees the one before those that went; a layer that belongs to one of another run
        sees the one whose place that has now. Others see the last layer alone.
        """
        shift = -self.many
        if reader is not None and reader[0].run != self.run and reader[0].stack == self.stack:
            reader_cut, at = reader
            if (at < reader_cut.first) != (self.sign != reader_cut.sign):
                shift = self.many
        elif (reader is None or reader[0].run != self.run) and layer != self.run.count - 1:
            return None
        neighbour = layer + shift
        return neighbour if 0 <= neighbour < self.run.count and not self.drops(neighbour) else None


def shortened(graph: Graph, counts: Sequence[tuple[Stack, int]]) -> Graph | None:
    """The graph with so many layers of each stack; None where the others are read elsewhere.

    What the layers give on their own, such as keys of a cache, goes with them.
    """
    ways = [list(_cuts(stack, many, number)) for number, (stack, many) in enumerate(counts)]
    for chosen in product(*ways):
        shorter = _Shortening(graph, [cut for cuts in chosen for cut in cuts]).graph()
        if shorter is not None:
            return shorter
    return None


def _cuts(stack: Stack, count: int, number: int) -> Iterator[list[_Cut]]:
    """The ways to leave as many layers of a stack, those that belong together at once."""
    many = stack.count - count
    for first in range(count, -1, -1) if len(stack.runs) > 1 else (count,):
        cuts: list[_Cut] = []
        for run, tie in zip(stack.runs, stack.ties, strict=True):
            ends = first, first + many - 1
            mine = min(tie.sign * (end - tie.offset) for end in ends)
            if 0 <= mine <= run.count - many:
                cuts.append(_Cut(run, mine, many, number, tie.sign))
        if len(cuts) == len(stack.runs):
            yield cuts


class _Shortening:
    """A graph without some layers of its runs."""

    def __init__(self, graph: Graph, cuts: list[_Cut]) -> None:
        self.whole, self.cuts = graph, cuts
        self.makers = _makers(graph)

    def _at(self, place: int) -> tuple[_Cut, int] | None:
        """The cut run of an operation, and its layer there."""
        for cut in self.cuts:
            layer = cut.run.layer(place)
            if layer is not None:
                return cut, layer
        return None

    def _goes(self, place: int) -> bool:
        position = self._at(place)
        return position is not None and position[0].drops(position[1])

    def _instead(self, value: Value, reader: tuple[_Cut, int] | None) -> Value | None:
        """What is read for a value: itself, that of another layer, or None if it is gone."""
        place = self.makers.get(value.number, -1)
        position = self._at(place)
        if position is None or not position[0].drops(position[1]):
            return value
        cut, layer = position
        other = cut.instead(layer, reader)
        if other is None:
            return None
        results = self.whole.nodes[place].results
        number = next(at for at, result in enumerate(results) if result.number == value.number)
        return self.whole.nodes[place + (other - layer) * cut.run.length].results[number]

    def graph(self) -> Graph | None:
        """The shorter graph; None where something reads what is gone."""
        nodes: list[Node] = []
        for place, node in enumerate(self.whole.nodes):
            if self._goes(place):
                continue
            copied = self._renamed(node, self._at(place))
            if copied is None:
                return None
            nodes.append(copied)
        outputs = [self._instead(value, None) for value in self.whole.outputs]
        left = list({value.number: value for value in outputs if value is not None}.values())
        read = {value.number for node in nodes for value in node.values}
        read |= {value.number for value in left}
        return Graph([v for v in self.whole.inputs if v.number in read], nodes, left)

    def _renamed(self, node: Node, reader: tuple[_Cut, int] | None) -> Node | None:
        operands: list[Operand] = []
        for operand in node.operands:
            source = self._instead(operand, reader) if isinstance(operand, Value) else operand
            if source is None:
                return None
            operands.append(source)
        return replace(node, operands=tuple(operands))
