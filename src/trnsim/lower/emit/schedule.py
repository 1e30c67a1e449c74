"""The split of SBUF between results that stay there and tiles that are read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class SbufSchedule:
    """The split of a partition's bytes between resident results and passing tiles.

    Attributes:
        passing_bytes: bytes for weights that pass and tiles of single instructions; the others hold
            results.
        ring_bytes: the part of `passing_bytes` for a ring buffer of weights that are loaded ahead.
    """

    passing_bytes: int = 72 * KIB
    ring_bytes: int = 32 * KIB

    def __str__(self) -> str:
        return f"{self.passing_bytes // KIB} KiB passing, {self.ring_bytes // KIB} KiB ahead"


FIRST_SCHEDULE: Final = SbufSchedule()
ROOM: Final = "room"
"""The name of a shortage of SBUF: a result had no room there."""
RING: Final = "ring"
"""The name of a shortage of SBUF: weights waited until earlier ones in the ring were read."""
