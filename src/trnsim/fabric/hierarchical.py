"""Hierarchical: one stage inside instances, one between equally placed ranks of all instances.

Links between instances are narrower, so the stage with less traffic takes them: it comes first in
an all-gather and last in a reduce-scatter. Each stage has the best algorithm for it.

Source: aws-neuron-sdk, internode-collective-comm.rst, Hierarchical Algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan

BestPlan = Callable[[str, "Sequence[RankGroup]", float], Plan]
"""Function from (kind, groups that work at once, bytes) to the plan of the best algorithm."""


def is_possible(group: RankGroup) -> bool:
    """True if every instance has the same number of ranks, above one, at the same places."""
    nodes = list(group.by_node.values())
    places = {tuple(group.places[rank][1:] for rank in ranks) for ranks in nodes}
    return len(nodes) > 1 and len(nodes[0]) > 1 and len(places) == 1


def all_gather(group: RankGroup, nbytes: float, best_plan: BestPlan) -> Plan:
    """Between instances, then inside them."""
    node_groups, peer_groups = stages(group)
    return (
        *best_plan("all_gather", peer_groups, nbytes / len(node_groups[0].ranks)),
        *best_plan("all_gather", node_groups, nbytes),
    )


def reduce_scatter(group: RankGroup, nbytes: float, best_plan: BestPlan) -> Plan:
    """Inside instances, then between them."""
    node_groups, peer_groups = stages(group)
    return (
        *best_plan("reduce_scatter", node_groups, nbytes),
        *best_plan("reduce_scatter", peer_groups, nbytes / len(node_groups[0].ranks)),
    )


def all_reduce(group: RankGroup, nbytes: float, best_plan: BestPlan) -> Plan:
    """Reduce-scatter inside, all-reduce between, all-gather inside."""
    node_groups, peer_groups = stages(group)
    return (
        *best_plan("reduce_scatter", node_groups, nbytes),
        *best_plan("all_reduce", peer_groups, nbytes / len(node_groups[0].ranks)),
        *best_plan("all_gather", node_groups, nbytes),
    )


def stages(group: RankGroup) -> tuple[list[RankGroup], list[RankGroup]]:
    """The groups inside instances, and those of the ranks at the same place of each."""
    nodes = list(group.by_node.values())
    node_groups = [RankGroup(group.fabric, ranks) for ranks in nodes]
    peer_groups = [RankGroup(group.fabric, ranks) for ranks in zip(*nodes, strict=True)]
    return node_groups, peer_groups
