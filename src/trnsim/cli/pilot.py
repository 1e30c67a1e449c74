"""``trnsim pilot``: one workload on both machines, and what its logs make of the decision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim.cli.asked import AskedOptions, check_seed
from trnsim.cli.options import Folder, Seed, command, own_rows, parser
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import Answer, answering
from trnsim.cli.terminal import echo
from trnsim.decide.pilot import document
from trnsim.decide.pilot import files as folders
from trnsim.decide.pilot.choose import PilotRequest
from trnsim.decide.pilot.choose import pilot as chosen
from trnsim.decide.pilot.measure import read_logs
from trnsim.decide.pilot.plan import check_unchanged
from trnsim.decide.pilot.plan import read as read_pilot
from trnsim.decide.pilot.renew import result
from trnsim.decide.programs import findings
from trnsim.decide.times import Predictor
from trnsim.document.answer import Block, Document, Note, Section, Table, columns
from trnsim.errors import BadInput
from trnsim.formatting import amount
from trnsim.version import VERSION

if TYPE_CHECKING:
    from trnsim.decide.pilot.checks import Check, Measurement, PilotResult
    from trnsim.decide.pilot.plan import Pilot

_SIDES: Final = columns(
    "side | instance | predicted | measured | factor | error before | after", numbers_from=2
)
_CHECKS: Final = columns("threshold | legal | measured | met", numbers_to=-1)

app = parser(
    help="Run one workload on both machines, and renew the decision from the logs.",
    no_args_is_help=True,
)


@dataclass(frozen=True, kw_only=True)
class WriteOptions(AskedOptions):
    """What one may ask of a pilot."""

    inventory: Annotated[
        Path, typer.Argument(help="An inventory, as trnsim assess reads it.", metavar="INVENTORY")
    ]
    folder: Folder
    workload: Annotated[
        str | None,
        typer.Option(
            help="The workload's name; without, the one that a pilot tells most about.",
            metavar="NAME",
        ),
    ] = None
    steps: Annotated[
        int | None,
        whole("Steps of a training run, or requests of a load test.", unit="steps"),
    ] = None
    seed: Seed = 0
    force: Annotated[bool, typer.Option("--force", help="Write over a pilot that is there.")] = (
        False
    )


@app.command("write")
@command(WriteOptions)
def write(given: WriteOptions) -> None:
    """Write the paired run of the workload that tells most, its launch files and its thresholds.

    Example: trnsim pilot write examples/inventory.csv --on trn1 --folder pilot
    """
    check_seed(given.seed)
    if given.steps is not None and given.steps < 1:
        raise BadInput(f"--steps is {given.steps}; legal: whole numbers from 1 on")
    folders.check(given.folder, is_forced=given.force)
    rows = own_rows(given.prices)
    asked = given.asked(rows, given.seed)
    with progress() as tell:
        made, launch = chosen(
            given.inventory,
            given.folder,
            asked,
            PilotRequest(given.workload, given.steps, given.prices),
            rows=rows,
            predictor=Predictor(rows, tell),
            scan=findings,
        )
    folders.clear(given.folder)
    paths = folders.write(made, launch, given.folder)
    echo(_written(made))
    for path in paths:
        echo(f"wrote {path}")


@app.command()
@answering
def read(
    folder: Annotated[
        Path, typer.Argument(help="The folder that trnsim pilot write wrote.", metavar="DIR")
    ],
    logs: Annotated[
        list[Path],
        typer.Argument(help="Logs whose names begin with today or there.", metavar="LOG..."),
    ],
) -> Answer:
    """Read the logs of both sides, renew the decision, and write how to migrate.

    Logs are those of vLLM's benchmark, guidellm, torchtitan and NeMo, or tables in CSV.

    Example: trnsim pilot read pilot today.log there.log
    """
    pilot = read_pilot(folder)
    check_unchanged(pilot, folder, VERSION)
    found = read_logs(pilot, logs)
    rows = own_rows(None if pilot.prices is None else folder / pilot.prices)
    with progress() as tell:
        made = result(
            pilot, folder, found, rows=rows, predictor=Predictor(rows, tell), scan=findings
        )
    paths = document.write(pilot, made, folder)
    return Answer(_document(pilot, made), files=paths)


def _written(pilot: Pilot) -> str:
    return f"{pilot.workload}: {pilot.today.instance} and {pilot.there.instance}\n  {pilot.why}"


def _document(pilot: Pilot, found: PilotResult) -> Document:
    after = found.renewed
    close = ", a close call" if after.is_close_call else ""
    blocks: list[Block] = [
        Note(f"{pilot.workload}: {str(after.verdict).upper()}{close}. {after.reason}"),
        Note(f"before the pilot: {pilot.workload_decision.verdict}", indent=2),
        Table(_SIDES, [_side(one) for one in (found.today, found.there)]),
        Table(_CHECKS, [_check(one) for one in found.checks]),
    ]
    return Document("A pilot and its decision", found, [Section("", blocks)], schema="pilot-read/1")


def _side(one: Measurement) -> tuple[str, ...]:
    rates = (amount(one.predicted_per_s), amount(one.measured_per_s))
    errors = (f"{one.old_error:.1%}", f"{one.new_error:.1%}")
    return (one.side, one.instance, *rates, f"{one.factor:.3f}", *errors)


def _check(one: Check) -> tuple[str, ...]:
    legal = f"{'>=' if one.is_least else '<='} {amount(one.limit)} {one.unit}"
    is_met = {None: one.note or "not measured", True: "yes", False: "NO"}[one.is_met]
    return (one.name, legal, "-" if one.figure is None else amount(one.figure), is_met)
