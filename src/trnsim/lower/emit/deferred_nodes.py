"""Deferred nodes, which their readers compute, and the cases in which one is computed earlier."""

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
        concatenations: results that the kernel `concatenate` computes when they are read.
        reductions: reductions that their readers compute, by their results' numbers.
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
        places = self._places
        waiting = [self._depths.get(v.number, 0) for v in node.values if v.number not in places]
        depth = 1 + max(waiting, default=0)
        self._make_room(node)
        if depth > _LONGEST_CHAIN:
            self._materialize(node.result)
            depth = 0
        self._depths[node.result.number] = depth

    def defer_reduction(self, node: Node) -> bool:
        """True if this reduction can be computed by its only reader, which is then recorded.

        A second request for the same node returns False, so that it is then materialised.
        """
        number = node.result.number
        if number in self._offered:
            return False
        self._offered.add(number)
        self.reductions[number] = node
        return True

    def _make_room(self, node: Node) -> None:
        """Compute deferred operands until the panels of the other products fit in SBUF together."""
        panels = {value: self._panels_of(value) for value in node.values}
        panels = {value: own for value, own in panels.items() if own}
        for value in sorted(panels, key=lambda operand: -len(panels[operand])):
            together = {number: size for own in panels.values() for number, size in own.items()}
            if sum(together.values()) <= _PANELS_BYTES or len(panels) < 2:  # noqa: PLR2004  beside another
                break
            self._materialize(value)
            del panels[value]
        self._panels[node.result.number] = {
            number: size for own in panels.values() for number, size in own.items()
        }

    def _panels_of(self, value: Value) -> dict[int, int]:
        """Bytes of a partition of each moving operand that a deferred value needs in SBUF."""
        places = self._places
        node, own_places = self._facts.producers.get(value.number), places.get(value.number)
        if node is None or (own_places is not None and not own_places[0].is_pending):
            return {}
        if value.number not in self._panels:
            panels: dict[int, int] = {}
            if isinstance(node.operation, DotGeneral):
                passes = node.values[0]
                if not any(place.is_on_chip for place in places.get(passes.number, ())):
                    panels = {passes.number: panel_bytes(node)}
            elif is_view(node):
                panels = self._panels_of(node.values[0])
            self._panels[value.number] = panels
        return self._panels[value.number]
