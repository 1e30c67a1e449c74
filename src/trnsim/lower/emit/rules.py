"""What issues the instructions of an operation, in one table.

    @emitter(DotGeneral)
    def dot_general(emission: Emission, node: Node) -> None: ...

An emitter puts the places of the results into `emission.placed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trnsim.graph import Node, Operation
    from trnsim.lower.emit.emission import Emission

Emitter = Callable[["Emission", "Node"], None]
EMITTERS: Final[dict[type[Operation], Emitter]] = {}
"""By operation; elementwise operations and views need none."""


def emitter(*operations: type[Operation]) -> Callable[[Emitter], Emitter]:
    """Declare what issues operations."""

    def declare(rule: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(operations, rule))
        return rule

    return declare
