"""The ranks and the network of a collective, and groups of ranks in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.fabric.fabric import Fabric

Groups = tuple[tuple[int, ...], ...]
"""The ranks of each group."""


@dataclass(frozen=True)
class Setting:
    """The network of a collective, and the cores of a rank that take part.

    Attributes:
        fabric: the instances on which the ranks run, with their links.
        ranks: number of ranks in the run.
        is_joint: true if the cores of a rank take part as one member, with tensors that they share;
            false if core i of a rank exchanges with the cores i of other ranks.
    """

    fabric: Fabric
    ranks: int
    is_joint: bool = True

    @property
    def cores(self) -> int:
        """NeuronCores of a rank."""
        return self.fabric.lnc

    def members(self, group: Sequence[int], core: int) -> list[int]:
        """The cores that meet where core `core` of each rank of `group` takes part.

        They are numbered ``rank * cores + core``.
        """
        cores_of_rank = range(self.cores) if self.is_joint else (core,)
        return [rank * self.cores + number for rank in group for number in cores_of_rank]


HIDDEN: Final = {"is_hidden": True}
"""Metadata of the field that holds the `Setting`: the run gives it, not the kernel."""


def in_words(ranks: Sequence[int]) -> str:
    """Ranks in words, with runs of consecutive numbers abbreviated: ``0-3, 7``."""
    return ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _runs(ranks)
    )


def _runs(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last number of each run of consecutive numbers."""
    first = last = ranks[0]
    for rank in ranks[1:]:
        if rank != last + 1:
            yield first, last
            first = rank
        last = rank
    yield first, last
