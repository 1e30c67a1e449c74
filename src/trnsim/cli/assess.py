"""``trnsim assess``: which workloads of an inventory to move to AWS's chips, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.inventory_options import InventoryOptions
from trnsim.cli.options import Seed, catalogue_with, command, parser
from trnsim.cli.progress import progress
from trnsim.cli.report_files import PrintedAnswer, answering
from trnsim.cli.terminal import echo
from trnsim.decide.assess import assess as assess_inventory
from trnsim.decide.document.decision_document import decision_document
from trnsim.decide.inventory.template import template as inventory_template
from trnsim.decide.programs import findings
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput

app = parser()


@dataclass(frozen=True, kw_only=True)
class AssessOptions(InventoryOptions):
    """Options of ``trnsim assess``."""

    inventory: Annotated[
        Path | None,
        typer.Argument(help="A CSV or YAML file, or a cost and usage report.", metavar="INVENTORY"),
    ] = None
    template: Annotated[bool, typer.Option("--template", help="Print an inventory to fill in.")] = (
        False
    )
    seed: Seed = 0


@app.command("assess")
@answering
@command(AssessOptions)
def assess(options: AssessOptions) -> PrintedAnswer | None:
    """Say go, pilot, no-go, needs-quote or stay for each workload of an inventory.

    A saving is 1 - (predicted cost of the candidate / predicted cost of today's instance), at
    prices of one kind: to stay saves nothing. Go means that the move pays back within a year in
    90 % of draws, and that times of such workloads on that chip were published. Pilot means that
    it does in half of the draws. Needs-quote means that it would at a price that is not public.

    Example: trnsim assess examples/inventory.csv --on trn1,inf2 --output decision.json
    """
    if options.template:
        echo(inventory_template(), ends_line=False)
        return None
    if options.inventory is None:
        raise BadInput("no INVENTORY is given", fix="trnsim assess --template > inventory.yaml")
    rows = catalogue_with(options.prices)
    assessment = options.assessment(rows, options.seed)
    with progress() as tell:
        decision = assess_inventory(
            options.inventory, assessment, rows=rows, predictor=Predictor(rows, tell), scan=findings
        )
    return PrintedAnswer(decision_document(decision), decision.text().rstrip())
