"""``trnsim assess``: which workloads of an inventory to move to AWS's chips, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim import files
from trnsim.cli import report_files
from trnsim.cli.assess_text import text
from trnsim.cli.options import AsJson, AsOf, OwnPrices, as_number, day_of, own_rows, parser
from trnsim.cli.progress import progress
from trnsim.cli.report_files import Report
from trnsim.decide.assess import Asked
from trnsim.decide.assess import assess as assess_inventory
from trnsim.decide.inventory.template import template as inventory_template
from trnsim.decide.page.decision_page import decision_page
from trnsim.decide.page.figures import figures, rows_of
from trnsim.decide.programs import scanned
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput
from trnsim.formatting import parse_whole

app = parser()


@app.command()
def assess(
    inventory: Annotated[
        Path | None,
        typer.Argument(help="A CSV or YAML file, or a cost and usage report.", metavar="INVENTORY"),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(help="Instances or families to look at alone.", metavar="INSTANCE"),
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print an inventory to fill in.")
    ] = False,
    price: Annotated[
        str,
        typer.Option(
            "--price", help="Purchase kind of both sides; without, today's.", metavar="KIND"
        ),
    ] = "",
    mixed_prices: Annotated[
        bool, typer.Option("--mixed-prices", help="Let another kind stand in, and say so.")
    ] = False,
    prices: OwnPrices = None,
    as_of: AsOf = None,
    seed: Annotated[
        int, typer.Option(parser=as_number(parse_whole), help="Of all draws.", metavar="NUMBER")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the decision as JSON there.", metavar="FILE")
    ] = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Say go, pilot, no-go, needs-quote or stay for each workload of an inventory.

    A saving is predicted cost there over predicted cost here, at prices of one kind: staying saves
    nothing. Go means that a move pays back within a year in 90 % of draws on a family of plans with
    published times; pilot, in half of them; needs-quote, that it would at a price that is not
    public.

    Example: trnsim assess examples/inventory.csv --on trn1 --on inf2 --out decision.json
    """
    if template:
        print(inventory_template(), end="")
        return
    if inventory is None:
        raise BadInput("no INVENTORY is given", fix="trnsim assess --template > inventory.yaml")
    if seed < 0:
        raise BadInput(f"--seed is {seed}; legal: whole numbers from 0 on")
    if out is not None:
        files.check_writable(out)
    if report is not None:
        report_files.check(report)
    rows = own_rows(prices)
    asked = Asked(
        on=tuple(on or ()),
        kind=price,
        as_of=day_of(as_of, rows),
        seed=seed,
        is_mixed=mixed_prices,
    )
    with progress() as tell:
        found = assess_inventory(
            inventory, asked, rows=rows, predictor=Predictor(rows, tell), scan=scanned
        )
    print(found.text() if as_json else text(found), end="" if as_json else "\n")
    if out is not None:
        found.write(out)
        if not as_json:
            print(f"wrote {out}")
    if report is not None:
        report_files.write(report, decision_page(found), figures(found), rows_of(found))
        if not as_json:
            print(f"wrote {report / report_files.PAGE}")
