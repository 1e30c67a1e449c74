"""Mesh: every chip writes to every other at once, over links that several transfers share.

One step between chips, one inside them. The single-step form of an all-reduce sends the whole
message to everyone, who then reduces it.

Source: aws-neuron-sdk, intranode-collective-comm.rst, Mesh Algorithm; internode-collective-comm.rst
for one rank on each instance.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from trnsim.fabric.transfers import Phase, Plan, Transfer, phase

if TYPE_CHECKING:
    from trnsim.fabric.algorithms.group import Group


def is_possible(group: Group) -> bool:
    """Whether each chip has as many ranks as every other."""
    return group.per_chip > 0


def all_gather(group: Group, nbytes: float) -> Plan:
    """To each other chip; then inside the chips."""
    chunk, per_chip = nbytes / group.size, group.per_chip
    chips = list(group.by_chip.values())
    plan: Plan = ()
    if len(chips) > 1:
        plan = (phase(_between(chips, chunk)),)
    if per_chip > 1:
        plan = (*plan, inside(group, len(chips) * chunk))
    return plan


def reduce_scatter(group: Group, nbytes: float) -> Plan:
    """What each rank elsewhere wants, reduced over the chip; then each rank reduces what came."""
    chunk, per_chip = nbytes / group.size, group.per_chip
    chips = list(group.by_chip.values())
    if len(chips) == 1:
        return (phase((Transfer(one, one, chunk) for one in group.ranks), reads=group.size),)
    to_others = [
        Transfer(here[(number + place) % per_chip], rank, chunk)
        for here in chips
        for number, there in enumerate(chips)
        if there is not here
        for place, rank in enumerate(there)
    ]
    last = phase(
        (Transfer(rank, rank, chunk) for rank in group.ranks),
        reads=len(chips) - 1 + per_chip,
    )
    return (phase(to_others, reads=per_chip), last)


def all_reduce(group: Group, nbytes: float) -> Plan:
    """Reduce-scatter, then all-gather."""
    return (*reduce_scatter(group, nbytes), *all_gather(group, nbytes))


def all_reduce_at_once(group: Group, nbytes: float) -> Plan:
    """The single-step form: all to all, then each reduces everything."""
    to_all = phase(
        (Transfer(one, other, nbytes) for one, other in permutations(group.ranks, 2)),
        reads=1 / (group.size - 1),
    )
    own = (Transfer(rank, rank, nbytes) for rank in group.ranks)
    return (to_all, phase(own, reads=group.size))


def inside(group: Group, nbytes: float) -> Phase:
    """Each rank of a chip writes what it has to the others there, with one read for all."""
    pairs = (pair for ranks in group.by_chip.values() for pair in permutations(ranks, 2))
    return phase((Transfer(*pair, nbytes) for pair in pairs), reads=1 / (group.per_chip - 1))


def _between(chips: list[tuple[int, ...]], chunk: float) -> list[Transfer]:
    """What a chip has, to each other chip.

    AWS's ranks share the other chips; here each sends its part of what all others get, so that the
    bytes are evenly shared whatever the number of chips.
    """
    return [
        Transfer(*pair, chunk)
        for here, there in permutations(chips, 2)
        for pair in zip(here, there, strict=True)
    ]
