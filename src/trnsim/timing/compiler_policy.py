"""The choices that the schedule makes in place of AWS's compiler.

The compiler orders the instructions of an engine, places buffers and picks DMA queues. Its rules
are not public, so the schedule makes these choices:

- A compute engine takes the first instruction that is ready among the next few, under the policy
  `compiler`, or its instructions in the order in which the kernel issues them, under `issued`.
- A transfer starts as soon as it is ready and the DMA engines are free, whatever was issued before.
- A tensor without an address has a buffer of its own, so no transfer waits for a buffer to be free.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from trnsim.errors import BadInput
from trnsim.isa import Engine


@dataclass(frozen=True)
class Policy:
    """How far instructions may overtake others of their engine.

    Attributes:
        ahead: the number of next instructions, in the order of issue, that a compute engine chooses
            from; 1 for no choice.
    """

    name: str
    ahead: int

    def window(self, engine: Engine) -> float:
        """The number of next instructions that `engine` chooses from; transfers have no limit."""
        return inf if engine is Engine.dma else self.ahead


POLICIES: Final = {policy.name: policy for policy in (Policy("compiler", 64), Policy("issued", 1))}
DEFAULT: Final = POLICIES["compiler"]


def policy_of(order: object) -> Policy:
    """The policy called `order`.

    Raises:
        BadInput: for an unknown name.
    """
    if not isinstance(order, str) or order not in POLICIES:
        raise BadInput(
            f"order {order!r} is not known; legal: {', '.join(POLICIES)}",
            fix="leave it out to time instructions as AWS's compiler might order them",
            source="trnsim.run",
        )
    return POLICIES[order]
