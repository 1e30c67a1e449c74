"""``trnsim claims``: published claims about these chips, recomputed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trnsim.cli.claim_text import lines_of
from trnsim.cli.options import parser
from trnsim.system.claims import Claim, Part, counts
from trnsim.system.claims import claims as all_claims
from trnsim.system.claims.verdict import TOLERANCE

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
    print("\n".join(line for claim in judged for line in lines_of(claim, limit)))
    summary = ", ".join(f"{count} {verdict.value}" for verdict, count in counts(judged).items())
    print(f"\n{len(judged)} claims: {summary}")
    print(f"Tolerance {TOLERANCE:.0%} of a number, none beyond a range. ~: a stand-in.")


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
