"""The choices that the schedule makes in the place of AWS's compiler.

The compiler orders the instructions of an engine, places buffers and picks DMA queues. How it does
so is not public, so the schedule makes these choices:

- Each compute engine takes its instructions in the order in which the kernel issues them.
- A tensor without an address lies alone: no transfer waits for a buffer that another tensor left.
- Queues are picked so that no transfer waits behind one that is not ready (`transfers_overtake`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Policy:
    """The choices that a caller can change.

    Attributes:
        transfers_overtake: whether a transfer that is ready starts before earlier-issued ones that
            are not; otherwise all go through one queue in the order of issue.
    """

    transfers_overtake: bool = True


DEFAULT: Final = Policy()
