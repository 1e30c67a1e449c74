"""What four documents claim of these chips in figures, recomputed.

The documents: 000, 002 and 003 are one note, "AWS Trainium AI Accelerator Chips", in German,
English and Spanish; 001 is "Amazon Trainium und Inferentia", a guide of 2025-12-11. The claimed
number is a literal here; ours is read from catalogue rows and published documents or computed by
the planner, on every basis that they allow; the verdict compares the two
(`trnsim.system.claims.verdict`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.system.claims import (
    business,
    chips,
    gains,
    inferentia,
    instances,
    prices,
    rainier,
)
from trnsim.system.claims.rows import Rows
from trnsim.system.claims.verdict import Basis, Claim, Part, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Basis", "Claim", "Part", "Verdict", "claims", "counts"]

_ROOMS = (chips, instances, gains, prices, inferentia, rainier, business)


def claims(rows: Catalogue | None = None) -> list[Claim]:
    """All claims, by id, judged against `rows`."""
    known = Rows(rows or catalogue())
    return sorted((check(known) for room in _ROOMS for check in room.CLAIMS), key=_id)


def _id(claim: Claim) -> str:
    return claim.id


def counts(judged: Iterable[Claim]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    verdicts = [claim.verdict for claim in judged]
    return {verdict: verdicts.count(verdict) for verdict in Verdict}
