"""KangaRing: a ring of every second rank, which carries its neighbour's chunks too.

One of two ranks on a chip is primary. Only these form the ring, so it has half the hops, and a
received chunk is written to the secondary rank and onwards with one read. The primary rank
alternates between rings. All ranks of each chip must be in the group, an even number.

Source: aws-neuron-sdk, intranode-collective-comm.rst, KangaRing Algorithm.
"""

from __future__ import annotations

from typing import Final

from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan, Transfer, phase

_PAIR_CORES: Final = 2
_READS_TO_REDUCE: Final = 3.0  # the received chunk, the rank's own, and the secondary rank's


def is_possible(group: RankGroup) -> bool:
    """True if all ranks of each chip take part, in pairs."""
    count = group.per_chip
    has_all_cores = count == group.fabric.cores_per_chip
    return group.is_local and has_all_cores and count % _PAIR_CORES == 0 and len(group.chips) > 1


def all_gather(group: RankGroup, nbytes: float) -> Plan:
    """``N/2 - 1`` steps of two chunks; the last two go to the secondary rank alone."""
    rings, chunk = pairs(group), nbytes / group.size
    return (
        phase(
            _to_next_primaries(rings, _PAIR_CORES * chunk),
            copies=1.0,
            repeat=group.size // _PAIR_CORES - 1,
        ),
        phase(_to_secondaries(rings, _PAIR_CORES * chunk)),
    )


def reduce_scatter(group: RankGroup, nbytes: float) -> Plan:
    """``N/2 - 1`` steps of two chunks; then the secondary rank gets its own."""
    rings, chunk = pairs(group), nbytes / group.size
    steps = group.size // _PAIR_CORES - 1
    return (
        phase(_to_next_primaries(rings, _PAIR_CORES * chunk), reads=_READS_TO_REDUCE, repeat=steps),
        phase(_to_secondaries(rings, chunk), reads=_READS_TO_REDUCE),
    )


def pairs(group: RankGroup) -> list[list[tuple[int, int]]]:
    """For each ring its (primary, secondary) ranks in order."""
    rings = []
    for channel, ring in enumerate(group.cycles()):
        ring_pairs = [(ring[at], ring[at + 1]) for at in range(0, len(ring), _PAIR_CORES)]
        rings.append([pair if channel % _PAIR_CORES == 0 else pair[::-1] for pair in ring_pairs])
    return rings


def _to_next_primaries(rings: list[list[tuple[int, int]]], nbytes: float) -> list[Transfer]:
    return [
        Transfer(primary, ring[(index + 1) % len(ring)][0], nbytes / len(rings), channel)
        for channel, ring in enumerate(rings)
        for index, (primary, _) in enumerate(ring)
    ]


def _to_secondaries(rings: list[list[tuple[int, int]]], nbytes: float) -> list[Transfer]:
    return [
        Transfer(primary, secondary, nbytes / len(rings), channel)
        for channel, ring in enumerate(rings)
        for primary, secondary in ring
    ]
