"""``trnsim guard``: fallback rules, alerts and a page for moved workloads, and what they saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim.arch.catalogue import catalogue
from trnsim.cli.options import Folder, parser
from trnsim.cli.report_files import AsJson, PrintedAnswer, answer, answering
from trnsim.decide import decision as decisions
from trnsim.decide.guard.files import write as write_files
from trnsim.decide.guard.realised import Month, RealisedSaving, realised_savings
from trnsim.document.answer import Block, Document, Note, Section, Table, columns
from trnsim.document.values import picked, plain
from trnsim.formatting import amount

_MONTH_COLUMNS: Final = columns(
    "month | billed USD | expected USD | saving | predicted | saved so far USD"
)

app = parser(
    help="Watch workloads that moved: fallback rules, alerts, and what was saved.",
    no_args_is_help=True,
)

DecisionFile = Annotated[
    Path,
    typer.Argument(help="The decision that trnsim assess --output wrote.", metavar="DECISION.json"),
]


@app.command()
def write(decision: DecisionFile, folder: Folder, as_json: AsJson = False) -> None:
    """Write when to fall back, which GPUs to keep, Prometheus rules and a Grafana page.

    Example: trnsim guard write decision.json --folder guard
    """
    paths = write_files(decisions.read(decision), folder, catalogue())
    values = {"folder": str(folder), "files": [path.name for path in paths]}
    document = Document("A guard", values, (), schema="guard-write/1")
    answer(PrintedAnswer(document, files=paths), as_json=as_json)


@app.command()
@answering
def bill(
    bill: Annotated[
        Path,
        typer.Argument(
            help="A table with month, workload, usd and volume, or a cost and usage report.",
            metavar="BILL.csv",
        ),
    ],
    decision: DecisionFile,
    tag: Annotated[
        str,
        typer.Option(
            help="The key of the tag that names the workload, in a cost and usage report.",
            metavar="KEY",
        ),
    ] = "workload",
) -> Document:
    """Print what each workload saved month by month, beside what was predicted.

    Example: trnsim guard bill bill.csv decision.json
    """
    savings = realised_savings(bill, decisions.read(decision), tag)
    sections = [Section("", _blocks(saving)) for saving in savings]
    return Document(
        "What was saved", [_values(saving) for saving in savings], sections, schema="guard-bill/1"
    )


def _values(saving: RealisedSaving) -> dict[str, object]:
    months = [{**plain(month), "saving": month.saving} for month in saving.months]
    names = "workload=workload.name migration_usd=workload.migration.usd"
    return {**picked(saving, names, months=months), **picked(saving, "missing paid_back_in")}


def _blocks(saving: RealisedSaving) -> list[Block]:
    last_month = saving.months[-1].month
    cost = f"{amount(saving.workload.migration.usd)} USD of the migration"
    notes = [
        f"{cost} were paid back in {saving.paid_back_in}"
        if saving.paid_back_in
        else f"{cost} are not paid back by {last_month}"
    ]
    if saving.missing:
        notes.append(f"not in the bill: {', '.join(saving.missing)}")
    if any(month.volume is None for month in saving.months):
        notes.append("months without a volume are taken to have that of the decision")
    table = Table(_MONTH_COLUMNS, [_row(month) for month in saving.months])
    return [Note(saving.workload.name), table, *map(Note, notes)]


def _row(month: Month) -> tuple[str, ...]:
    judgement = {None: "-", True: "as predicted", False: "outside"}[month.is_as_predicted]
    saving = f"{month.saving:.1%}"
    figures = (amount(month.usd), amount(month.expected_usd), saving, judgement)
    return (month.month, *figures, amount(month.total_usd))
