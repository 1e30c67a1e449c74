"""Equal layers of a graph: operations that repeat, so that one layer's program stands for all.

A run of layers is a stretch of the graph's operations that repeats with the same operations, types
and references: each layer reads the one before it, what came before all layers, and inputs of its
own. `shortened` gives the graph with fewer of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace

from trnsim.graph import Graph, Node, Operation, Value
from trnsim.graph.graph import Operand

_FEWEST = 3
"""Layers from which on it pays to compile fewer of them."""
_TRIED = 24
"""Distances at which a repeat is looked for."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A run of equal layers.

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

    def place(self, place: int, count: int) -> int:
        """The place in the graph of an operation of the graph with `count` of its layers.

        Of an operation in the layers, that of the first one.
        """
        if place < self.start:
            return place
        if place < self.start + count * self.length:
            return self.start + (place - self.start) % self.length
        return place + (self.count - count) * self.length


def layers_of(graph: Graph) -> Layers | None:
    """The run of equal layers that has most operations; None where fewer than three are equal."""
    keys = _numbered(graph.nodes)
    best: Layers | None = None
    for length in _distances(keys):
        for found in _runs(keys, length):
            if best is None or found.length * (found.count - 1) > best.length * (best.count - 1):
                best = found
    return best


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
    found: Counter[int] = Counter()
    for where in places.values():
        if len(where) >= _FEWEST:
            for step in (1, 2, 3, 4):
                found.update(b - a for a, b in zip(where, where[step:], strict=False))
    return [distance for distance, _ in found.most_common(_TRIED)]


def _runs(keys: list[int], length: int) -> list[Layers]:
    """The stretches that repeat at a distance at least three times."""
    found: list[Layers] = []
    start, end = 0, len(keys) - length
    for place in range(end + 1):
        if place < end and keys[place] == keys[place + length]:
            continue
        count = (place - start) // length + 1
        if count >= _FEWEST:
            found.append(Layers(start, length, count))
        start = place + 1
    return found


def shortened(graph: Graph, layers: Layers, count: int) -> Graph | None:
    """The graph with `count` of its equal layers; None where the others are read elsewhere.

    What the layers give on their own, such as keys of a cache, goes with them.
    """
    dropped = graph.nodes[layers.start + count * layers.length : layers.end]
    renamed: dict[int, Value] = {}
    for place in range(layers.length):
        last = graph.nodes[layers.end - layers.length + place]
        kept = graph.nodes[layers.start + (count - 1) * layers.length + place]
        renamed.update(zip((v.number for v in last.results), kept.results, strict=True))
    gone = {value.number for node in dropped for value in node.results} - set(renamed)
    first = graph.nodes[: layers.start + count * layers.length]
    after = [_renamed(node, renamed) for node in graph.nodes[layers.end :]]
    if any(value.number in gone for node in after for value in node.values):
        return None
    outputs = [renamed.get(v.number, v) for v in graph.outputs if v.number not in gone]
    outputs = list({value.number: value for value in outputs}.values())
    nodes = [*first, *after]
    read = {value.number for node in nodes for value in node.values}
    read |= {value.number for value in outputs}
    inputs = [value for value in graph.inputs if value.number in read]
    return Graph(inputs, nodes, outputs)


def _renamed(node: Node, names: dict[int, Value]) -> Node:
    operands: tuple[Operand, ...] = tuple(
        names.get(o.number, o) if isinstance(o, Value) else o for o in node.operands
    )
    return replace(node, operands=operands)
