"""A claim as lines of text: what is claimed, our figures on every basis, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.system.claims.verdict import text

if TYPE_CHECKING:
    from trnsim.system.claims import Claim


def lines_of(claim: Claim, limit: int | None = None) -> list[str]:
    """The claim, then its parts with at most `limit` of our figures, then the conclusion."""
    lines = [f"{claim.id}  {claim.verdict.value.upper():<17} {claim.says}"]
    for part in claim.parts:
        verdict = f" [{part.verdict.value}]" if len(claim.parts) > 1 else ""
        lines.append(f"       {part.quantity}: claimed {part.claimed}{verdict}")
        # Figures that agree come first, so that a shortened list still explains the verdict.
        figures = sorted(part.figures, key=lambda f: not part.matches(f))[:limit]
        lines += [
            f"         {'~' if f.is_proxy else ' '}{text(f.value):>9}  {f.basis}" for f in figures
        ]
        if len(part.figures) > len(figures):
            lines.append(
                f"          and {len(part.figures) - len(figures)} more: trnsim claims --all"
            )
        lines += [f"          missing: {name}" for name in part.missing]
    return lines + [f"       so: {implied}" for implied in claim.implied]
