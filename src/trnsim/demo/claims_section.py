"""5 Claims: the number of published claims that the catalogue's rows reproduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.system.claims import claims, counts

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Catalogue


def claims_lines(rows: Catalogue | None = None) -> list[str]:
    """One line of the demo: the number of claims with each verdict."""
    judged = claims(rows)
    (best, reproduced), *others = counts(judged).items()
    other_counts = ", ".join(f"{number} {verdict.value}" for verdict, number in others)
    return [f"5 Claims    {reproduced} of {len(judged)} {best.value}; {other_counts}"]
