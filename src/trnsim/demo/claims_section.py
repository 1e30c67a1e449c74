"""5 Claims: the number of published claims that the catalogue's rows reproduce."""

from __future__ import annotations

from trnsim.arch.catalogue import Catalogue
from trnsim.document.answer import Block, Note
from trnsim.system.claims import claims, counts


def claims_blocks(rows: Catalogue | None = None) -> list[Block]:
    """The number of claims with each verdict."""
    judged = claims(rows)
    (best, reproduced), *others = counts(judged).items()
    other_counts = ", ".join(f"{number} {verdict.value}" for verdict, number in others)
    counted = f"{reproduced} of {len(judged)} {best.value}; {other_counts}"
    return [Note(f"5 Claims    {counted}", hanging=12)]
