"""The ways inside an instance and out of it, around links and EFA adapters that are dead.

AWS describes no such way. A transfer between chips takes the first one over two or more others; one
that leaves a chip whose adapter is dead takes the next adapter that is alive.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from trnsim.errors import BadInput

if TYPE_CHECKING:
    from trnsim.fabric.topology import Route, Topology


class Ways(dict[tuple[int, int], tuple[int, ...]]):
    """The links between two chips of an instance, found when they are first asked for."""

    def __init__(self, topology: Topology, dead: Collection[int]) -> None:
        """`dead` has the numbers of links."""
        super().__init__()
        self._topology = topology
        self._dead = frozenset(dead)

    def __missing__(self, pair: tuple[int, int]) -> Route:
        route = self._topology.route(*pair)
        if self._dead.intersection(route):
            route = self._around(*pair)
        self[pair] = route
        return route

    def _around(self, source: int, target: int) -> Route:
        """The first way over two or more other chips that no dead link is on.

        Raises:
            BadInput: there is none.
        """
        chips = range(self._topology.chips)
        routes: dict[int, Route] = {source: ()}
        front = [source]
        while front:
            following = []
            for near in front:
                for far in chips:
                    step = self._topology.route(near, far)
                    is_new = far not in routes and step and not self._dead.intersection(step)
                    if is_new:
                        routes[far] = routes[near] + step
                        following.append(far)
            if target in routes:
                return routes[target]
            front = following
        raise BadInput(
            f"no way is left from chip {source} to chip {target}: every link between them is dead",
            fix="leave one of the links, or a part of its bandwidth: factor=0.1",
        )


def adapters_of_chips(chips: int, adapters: int, dead: Collection[int], which: str) -> Route:
    """For each chip the adapter that its transfers pass, in one direction.

    Adapters belong to chips in order. `which` says in words whose they are.

    Raises:
        BadInput: all are dead.
    """
    alive = [adapter for adapter in range(adapters) if adapter not in dead]
    if adapters and not alive:
        raise BadInput(
            f"no way is left {which}: all of its {adapters} EFA adapters are dead",
            fix="leave one of them, or a part of its bandwidth: factor=0.1",
        )
    own_adapters = (chip * adapters // chips for chip in range(chips))
    return tuple(
        min(alive, key=lambda adapter: (adapter - own_adapter) % adapters)
        for own_adapter in own_adapters
        if alive
    )
