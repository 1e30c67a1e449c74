"""The 34 checkable claims of four documents about these chips, recomputed from the catalogue.

The documents: 000, 002 and 003 are one note, "AWS Trainium AI Accelerator Chips", in German,
English and Spanish; 001 is "Amazon Trainium und Inferentia", a guide of 2025-12-11. The claimed
number is a literal here; ours is computed from catalogue rows, on every basis that the rows allow;
the verdict compares the two (`trnsim.system.claims.verdict`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.system.claims import business, prices, specs
from trnsim.system.claims.verdict import Claim, Figure, Part, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Claim", "Figure", "Part", "Verdict", "claims", "counts"]


def claims(rows: Catalogue | None = None) -> list[Claim]:
    """All claims, by id, judged against `rows`."""
    rows = rows or catalogue()
    judged = [check(rows) for check in (*specs.CLAIMS, *prices.CLAIMS, *business.CLAIMS)]
    return sorted(judged, key=lambda claim: claim.id)


def counts(judged: Iterable[Claim]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    verdicts = [claim.verdict for claim in judged]
    return {verdict: verdicts.count(verdict) for verdict in Verdict}
