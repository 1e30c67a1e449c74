"""5 Claims: the number of published claims that the catalogue's rows reproduce."""

from __future__ import annotations

from trnsim.arch.catalogue import Catalogue
from trnsim.document.answer import Block, Note
from trnsim.system.claims import claims, counts


def claims_blocks(rows: Catalogue | None = None) -> list[Block]:
    """The number of claims with each verdict."""
    verdicts = claims(rows)
    (first_verdict, first_count), *other_counts = counts(verdicts).items()
    others = ", ".join(f"{count} {verdict.value}" for verdict, count in other_counts)
    text = f"{first_count} of {len(verdicts)} {first_verdict.value}; {others}"
    return [Note(f"5 Claims    {text}", hanging=12)]
