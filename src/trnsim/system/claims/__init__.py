"""Figures that four documents claim of these chips, recomputed.

The documents: 000, 002 and 003 are one note, "AWS Trainium AI Accelerator Chips", in German,
English and Spanish; 001 is "Amazon Trainium und Inferentia", a guide of 2025-12-11. Their sentences
are data (``claims.yaml``): claimed numbers as literals, and formulas of our numbers. Our numbers
are read from catalogue rows and published documents (``facts.yaml``) or computed by the planner
(``rates.json``), on every basis (prices, workloads) that the data allow; the verdict compares
claimed and recomputed numbers (`trnsim.system.claims.verdict`).
"""

from __future__ import annotations

from collections.abc import Iterable

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.system.claims.rows import RowReader
from trnsim.system.claims.sentences import judged_claims
from trnsim.system.claims.verdict import Claim, ClaimBasis, ClaimPart, ClaimVerdict

__all__ = ["Claim", "ClaimBasis", "ClaimPart", "ClaimVerdict", "claims", "counts"]


def claims(rows: Catalogue | None = None) -> list[Claim]:
    """All claims, by id, judged against `rows`."""
    return judged_claims(RowReader(rows or catalogue()))


def counts(claim_list: Iterable[Claim]) -> dict[ClaimVerdict, int]:
    """Number of claims by verdict."""
    verdicts = [claim.verdict for claim in claim_list]
    return {verdict: verdicts.count(verdict) for verdict in ClaimVerdict}
