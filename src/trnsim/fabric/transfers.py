"""The transfers of a collective between ranks, in phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.float64]


class Transfer(NamedTuple):
    """Bytes from one rank to another; with one rank as both, a local copy or reduction."""

    source: int
    target: int
    nbytes: float
    channel: int = 0


@dataclass(frozen=True)
class TransferPhase:
    """Transfers that ranks start when they have the bytes of the phase before.

    Attributes:
        sources: the rank that sends, of each transfer.
        channels: the ring or route of each; a rank's channels do not wait for each other.
        reads: bytes read from the HBM of the sender's chip for each byte sent: 2 where a received
            chunk is reduced with the rank's own.
        copies: bytes written to the HBM of the sender's chip beside each byte sent.
    """

    sources: Ranks
    targets: Ranks
    nbytes: Bytes
    channels: Ranks
    reads: float = 1.0
    copies: float = 0.0
    repeat: int = 1

    @property
    def total_bytes(self) -> float:
        """Bytes that leave one rank for another, in all repetitions."""
        return float(self.nbytes[self.sources != self.targets].sum() * self.repeat)


Plan = tuple[TransferPhase, ...]
"""The phases of a collective in order."""


def phase(
    transfers: Iterable[Transfer],
    *,
    reads: float = 1.0,
    copies: float = 0.0,
    repeat: int = 1,
) -> TransferPhase:
    """A phase of `transfers`."""
    rows = list(transfers)
    return TransferPhase(
        np.array([row.source for row in rows], np.int64),
        np.array([row.target for row in rows], np.int64),
        np.array([row.nbytes for row in rows], np.float64),
        np.array([row.channel for row in rows], np.int64),
        reads,
        copies,
        repeat,
    )


def even_phase(
    sources: Ranks, targets: Ranks, nbytes: float, *, reads: float = 1.0
) -> TransferPhase:
    """A phase of transfers of `nbytes` each, from ``sources[i]`` to ``targets[i]``."""
    channels = np.zeros(len(sources), np.int64)
    return TransferPhase(sources, targets, np.full(len(sources), nbytes), channels, reads)


def side_by_side(plans: Sequence[Plan]) -> Plan:
    """One plan for groups that work at the same time, from a plan of each with as many phases."""
    if len(plans) == 1:
        return plans[0]
    return tuple(_join_phases(phases) for phases in zip(*plans, strict=True))


def _join_phases(phases: Sequence[TransferPhase]) -> TransferPhase:
    return replace(
        phases[0],
        sources=np.concatenate([phase.sources for phase in phases]),
        targets=np.concatenate([phase.targets for phase in phases]),
        nbytes=np.concatenate([phase.nbytes for phase in phases]),
        channels=np.concatenate([phase.channels for phase in phases]),
    )
