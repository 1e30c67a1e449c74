"""How SBUF is shared by what stays there and what passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class SbufSchedule:
    """How the bytes of a partition of SBUF are shared.

    Attributes:
        passing_bytes: for weights on their way and tiles of one instruction; the rest holds
            results.
        ring_bytes: of these, for weights that are loaded ahead.
    """

    passing_bytes: int = 72 * KIB
    ring_bytes: int = 32 * KIB

    def __str__(self) -> str:
        return f"{self.passing_bytes // KIB} KiB passing, {self.ring_bytes // KIB} KiB ahead"


FIRST: Final = SbufSchedule()
ROOM: Final = "room"
"""Lacked where a result found no room in SBUF."""
RING: Final = "ring"
"""Lacked where weights waited for those before them to be read."""
