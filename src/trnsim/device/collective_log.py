"""The collectives of a process, and the table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.formatting import text_table
from trnsim.profile.units import bytes_text

_MS: Final = 1e3
_SHOWN: Final = 8
"""Members of a group that a table names."""
CLOSED_FORMS: Final = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
}
"""Names of exchanges in graphs, and those of collectives that have a closed form of their time."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective of this process.

    Attributes:
        kind: its name, without leading and trailing underscores ("allreduce", "alltoall_base").
        nbytes: bytes of the whole message: the larger of a process's input and output.
        ranks: the processes of the group.
    """

    kind: str
    nbytes: int
    ranks: tuple[int, ...]


CollectiveTimes = Callable[[str, int, int, str], Any]
"""(kind, bytes, ranks, chip) to the time of a collective, or to None where it has none.

Links between chips belong to the rooms above this one, so the caller of a report passes it.
"""


def collectives_text(log: Sequence[CollectiveCall], target: str, time_of: CollectiveTimes) -> str:
    """A table of the program's collectives: count, bytes, group, time; "" where there were none."""
    alike = Counter(log)
    if not alike:
        return ""
    rows: list[list[str]] = []
    origins: list[str] = []
    for one, number in sorted(alike.items(), key=lambda row: -row[0].nbytes * row[1]):
        found = time_of(one.kind, one.nbytes, len(one.ranks), target)
        took = "not timed" if found is None else f"{number * found.time_s * _MS:.3f}"
        origins += [] if found is None else [found.origin]
        size, group = str(len(one.ranks)), _members(one.ranks)
        rows.append([one.kind, str(number), bytes_text(one.nbytes), size, group, took])
    table = text_table(["collective", "calls", "bytes each", "ranks", "group", "ms"], rows)
    return "\n".join([f"collectives of the whole program on {target}", table, *_unique(origins)])


def _members(ranks: Sequence[int]) -> str:
    """The members of a group: 0-7, or 0,2,4,6; the first ones of many."""
    if len(ranks) > 1 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join([*map(str, ranks[:_SHOWN]), *["..."] * (len(ranks) > _SHOWN)])


def _unique(origins: list[str]) -> list[str]:
    return [f"  from {origin}" for origin in dict.fromkeys(origins)]
