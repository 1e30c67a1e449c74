"""``trnsim claims``: published claims about these chips, recomputed."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim import files
from trnsim.cli import report_files
from trnsim.cli.claim_document import claim_document, claims_document
from trnsim.cli.options import parser
from trnsim.cli.terminal import echo
from trnsim.document.html import html as page
from trnsim.errors import BadInput
from trnsim.system.claims import claims as all_claims

if TYPE_CHECKING:
    from trnsim.system.claims import Claim

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
    document = claim_document(judged[0]) if id_ else claims_document(judged)
    if html is not None:
        echo(f"wrote {files.write(html, page(document))}")
    else:
        report_files.answer(document, as_json=as_json)


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
