"""Collectives for which AWS describes no algorithm: each transfer goes straight to its rank.

All of these are assumptions. Broadcast and reduce are not here: `trnsim.fabric.choice` composes
them, each of one collective of this file and one that AWS describes.
"""

from __future__ import annotations

from itertools import permutations

from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan, Transfer, phase


def all_to_all(group: RankGroup, nbytes: float) -> Plan:
    """Each rank writes a chunk to every other rank."""
    pairs = permutations(group.ranks, 2)
    return (phase(Transfer(*pair, nbytes / group.size) for pair in pairs),)


def scatter(group: RankGroup, nbytes: float) -> Plan:
    """The first rank writes each other rank its chunk."""
    root, *others = group.ranks
    return (phase(Transfer(root, target, nbytes / group.size) for target in others),)


def gather(group: RankGroup, nbytes: float) -> Plan:
    """Each rank writes its chunk to the first one."""
    root, *others = group.ranks
    return (phase(Transfer(source, root, nbytes / group.size) for source in others),)


def permute(group: RankGroup, nbytes: float) -> Plan:
    """Each rank sends its whole message to the next of the group, the last to the first."""
    receivers = (*group.ranks[1:], group.ranks[0])
    return (phase(Transfer(*pair, nbytes) for pair in zip(group.ranks, receivers, strict=True)),)


def send(group: RankGroup, nbytes: float) -> Plan:
    """The first rank sends the whole message to the last."""
    return (phase([Transfer(group.ranks[0], group.ranks[-1], nbytes)]),)
