"""Recursive doubling and halving: chips as a hypercube, one axis after the other.

The ranks with the same index within their chips form a group, which exchanges between chips. Each
group begins with another axis, so that all four links of a chip are busy in every step. One further
step is inside chips.

Source: aws-neuron-sdk, intranode-collective-comm.rst, Recursive Doubling and Halving;
internode-collective-comm.rst for one rank on each instance. That groups begin with different axes
is a reading of its "partial over-subscription": with one axis for all, three links would idle.
"""

from __future__ import annotations

from trnsim.fabric.group import RankGroup
from trnsim.fabric.mesh import inside_chips
from trnsim.fabric.transfers import Plan, Transfer, TransferPhase, phase

Axes = list[dict[tuple[int, int], tuple[int, int]]]
"""For each axis the neighbour of each (instance, chip)."""

_READS_TO_REDUCE = 2.0  # the received chunk and the rank's own


def is_possible(group: RankGroup) -> bool:
    """True if the chips of the group form a hypercube, all with the same number of ranks."""
    return group.per_chip > 0 and bool(axes(group))


def axes(group: RankGroup) -> Axes:
    """The hypercube of an instance's chips, or of instances with one chip each in the group."""
    chips = list(group.by_chip)
    if group.is_local:
        node = chips[0][0]
        return [
            {(node, chip): (node, neighbour) for chip, neighbour in axis.items()}
            for axis in group.fabric.topology.axes(group.chips)
        ]
    if len(group.by_node) < len(chips) or len(chips) & (len(chips) - 1):
        return []
    return [
        {chip: chips[index ^ (1 << bit)] for index, chip in enumerate(chips)}
        for bit in range(len(chips).bit_length() - 1)
    ]


def all_gather(group: RankGroup, nbytes: float) -> Plan:
    """Doubling between chips, then one step inside them."""
    chunk, cube = nbytes / group.size, axes(group)
    plan = tuple(_exchange(group, cube, step, chunk * 2**step, 1.0) for step in range(len(cube)))
    if group.per_chip > 1:
        plan = (*plan, inside_chips(group, len(group.by_chip) * chunk))
    return plan


def reduce_scatter(group: RankGroup, nbytes: float) -> Plan:
    """One step inside chips, then halving between them."""
    chunk, cube = nbytes / group.size, axes(group)
    plan: Plan = ()
    if group.per_chip > 1:
        nbytes_per_rank = len(group.by_chip) * chunk
        local_transfers = (Transfer(rank, rank, nbytes_per_rank) for rank in group.ranks)
        plan = (phase(local_transfers, reads=group.per_chip),)
    return plan + tuple(
        _exchange(group, cube, step, chunk * 2**step, _READS_TO_REDUCE)
        for step in reversed(range(len(cube)))
    )


def _exchange(
    group: RankGroup, cube: Axes, step: int, nbytes: float, reads: float
) -> TransferPhase:
    """An exchange of each rank with the rank of the same index on the neighbouring chip."""
    return phase(
        (
            Transfer(rank, group.by_chip[cube[(step + index) % len(cube)][chip]][index], nbytes)
            for chip, ranks in group.by_chip.items()
            for index, rank in enumerate(ranks)
        ),
        reads=reads,
    )
