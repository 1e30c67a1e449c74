"""``trnsim claims``: published claims about these chips, recomputed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Final

import typer

from trnsim.cli.claim_document import claim_document, claims_document
from trnsim.cli.options import parser
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.system.claims import Claim
from trnsim.system.claims import claims as all_claims

_MOST_SIMILAR_NAMES: Final = 3

app = parser()


@app.command()
@answering
def claims(
    id_: Annotated[
        str, typer.Argument(help="One claim, with everything that it rests on.", metavar="[ID]")
    ] = "",
) -> Document:
    """Recompute what four documents claim of Trainium and Inferentia, and judge each claim.

    Our figures come from chips, instances, dated prices and published documents, or the planner. A
    claim is reproduced if every basis comes within 10 % of it, depends on basis if some do, is
    wrong if none does. ~ marks a stand-in, which supports but does not refute; ? a figure with an
    assumed input or two kinds of purchase, which only illustrates.

    Example: trnsim claims C07
    """
    named_claims = _claims_named(id_)
    return claim_document(named_claims[0]) if id_ else claims_document(named_claims)


def _claims_named(id_: str) -> list[Claim]:
    """All claims, or the one called `id_`.

    Raises:
        BadInput: there is no claim of that name.
    """
    known_claims = all_claims()
    if not id_:
        return known_claims
    matches = [claim for claim in known_claims if claim.id == id_.upper()]
    if not matches:
        names = [claim.id for claim in known_claims]
        similar_names = (
            ", ".join(get_close_matches(id_.upper(), names, _MOST_SIMILAR_NAMES)) or names[0]
        )
        raise BadInput(
            f"there is no claim {id_!r}; legal: {names[0]} to {names[-1]}",
            fix=f"perhaps {similar_names}; trnsim claims lists all",
        )
    return matches
