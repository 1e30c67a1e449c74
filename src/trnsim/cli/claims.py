"""``trnsim claims``: published claims about these chips, recomputed."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trnsim import files
from trnsim.cli.claim_page import claim_page
from trnsim.cli.claim_text import lines_of, table_of
from trnsim.cli.options import parser
from trnsim.cli.terminal import echo
from trnsim.errors import BadInput
from trnsim.system.claims import claims as all_claims
from trnsim.system.claims import counts
from trnsim.system.claims.verdict import TOLERANCE

if TYPE_CHECKING:
    from trnsim.system.claims import Basis, Claim, Part

_NEAR: Final = 3

app = parser()


@app.command()
def claims(
    id_: Annotated[
        str, typer.Argument(help="One claim, with everything that it rests on.", metavar="[ID]")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every basis.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with a row for each claim.", metavar="FILE"),
    ] = None,
) -> None:
    """Recompute what four documents claim of Trainium and Inferentia, and judge each claim.

    Ours is read from chips, instances, dated prices and published documents, or computed by the
    planner. A claim is reproduced if every basis comes within 10 % of it, depends on basis if some
    do, is wrong if none does. ~ marks a stand-in, which supports but does not refute; ? a figure
    with an assumed input or two kinds of purchase, which only illustrates.

    Example: trnsim claims C07
    """
    judged = _chosen(id_)
    if html is not None:
        echo(f"wrote {files.write(html, claim_page(judged))}")
    elif as_json:
        plain = [_plain(claim) for claim in judged]
        echo(json.dumps(plain[0] if id_ else plain, indent=1, ensure_ascii=False))
    elif id_:
        echo("\n".join(lines_of(judged[0])))
    else:
        echo("\n".join(table_of(judged)))
        summary = ", ".join(f"{count} {verdict.value}" for verdict, count in counts(judged).items())
        echo(f"\n{len(judged)} claims: {summary}.")
        echo(f"A figure agrees within {TOLERANCE:.0%} of a number, and inside a range.")
        echo("~ stands in for what was claimed; ? has an assumed input, or two kinds of purchase.")
        echo("trnsim claims C07 shows what one rests on.")


def _chosen(id_: str) -> list[Claim]:
    """All claims, or the one called `id_`.

    Raises:
        BadInput: there is none of that name.
    """
    judged = all_claims()
    if not id_:
        return judged
    found = [claim for claim in judged if claim.id == id_.upper()]
    if not found:
        names = [claim.id for claim in judged]
        near = ", ".join(get_close_matches(id_.upper(), names, _NEAR)) or names[0]
        raise BadInput(
            f"there is no claim {id_!r}; legal: {names[0]} to {names[-1]}",
            fix=f"perhaps {near}; trnsim claims lists all",
        )
    return found


def _plain(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "documents": list(claim.documents),
        "quote": claim.quote,
        "says": claim.says,
        "verdict": claim.verdict.value,
        "parts": [_plain_part(part) for part in claim.parts],
        "besides": [_plain_basis(basis) for basis in claim.besides],
        "notes": list(claim.notes),
        "rows": list(claim.rows),
    }


def _plain_part(part: Part) -> dict[str, Any]:
    return {
        "quantity": part.quantity,
        "claimed": part.claimed,
        "verdict": part.verdict.value,
        "bases": [_plain_basis(b) | {"matches": part.matches(b)} for b in part.bases],
        "not_known": list(part.missing),
    }


def _plain_basis(basis: Basis) -> dict[str, Any]:
    return {
        "basis": basis.text,
        "value": basis.value,
        "kind": basis.kind.value,
        "days": list(basis.days),
        "sources": list(basis.sources),
        "rows": list(basis.rows),
        "is_stand_in": basis.is_stand_in,
        "doubts": list(basis.doubts),
        "caveats": list(basis.caveats),
    }
