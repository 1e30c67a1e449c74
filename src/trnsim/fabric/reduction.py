"""The order in which an algorithm adds the values of a group, with its roundings.

An order is a rank, or a tuple of orders: these are added from left to right in float32, and the sum
is rounded to the dtype once, as it is written to memory. Parts of a message take different routes,
each with an order of its own; here one order stands for all of them, so that results are equal on
every rank: that of the part which the first ring, the first chip and the first axes reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from trnsim.fabric import hierarchical, kangaring, rdh
from trnsim.fabric.choice import best_of, choose
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.group import RankGroup

Order = Any
"""A rank's number, or a tuple of orders."""


@cache
def reduction_order(
    fabric: Fabric, kind: str, nbytes: float, groups: Sequence[Sequence[int]], group: Sequence[int]
) -> Order:
    """The order of a reduction in its algorithm.

    Args:
        fabric: the fabric of the ranks.
        kind: "all_reduce" or "reduce_scatter".
        nbytes: bytes of the whole message.
        groups: the groups that work at once, of one layout (`fabric.exchange.groups_like`).
        group: the group of the reduction.
    """
    name = choose(fabric, kind, nbytes, groups).algorithm
    return _order(name, RankGroup(fabric, tuple(group)), kind, nbytes)


def ranks_of(order: Order) -> list[int]:
    """The ranks of an order, from left to right."""
    if isinstance(order, int):
        return [order]
    return [rank for part in order for rank in ranks_of(part)]


def _order(name: str, group: RankGroup, kind: str, nbytes: float) -> Order:
    if group.size == 1:
        return group.ranks[0]
    if name == "hierarchical":
        return _hierarchical(group, kind, nbytes)
    return _ORDER_BY_ALGORITHM[name](group)


def _ring(group: RankGroup) -> Order:
    """One rank after the other, rounded at each."""
    first, *others = group.cycles()[0] if group.is_local else group.ranks
    order: Order = first
    for rank in others:
        order = order, rank
    return order


def _kangaring(group: RankGroup) -> Order:
    """One pair after the other: the received sum, the primary's and the secondary's at once."""
    first, *others = kangaring.pairs(group)[0]
    order: Order = first
    for pair in others:
        order = order, *pair
    return order


def _mesh(group: RankGroup) -> Order:
    """Sum over the ranks of each chip, then over chips."""
    chips = list(group.by_chip.values())
    if len(chips) == 1:
        return chips[0]
    return tuple(map(_chip_order, chips))


def _chip_order(ranks: Sequence[int]) -> Order:
    """Sum over the ranks of a chip at once; a single rank has nothing to add."""
    return tuple(ranks) if len(ranks) > 1 else ranks[0]


def _at_once(group: RankGroup) -> Order:
    """Sum over all ranks at once."""
    return group.ranks


def _rdh(group: RankGroup) -> Order:
    """Sum over the ranks of each chip, then with the neighbour along one axis after the other."""
    orders: dict[tuple[int, int], Order] = {
        chip: _chip_order(ranks) for chip, ranks in group.by_chip.items()
    }
    for axis in reversed(rdh.axes(group)):
        orders = {chip: (orders[chip], orders[axis[chip]]) for chip in orders}
    return next(iter(orders.values()))


def _hierarchical(group: RankGroup, kind: str, nbytes: float) -> Order:
    """Sum over the ranks of each instance, then over ranks at the same place of all instances."""
    node_groups, peer_groups = hierarchical.stages(group)
    chosen = best_of("reduce_scatter", node_groups, nbytes).algorithm
    part = nbytes / node_groups[0].size
    between_algorithm = best_of(kind, peer_groups, part).algorithm
    node_orders = {
        node.ranks[0]: _order(chosen, node, "reduce_scatter", nbytes) for node in node_groups
    }
    return _with_leaves(_order(between_algorithm, peer_groups[0], kind, part), node_orders)


def _with_leaves(order: Order, leaves: dict[int, Order]) -> Order:
    if isinstance(order, int):
        return leaves[order]
    return tuple(_with_leaves(part, leaves) for part in order)


_ORDER_BY_ALGORITHM = {
    "ring": _ring,
    "kangaring": _kangaring,
    "mesh": _mesh,
    "single-step mesh": _at_once,
    "rdh": _rdh,
}
