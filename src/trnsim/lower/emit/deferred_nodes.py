"""Deferred nodes, which their readers compute, and when a deferred node is computed earlier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.patterns.contractions import PANEL_BYTES, panel_bytes

_PANELS_BYTES: Final = 2 * PANEL_BYTES
"""Bytes of a partition for the moving operands of products that are computed together."""
_LONGEST_CHAIN: Final = 64
"""Longest chain of deferred nodes, as Python's stack is finite."""


class DeferredNodes:
    """The nodes of a program whose computation is left to their readers.

    Attributes:
        concatenations: numbers of results that the kernel `concatenate` computes when they are
            read.
        reductions: number of a result -> the reduction that its reader computes.
    """

    def __init__(
        self,
        facts: GraphFacts,
        places: Mapping[int, list[TensorPlace]],
        materialize: Callable[[Value], list[TensorPlace]],
    ) -> None:
        """The deferred nodes of a graph.

        Args:
            facts: the facts of the graph.
            places: the places of the values that are computed.
            materialize: a function that computes a deferred value.
        """
        self._facts, self._places, self._materialize = facts, places, materialize
        self.concatenations: set[int] = set()
        self.reductions: dict[int, Node] = {}
        self._offered: set[int] = set()
        self._depths: dict[int, int] = {}
        self._panels: dict[int, dict[int, int]] = {}

    def add(self, node: Node) -> None:
        """Defer a node; at the end of a long chain of deferred nodes, compute it now."""
        self._make_room(node)
        self._limit_chain(node)

    def add_concatenation(self, node: Node) -> None:
        """Defer a concatenation; at the end of a long chain of deferred nodes, compute it now."""
        self.concatenations.add(node.result.number)
        self._limit_chain(node)

    def _limit_chain(self, node: Node) -> None:
        """Record the length of the chain that a deferred node ends; compute a long one."""
        places = self._places
        depths = [self._depths.get(v.number, 0) for v in node.values if v.number not in places]
        depth = 1 + max(depths, default=0)
        if depth > _LONGEST_CHAIN:
            self._materialize(node.result)
            depth = 0
        self._depths[node.result.number] = depth

    def defer_reduction(self, node: Node) -> bool:
        """Defer a reduction to its only reader; True if it is deferred.

        False at the second call for a node: its reader did not compute it, and it is emitted by
        itself.
        """
        number = node.result.number
        if number in self._offered:
            return False
        self._offered.add(number)
        self.reductions[number] = node
        return True

    def _make_room(self, node: Node) -> None:
        """Compute deferred operands until the panels of the others fit in SBUF together.

        A panel holds the moving operand of a product.
        """
        panels = {value: self._panels_of(value) for value in node.values}
        panels = {value: sizes for value, sizes in panels.items() if sizes}
        for value in sorted(panels, key=lambda operand: -len(panels[operand])):
            all_sizes = {
                number: size for sizes in panels.values() for number, size in sizes.items()
            }
            if sum(all_sizes.values()) <= _PANELS_BYTES or len(panels) < 2:  # noqa: PLR2004  beside another
                break
            self._materialize(value)
            del panels[value]
        self._panels[node.result.number] = {
            number: size for sizes in panels.values() for number, size in sizes.items()
        }

    def _panels_of(self, value: Value) -> dict[int, int]:
        """Number of moving operand -> its bytes of a partition, for each that a value needs.

        Empty for a value that is computed already.
        """
        places = self._places
        node, own_places = self._facts.producers.get(value.number), places.get(value.number)
        if node is None or (own_places is not None and not own_places[0].is_pending):
            return {}
        if value.number not in self._panels:
            panels: dict[int, int] = {}
            if isinstance(node.operation, DotGeneral):
                moving = node.values[0]
                if not any(place.is_on_chip for place in places.get(moving.number, ())):
                    panels = {moving.number: panel_bytes(node)}
            elif is_view(node):
                panels = self._panels_of(node.values[0])
            self._panels[value.number] = panels
        return self._panels[value.number]
