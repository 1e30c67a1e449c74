"""``trnsim assess``: which workloads of an inventory to move to AWS's chips, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trnsim import files
from trnsim.cli import report_files
from trnsim.cli.asked import AskedOptions, check_seed
from trnsim.cli.options import AsJson, command, own_rows, parser
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import Report
from trnsim.cli.terminal import echo, width
from trnsim.decide.assess import assess as assess_inventory
from trnsim.decide.document.decision_document import decision_document
from trnsim.decide.inventory.template import template as inventory_template
from trnsim.decide.programs import scanned
from trnsim.decide.times import Predictor
from trnsim.document.text import text
from trnsim.errors import BadInput

app = parser()


@dataclass(frozen=True, kw_only=True)
class AssessOptions(AskedOptions):
    """What one may ask for."""

    inventory: Annotated[
        Path | None,
        typer.Argument(help="A CSV or YAML file, or a cost and usage report.", metavar="INVENTORY"),
    ] = None
    template: Annotated[bool, typer.Option("--template", help="Print an inventory to fill in.")] = (
        False
    )
    seed: Annotated[int, whole("Of all draws.")] = 0
    out: Annotated[
        Path | None, typer.Option(help="Write the decision as JSON there.", metavar="FILE")
    ] = None
    report: Report = None
    as_json: AsJson = False


@app.command("assess")
@command(AssessOptions)
def assess(given: AssessOptions) -> None:
    """Say go, pilot, no-go, needs-quote or stay for each workload of an inventory.

    A saving is predicted cost there over predicted cost here, at prices of one kind: staying saves
    nothing. Go means that a move pays back within a year in 90 % of draws on a family of plans with
    published times; pilot, in half of them; needs-quote, that it would at a price that is not
    public.

    Example: trnsim assess examples/inventory.csv --on trn1 --on inf2 --out decision.json
    """
    if given.template:
        echo(inventory_template(), ends_line=False)
        return
    if given.inventory is None:
        raise BadInput("no INVENTORY is given", fix="trnsim assess --template > inventory.yaml")
    check_seed(given.seed)
    if given.out is not None:
        files.check_writable(given.out)
    if given.report is not None:
        report_files.check(given.report)
    rows = own_rows(given.prices)
    asked = given.asked(rows, given.seed)
    with progress() as tell:
        found = assess_inventory(
            given.inventory, asked, rows=rows, predictor=Predictor(rows, tell), scan=scanned
        )
    document = decision_document(found)
    echo(found.text().rstrip() if given.as_json else text(document, width()))
    if given.out is not None:
        found.write(given.out)
        if not given.as_json:
            echo(f"wrote {given.out}")
    if given.report is not None:
        report_files.write(given.report, document)
        if not given.as_json:
            echo(f"wrote {given.report / report_files.PAGE}")
