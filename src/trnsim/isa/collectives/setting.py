"""The world in which a collective is issued, and its groups of ranks in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.fabric.fabric import Fabric

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Setting:
    """The fabric of a collective, and the cores of a rank that take part.

    Attributes:
        fabric: the instances on which the ranks run.
        ranks: number of ranks.
        is_joint: whether both cores of a rank issue it for one tensor that they share; else each
            exchanges with the cores of its own number.
    """

    fabric: Fabric
    ranks: int
    is_joint: bool = True

    @property
    def cores(self) -> int:
        """NeuronCores of a rank."""
        return self.fabric.lnc

    def members(self, group: Sequence[int], core: int) -> list[int]:
        """The cores that meet core `core` of the ranks of `group`, all ranks' cores numbered."""
        own = range(self.cores) if self.is_joint else (core,)
        return [rank * self.cores + number for rank in group for number in own]


HIDDEN: Final = {"is_hidden": True}
"""Metadata of the field that holds the `Setting`: the run gives it, not the kernel."""


def in_words(ranks: Sequence[int]) -> str:
    """Ranks in words, with runs of consecutive ones abbreviated: ``0-3, 7``."""
    return ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _runs(ranks)
    )


def _runs(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = ranks[0]
    for rank in ranks[1:]:
        if rank != last + 1:
            yield first, last
            first = rank
        last = rank
    yield first, last
