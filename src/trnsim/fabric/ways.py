"""Routes inside an instance and out of it, around dead links and EFA adapters.

AWS describes none. A transfer between chips takes the first route over two or more others; one that
leaves a chip with a dead adapter takes the next live adapter.
"""

from __future__ import annotations

from collections.abc import Collection

from trnsim.errors import BadInput
from trnsim.fabric.topology import Route, Topology


class Routes(dict[tuple[int, int], tuple[int, ...]]):
    """The links between two chips of an instance, computed at the first access."""

    def __init__(self, topology: Topology, dead: Collection[int]) -> None:
        """Take the numbers of the `dead` links."""
        super().__init__()
        self._topology = topology
        self._dead = frozenset(dead)

    def __missing__(self, pair: tuple[int, int]) -> Route:
        route = self._topology.route(*pair)
        if self._dead.intersection(route):
            route = self._detour(*pair)
        self[pair] = route
        return route

    def _detour(self, source: int, target: int) -> Route:
        """The first route without a dead link over two or more other chips.

        Raises:
            BadInput: there is no such route.
        """
        chips = range(self._topology.chips)
        routes: dict[int, Route] = {source: ()}
        frontier = [source]
        while frontier:
            next_frontier = []
            for chip in frontier:
                for neighbour in chips:
                    step = self._topology.route(chip, neighbour)
                    is_new = neighbour not in routes and step
                    if is_new and not self._dead.intersection(step):
                        routes[neighbour] = routes[chip] + step
                        next_frontier.append(neighbour)
            if target in routes:
                return routes[target]
            frontier = next_frontier
        raise BadInput(
            f"no way is left from chip {source} to chip {target}: every link between them is dead",
            fix="leave one of the links, or a part of its bandwidth: factor=0.1",
        )


def adapters_of_chips(chips: int, adapters: int, dead: Collection[int], direction: str) -> Route:
    """For each chip the adapter of its transfers in one direction.

    Adapters belong to chips in order. `direction` names the direction and the instance in words.

    Raises:
        BadInput: all are dead.
    """
    live_adapters = [adapter for adapter in range(adapters) if adapter not in dead]
    if adapters and not live_adapters:
        raise BadInput(
            f"no way is left {direction}: all of its {adapters} EFA adapters are dead",
            fix="leave one of them, or a part of its bandwidth: factor=0.1",
        )
    own_adapters = (chip * adapters // chips for chip in range(chips))
    return tuple(
        min(live_adapters, key=lambda adapter: (adapter - own_adapter) % adapters)
        for own_adapter in own_adapters
        if live_adapters
    )
