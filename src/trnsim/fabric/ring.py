"""Ring: each rank passes the chunk from the one before on to the next, several rings at once.

Source: aws-neuron-sdk, intranode-collective-comm.rst, Ring Algorithm.
"""

from __future__ import annotations

from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan, Transfer, TransferPhase, phase

_READS_TO_REDUCE = 2.0  # the received chunk and the rank's own


def all_gather(group: RankGroup, nbytes: float) -> Plan:
    """``(N - 1)`` steps of a chunk."""
    return (_ring_phase(group, nbytes, 1.0),)


def reduce_scatter(group: RankGroup, nbytes: float) -> Plan:
    """``(N - 1)`` steps of a chunk, each reduced with the rank's own."""
    return (_ring_phase(group, nbytes, _READS_TO_REDUCE),)


def _ring_phase(group: RankGroup, nbytes: float, reads: float) -> TransferPhase:
    rings = group.cycles() if group.is_local else [group.ranks]
    chunk = nbytes / group.size / len(rings)
    return phase(
        (
            Transfer(rank, ring[(index + 1) % len(ring)], chunk, channel)
            for channel, ring in enumerate(rings)
            for index, rank in enumerate(ring)
        ),
        reads=reads,
        repeat=group.size - 1,
    )
