"""The published times of collectives near a question, and how far the fabric is from each.

The rows are those of bench/collectives.json; docs/makers/collective_rows.py writes published.json
from them. A row speaks for times of its floor, on chips of its generation (the first one, or
later ones), on one instance or on several.

Source: docs/generated/accuracy-collectives.md, whose errors are the ones here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import log2
from typing import Any, Final, NamedTuple

from trnsim.fabric.constants import has_described_algorithms
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.floors import Floor

_RANKS_WEIGHT: Final = 2
_KIND_WEIGHT: Final = 8
"""A row of another kind is as far as one of 256 times the bytes; one of twice the ranks as 4."""


class PublishedRow(NamedTuple):
    """A published time with the error of the estimate.

    Attributes:
        id: its name in bench/collectives.json.
        ranks: ranks that take part.
        nbytes: bytes of the message.
        is_first: whether it is taken to be of the first generation.
        nodes: instances that it is of.
        floor: the floor that its time is taken to have.
        error: ``(estimate - published) / published``.
        is_inside: whether the published time is between P10 and P90 of the estimate.
    """

    id: str
    kind: str
    ranks: int
    nbytes: int
    is_first: bool
    nodes: int
    floor: Floor
    error: float
    is_inside: bool

    def __str__(self) -> str:
        return (
            f"{self.kind}, {self.ranks} ranks, {self.nbytes:,} bytes "
            f"(estimated {100 * self.error:+.0f} %)"
        )


@dataclass(frozen=True)
class CollectiveEvidence:
    """The published rows that a time rests on.

    Attributes:
        rows: those of its floor, generation, and one instance or several.
        nearest: the nearest of these; of all rows of the floor where there are none.
        scope: what they are of, in words.
    """

    rows: tuple[PublishedRow, ...]
    nearest: PublishedRow
    scope: str

    def __str__(self) -> str:
        if not self.rows:
            return f"no published row of {self.scope}; the nearest other is {self.nearest}"
        return f"nearest of {len(self.rows)} published rows of {self.scope}: {self.nearest}"


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """All rows, in the order of bench/collectives.json."""
    text = (resources.files("trnsim.fabric") / "published.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    for fields in rows:
        fields["floor"] = Floor[fields["floor"]]
    return tuple(PublishedRow(**fields) for fields in rows)


def evidence(
    fabric: Fabric, kind: str, ranks: int, nbytes: float, floor: Floor
) -> CollectiveEvidence:
    """The rows that the time of a collective rests on.

    Args:
        fabric: the fabric of its ranks.
        kind: one of `trnsim.fabric.choice.KINDS`.
        ranks: ranks of a group.
        nbytes: bytes of the message.
        floor: the floor that its time has.
    """
    floor_rows = [row for row in published_rows() if row.floor is floor]
    is_first = not has_described_algorithms(fabric.chip.name)
    rows = tuple(
        row
        for row in floor_rows
        if row.is_first == is_first and (row.nodes > 1) == (fabric.nodes > 1)
    )

    def distance(row: PublishedRow) -> float:
        return (
            abs(log2(row.nbytes / max(nbytes, 1)))
            + _RANKS_WEIGHT * abs(log2(row.ranks / ranks))
            + _KIND_WEIGHT * (row.kind != kind)
        )

    chips = "the first generation" if is_first else "chips after the first generation"
    scope = f"{chips}, {'several instances' if fabric.nodes > 1 else 'one instance'}"
    return CollectiveEvidence(rows, min(rows or floor_rows, key=distance), scope)
