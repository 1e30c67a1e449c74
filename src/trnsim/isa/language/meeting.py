"""Meetings: synchronization points where the cores of a group wait for each other.

A group is a ring of cores, each of which names its neighbours: the cores of a barrier in ascending
order, or the cores that pass data on in an exchange. A core waits at one meeting at a time, until
its group is complete, so groups never share a core, and the order in which cores arrive does not
decide which groups complete.

Source: nki.isa.core_barrier, nki.isa.sendrecv (operations of one pipe proceed together).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trnsim.dtypes import Array


class Meeting(NamedTuple):
    """One core's side of a meeting.

    Attributes:
        label: the instruction and its parameters, for error messages; equal for the whole group.
        sender: the core before this core in the ring, from which this core receives.
        receiver: the core after this core in the ring, to which this core sends.
    """

    label: str
    sender: int
    receiver: int

    def numbered_from(self, first: int) -> Meeting:
        """The same meeting with cores numbered from `first` on, instead of 0."""
        return Meeting(self.label, self.sender + first, self.receiver + first)


class Exchange(NamedTuple):
    """One core's side of a collective of ranks.

    Attributes:
        label: the collective and its operands, for error messages; equal for the whole group.
        ranks: the ranks of the group, in its order.
        is_joint: whether the cores of a rank take part as one member, with the same tensors; else
            core i exchanges with the cores i of other ranks.
        offered_arrays: function that returns the arrays that this core offers, as stored; called
            once its group is complete.
        results: function from the arrays that all members offer to those that each receives, both
            in the group's order.
        groups: all groups that exchange at once.
    """

    label: str
    ranks: tuple[int, ...]
    is_joint: bool
    offered_arrays: Callable[[], Sequence[Array]]
    results: Callable[[Sequence[Sequence[Array]]], Sequence[Sequence[Array]]]
    groups: tuple[tuple[int, ...], ...] = ()


def meeting_of(cores: Sequence[int], core: int, label: str) -> Meeting:
    """The meeting of `core` with all of `cores`, which include it."""
    index = cores.index(core)
    return Meeting(label, cores[index - 1], cores[(index + 1) % len(cores)])


def group_of(core: int, meetings: Mapping[int, Meeting]) -> tuple[list[int], int | None]:
    """The members of a waiting core's group that have arrived, and the next missing member.

    Args:
        core: the waiting core.
        meetings: core -> its meeting, for all cores that wait.

    Returns:
        The cores from `core` on around the ring, and the first one that has not arrived; None if
        the ring is complete.
    """
    group = [core]
    while True:
        label, _, receiver = meetings[group[-1]]
        next_meeting = meetings.get(receiver)
        if next_meeting is None or next_meeting[:2] != (label, group[-1]):
            return group, receiver
        if receiver == core:
            return group, None
        group.append(receiver)
