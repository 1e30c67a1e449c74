"""``trnsim assess``: which workloads of an inventory to move to Trainium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trnsim import files
from trnsim.cli.options import parser
from trnsim.errors import BadInput
from trnsim.formatting import amount, amounts, text_table
from trnsim.price.payback import ENGINEER_WEEKS, PAYBACK_LIMIT_MONTHS, USD_PER_ENGINEER_WEEK
from trnsim.system.assess import Assessment
from trnsim.system.assess import assess as assess_inventory

if TYPE_CHECKING:
    from trnsim.facts import Rate

app = parser()


@app.command()
def assess(
    inventory: Annotated[Path, typer.Argument(help="A CSV file.", metavar="INVENTORY.csv")],
    output: Annotated[Path | None, typer.Option(help="Write there instead of printing.")] = None,
    price: Annotated[
        str, typer.Option("--price", help="Purchase kind of every price: on_demand, spot, ...")
    ] = "capacity_block",
) -> None:
    """Predict time and USD of each workload on every Trainium and on p5en, and say go or no-go.

    The file has the columns workload, model_config (a config.json, relative to the file), kind
    (train or serve), tokens_per_month or gpu_hours, current_instance and usd_per_month. Go means
    that a migration pays back within a year even at P90 on a validated platform; pilot, that it
    does at P50; no-go, that it does not.

    Example: trnsim assess examples/inventory.csv --output assessment.txt
    """
    if output is not None:
        files.check_writable(output)
    report = "\n\n".join([*map(_section, assess_inventory(inventory, kind=price)), _assumed()])
    if output is None:
        print(report)
        return
    try:
        files.write(output, report + "\n")
    except BadInput:
        print(report)
        raise
    print(f"wrote {output}")


def _section(assessment: Assessment) -> str:
    """One workload: the decision, then a row per platform."""
    workload = assessment.workload
    model = workload.architecture.name
    head = (
        f"{workload.name}: {assessment.decision.value.upper()}. {assessment.reason}\n"
        f"  {workload.kind} {model}, {amount(assessment.tokens_per_month)} tokens "
        f"a month, today {workload.current_instance}, {amount(workload.usd_per_month)} USD a month"
    )
    rows = [
        (
            f"  {option.platform}",
            amounts(option.hours),
            amounts(option.usd),
            "-" if option.saving is None else f"{option.saving:+.0%}",
            "yes" if option.validated else "no",
            option.price,
        )
        for option in assessment.options
    ]
    columns = ("instance-hours P50 (P10 to P90)", "USD a month", "saving", "validated", "price")
    return f"{head}\n{text_table(('  platform', *columns), rows)}"


def _assumed() -> str:
    facts: dict[str, Rate] = {
        "engineer-weeks of a migration": ENGINEER_WEEKS,
        "USD per engineer-week": USD_PER_ENGINEER_WEEK,
        "payback limit, months": PAYBACK_LIMIT_MONTHS,
    }
    lines = [f"  {name} = {fact:.0f}: {fact.provenance.source}" for name, fact in facts.items()]
    return "\n".join(
        [
            "assumed, beside the inputs that `trnsim plan` lists:",
            *lines,
            "Whether the model's operators are supported is not part of this estimate.",
        ]
    )
