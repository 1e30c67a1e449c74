"""The ranks of a collective, by the chips that they lie on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trnsim.fabric.fabric import Fabric, RankPlace


@dataclass(frozen=True)
class RankGroup:
    """Ranks that take part in a collective, in their order.

    Attributes:
        ranks: their numbers among all ranks of the fabric.
    """

    fabric: Fabric
    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @cached_property
    def places(self) -> dict[int, RankPlace]:
        """The place of each rank."""
        return {rank: self.fabric.place(rank) for rank in self.ranks}

    @cached_property
    def by_chip(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """(instance, chip) -> its ranks."""
        ranks_of: dict[tuple[int, int], list[int]] = {}
        for rank, (node, chip, _) in self.places.items():
            ranks_of.setdefault((node, chip), []).append(rank)
        return {chip: tuple(ranks) for chip, ranks in ranks_of.items()}

    @cached_property
    def by_node(self) -> dict[int, tuple[int, ...]]:
        """Instance -> its ranks."""
        ranks_of: dict[int, list[int]] = {}
        for rank, place in self.places.items():
            ranks_of.setdefault(place.node, []).append(rank)
        return {node: tuple(ranks) for node, ranks in ranks_of.items()}

    @property
    def chips(self) -> tuple[int, ...]:
        """The chips of a group on one instance."""
        return tuple(chip for _, chip in self.by_chip)

    @property
    def per_chip(self) -> int:
        """Ranks on each chip; 0 where chips differ."""
        counts = {len(ranks) for ranks in self.by_chip.values()}
        return counts.pop() if len(counts) == 1 else 0

    @property
    def is_local(self) -> bool:
        """True if all ranks are on one instance."""
        return len(self.by_node) == 1

    def ranks_on(self, chip: int) -> tuple[int, ...]:
        """The ranks on a chip of a group on one instance."""
        return self.by_chip[next(iter(self.by_node)), chip]

    def cycles(self) -> list[tuple[int, ...]]:
        """Rings through all ranks of a group on one instance, in both directions of each.

        Ranks of a chip follow each other.
        """
        rings = []
        for cycle in self.fabric.topology.cycles(self.chips):
            rings.append(tuple(rank for chip in cycle for rank in self.ranks_on(chip)))
            if len(cycle) > 1:
                rings.append(
                    tuple(rank for chip in reversed(cycle) for rank in self.ranks_on(chip))
                )
        return rings
