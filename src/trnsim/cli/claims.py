"""``trnsim claims``: published claims about these chips, recomputed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.system.claims import Claim, Part, counts
from trnsim.system.claims import claims as all_claims
from trnsim.system.claims.verdict import TOLERANCE, text

_SHOWN = 6

app = parser()


@app.command()
def claims(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every basis.")] = False,
    every_basis: Annotated[
        bool, typer.Option("--all", help="Print every basis, not the first six of each.")
    ] = False,
) -> None:
    """Recompute 34 published claims about Trainium and Inferentia, and judge each one.

    Ours is computed from the catalogue: chips, instances, dated prices. A claim is reproduced if
    every basis comes within 10 % of it, depends on basis if some do, is wrong if none does, and is
    not checkable where an input is missing, which is then named. A figure marked ~ stands in for
    the quantity that was claimed; it can support a claim but not refute it.

    Example: trnsim claims --json
    """
    judged = all_claims()
    if as_json:
        print(json.dumps([_plain(claim) for claim in judged], indent=1))
        return
    limit = None if every_basis else _SHOWN
    print("\n".join(line for claim in judged for line in _lines(claim, limit)))
    summary = ", ".join(f"{count} {verdict.value}" for verdict, count in counts(judged).items())
    print(f"\n{len(judged)} claims: {summary}")
    print(f"Tolerance {TOLERANCE:.0%} of a number, none beyond a range. ~: a stand-in.")


def _lines(claim: Claim, limit: int | None) -> list[str]:
    """The claim, then its parts with our figures, then the conclusion."""
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


def _plain(claim: Claim) -> dict[str, object]:
    return {
        "id": claim.id,
        "documents": list(claim.documents),
        "says": claim.says,
        "verdict": claim.verdict.value,
        "parts": [_plain_part(part) for part in claim.parts],
        "implied": list(claim.implied),
    }


def _plain_part(part: Part) -> dict[str, object]:
    return {
        "quantity": part.quantity,
        "claimed": part.claimed,
        "verdict": part.verdict.value,
        "figures": [
            {"basis": f.basis, "value": f.value, "is_proxy": f.is_proxy} for f in part.figures
        ],
        "missing": list(part.missing),
    }
