"""Refusal of tensors that the body of a device loop allocated, after the loop.

Every use of a tensor reads its set of written bytes. After the loop that set raises an error on
every access, so that instructions need no check of their own.

Source: nki/migration/index.rst, Rules for migrated loops.
"""

from __future__ import annotations

from typing import Any

from trnsim.errors import IllegalInstruction, SourceLine
from trnsim.memory.bytemask import ByteMask


class EndedLoopMask(ByteMask):
    """The written bytes of a tensor whose loop has ended: every access to the set is refused."""

    __slots__ = ("_line", "_loop")

    def __init__(self, loop: str, line: SourceLine | None) -> None:
        object.__setattr__(self, "_loop", loop)
        object.__setattr__(self, "_line", line)

    def __getattribute__(self, name: str) -> Any:
        """Refuse everything but Python's own attributes.

        Raises:
            IllegalInstruction: always, with the line of the tensor's allocation.
        """
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        line, loop = (object.__getattribute__(self, slot) for slot in EndedLoopMask.__slots__)
        raise IllegalInstruction(
            f"a tensor that the body of {loop} allocated at {line} is used after the loop; legal: "
            "in the body",
            fix="allocate it before the loop, and write it in the body",
            source="nki/migration/index.rst, Rules for migrated loops",
        )
