"""Mesh: every chip writes to every other at once, over links that several transfers share.

It has one step between chips and one inside them. In the single-step form of an all-reduce every
rank gets the whole message of every other one and reduces them.

Source: aws-neuron-sdk, intranode-collective-comm.rst, Mesh Algorithm; internode-collective-comm.rst
for one rank on each instance.
"""

from __future__ import annotations

import numpy as np

from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan, Ranks, TransferPhase, even_phase


def is_possible(group: RankGroup) -> bool:
    """True if all chips have the same number of ranks."""
    return group.per_chip > 0


def all_gather(group: RankGroup, nbytes: float) -> Plan:
    """Chunks to the same place on every other chip; then inside the chips."""
    chunk, per_chip = nbytes / group.size, group.per_chip
    chips = _chips(group)
    plan: Plan = ()
    if len(chips) > 1:
        # AWS's ranks divide the other chips among them; here each sends to its place on every
        # other chip, so that the bytes are evenly shared for any number of chips.
        sender_chips, receiver_chips = _pairs(len(chips))
        plan = (even_phase(chips[sender_chips].ravel(), chips[receiver_chips].ravel(), chunk),)
    if per_chip > 1:
        plan = (*plan, inside_chips(group, len(chips) * chunk))
    return plan


def reduce_scatter(group: RankGroup, nbytes: float) -> Plan:
    """Chunks for ranks elsewhere, reduced over the chip; then each rank reduces those received."""
    chunk, per_chip = nbytes / group.size, group.per_chip
    ranks, chips = np.array(group.ranks), _chips(group)
    if len(chips) == 1:
        return (even_phase(ranks, ranks, chunk, reads=group.size),)
    sender_chips, receiver_chips = _pairs(len(chips))
    senders = (receiver_chips[:, None] + np.arange(per_chip)) % per_chip
    sources = chips[sender_chips[:, None], senders].ravel()
    to_others = even_phase(sources, chips[receiver_chips].ravel(), chunk, reads=per_chip)
    return (to_others, even_phase(ranks, ranks, chunk, reads=len(chips) - 1 + per_chip))


def all_reduce_at_once(group: RankGroup, nbytes: float) -> Plan:
    """The single-step form: whole messages to all, then each rank reduces them."""
    ranks = np.array(group.ranks)
    first, second = _pairs(group.size)
    to_all = even_phase(ranks[first], ranks[second], nbytes, reads=1 / (group.size - 1))
    return (to_all, even_phase(ranks, ranks, nbytes, reads=group.size))


def inside_chips(group: RankGroup, nbytes: float) -> TransferPhase:
    """Each rank of a chip writes its chunk to the others there, with one read for all."""
    chips, (first, second) = _chips(group), _pairs(group.per_chip)
    sources, targets = chips[:, first].ravel(), chips[:, second].ravel()
    return even_phase(sources, targets, nbytes, reads=1 / (group.per_chip - 1))


def _chips(group: RankGroup) -> Ranks:
    """The ranks of each chip: [chips, ranks of one]."""
    return np.array(list(group.by_chip.values()))


def _pairs(count: int) -> tuple[Ranks, Ranks]:
    """First and second members of all ordered pairs of different numbers below `count`."""
    first, second = np.nonzero(~np.eye(count, dtype=bool))
    return first, second
