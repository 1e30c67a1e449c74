"""`nki.isa.NkiInstruction`: the result of a call that issues an instruction."""

from __future__ import annotations


class NkiInstruction:
    """An issued instruction.

    Attributes:
        opcode: its name in `nki.isa` or `nki.collectives`.
        name: the label that the call gave; "" for none.
    """

    __slots__ = ("name", "opcode")

    def __init__(self, opcode: str, name: str | None = None) -> None:
        self.opcode = opcode
        self.name = name or ""

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        return f"NkiInstruction({self.opcode}{label})"
