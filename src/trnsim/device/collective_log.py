"""The collectives of a process, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.fabric.floors import Floor
from trnsim.profile.units import bytes_text

if TYPE_CHECKING:
    from trnsim.document.answer import Block

_MS_PER_S: Final = 1e3
_TABLE_COLUMNS: Final = "collective | calls | bytes each | ranks | group | algorithm | ms"
_KIND_BY_NAME: Final = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced"), "all_reduce"),
    **dict.fromkeys(
        ("allgather", "allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced"),
        "all_gather",
    ),
    **dict.fromkeys(("reduce_scatter_base", "reduce_scatter_tensor_coalesced"), "reduce_scatter"),
    **dict.fromkeys(("alltoall", "alltoall_base"), "all_to_all"),
    **dict.fromkeys(("recv", "recv_any_source", "collective_permute"), "send"),
}
"""Names in frameworks and graphs for kinds of `trnsim.fabric`, where they differ."""
_SHOWN: Final = 8
"""Number of members of a group that a table names."""


def kind_of(name: str) -> str | None:
    """The kind of a collective in `trnsim.fabric`; None for one that it does not time."""
    from trnsim.fabric.choice import KINDS  # noqa: PLC0415  as below

    kind = _KIND_BY_NAME.get(name, name)
    return kind if kind in KINDS else None


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective of this process.

    Attributes:
        kind: its name, without leading and trailing underscores ("allreduce", "alltoall_base").
        nbytes: bytes of the whole message: the larger of a process's input and output.
        ranks: the processes of the group.
        floor: as a program that the host starts (PyTorch), or inside a program (JAX).
    """

    kind: str
    nbytes: int
    ranks: tuple[int, ...]
    floor: Floor = Floor.HOST


def collectives_blocks(log: Sequence[CollectiveCall], target: str) -> tuple[Block, ...]:
    """A table of the program's collectives: count, bytes, group, algorithm, time; () for none."""
    # For a report: whatever imports PyTorch imports this module.
    from trnsim.device.rank_placement import placed_time  # noqa: PLC0415
    from trnsim.document.answer import Items, Note, Table, columns  # noqa: PLC0415

    counts = Counter(log)
    if not counts:
        return ()
    rows: list[list[str]] = []
    origins: list[str] = []
    for call, number in sorted(counts.items(), key=lambda row: -row[0].nbytes * row[1]):
        kind = kind_of(call.kind)
        algorithm, ms = "", "not timed"
        if kind is not None:
            time = placed_time(kind, call.nbytes, [call.ranks], target, call.floor)
            algorithm, ms = time.algorithm, f"{number * time.time_s * _MS_PER_S:.3f}"
            origins.append(time.origin)
        size, group = str(len(call.ranks)), _members(call.ranks)
        rows.append([call.kind, str(number), bytes_text(call.nbytes), size, group, algorithm, ms])
    sources = [f"from {origin}" for origin in dict.fromkeys(origins)]
    floors = " or ".join(dict.fromkeys(call.floor.value for call in counts))
    head = Note(f"collectives of the whole program on {target}, {floors}")
    return head, Table(columns(_TABLE_COLUMNS), rows), Items(sources, indent=2)


def _members(ranks: Sequence[int]) -> str:
    """The members of a group as text: 0-7, or 0,2,4,6; the first ones of many."""
    if len(ranks) > 1 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join([*map(str, ranks[:_SHOWN]), *["..."] * (len(ranks) > _SHOWN)])
