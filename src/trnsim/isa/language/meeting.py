"""Meetings: where the cores of a group wait until all of them have come.

A group is a ring of cores, each of which names its neighbours: the cores of a barrier in their
order, or those that pass data on in an exchange. A core is at one meeting at a time and stays until
its group is complete, so the groups of a launch never share a core, and which of them complete
does not depend on the order in which their cores come.

Source: nki.isa.core_barrier, nki.isa.sendrecv (operations of one pipe proceed together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Meeting(NamedTuple):
    """Where one core waits for its group.

    Attributes:
        at: the instruction and what it names, as an error says it; equal for all of a group.
        previous: the core before this one in the ring, from which it receives.
        following: the core after this one in the ring, to which it sends.
    """

    at: str
    previous: int
    following: int


def meeting_of(cores: Sequence[int], rank: int, at: str) -> Meeting:
    """Where core `rank` waits for all of `cores`, of which it is one."""
    place = cores.index(rank)
    return Meeting(at, cores[place - 1], cores[(place + 1) % len(cores)])


def group_of(rank: int, waiting: Mapping[int, Meeting]) -> tuple[list[int], int | None]:
    """The group of a waiting core as far as it has come, and who is missing next.

    Args:
        rank: the core.
        waiting: where each core waits that does.

    Returns:
        The cores from `rank` on around the ring, and the first one that has not come; None where
        the ring is closed.
    """
    group = [rank]
    while True:
        here = waiting[group[-1]]
        there = waiting.get(here.following)
        if there is None or there.at != here.at or there.previous != group[-1]:
            return group, here.following
        if here.following == rank:
            return group, None
        group.append(here.following)
