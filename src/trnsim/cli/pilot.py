"""``trnsim pilot``: one workload run on two instances, and its decision renewed from the logs.

The side "today" is the instance that runs the workload today; the side "there" is the candidate
with AWS's chips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim.cli.inventory_options import InventoryOptions
from trnsim.cli.options import Folder, Seed, catalogue_with, command, parser
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import AsJson, PrintedAnswer, answer, answering
from trnsim.decide.pilot import choose, document
from trnsim.decide.pilot import files as pilot_files
from trnsim.decide.pilot.checks import Check, PilotResult, RateMeasurement
from trnsim.decide.pilot.measure import read_logs
from trnsim.decide.pilot.plan import Pilot, check_unchanged
from trnsim.decide.pilot.plan import read as read_pilot
from trnsim.decide.pilot.renew import result
from trnsim.decide.programs import findings
from trnsim.decide.times import Predictor
from trnsim.document.answer import Block, Document, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.formatting import amount
from trnsim.version import VERSION

_SIDE_COLUMNS: Final = columns(
    "side | instance | predicted | measured | factor | error before | after", numbers_from=2
)
_CHECK_COLUMNS: Final = columns("threshold | legal | measured | met", numbers_to=-1)

app = parser(
    help="Run a workload on today's instance and on AWS's chips, and renew its decision.",
    no_args_is_help=True,
)


@dataclass(frozen=True, kw_only=True)
class WriteOptions(InventoryOptions):
    """Options of ``trnsim pilot write``."""

    inventory: Annotated[
        Path, typer.Argument(help="An inventory, as trnsim assess reads it.", metavar="INVENTORY")
    ]
    folder: Folder
    workload: Annotated[
        str | None,
        typer.Option(
            help="The workload's name; default: the workload whose pilot has the most value.",
            metavar="NAME",
        ),
    ] = None
    steps: Annotated[
        int | None,
        whole("Steps of a training run, or requests of a load test.", unit="steps", minimum=1),
    ] = None
    seed: Seed = 0
    force: Annotated[bool, typer.Option("--force", help="Overwrite the pilot in the folder.")] = (
        False
    )
    as_json: AsJson = False


@app.command("write")
@command(WriteOptions)
def write(options: WriteOptions) -> None:
    """Write a pilot: a run of a workload on each side, its launch files and its thresholds.

    Example: trnsim pilot write examples/inventory.csv --on trn1 --folder pilot
    """
    pilot_files.check(options.folder, is_forced=options.force)
    rows = catalogue_with(options.prices)
    assessment = options.assessment(rows, options.seed)
    with progress() as tell:
        pilot, launch = choose.pilot(
            options.inventory,
            options.folder,
            assessment,
            choose.PilotRequest(options.workload, options.steps, options.prices),
            rows=rows,
            predictor=Predictor(rows, tell),
            scan=findings,
        )
    pilot_files.clear(options.folder)
    paths = pilot_files.write(pilot, launch, options.folder)
    written_document = _written_document(pilot, options.folder, paths)
    answer(PrintedAnswer(written_document, files=paths), as_json=options.as_json)


@app.command()
@answering
def read(
    folder: Annotated[
        Path, typer.Argument(help="The folder that trnsim pilot write wrote.", metavar="DIR")
    ],
    logs: Annotated[
        list[Path],
        typer.Argument(
            help="Logs; the name of each begins with its side, today or there.", metavar="LOG..."
        ),
    ],
) -> PrintedAnswer:
    """Read the logs of both sides, renew the decision, and write how to migrate.

    Logs are those of vLLM's benchmark, guidellm, torchtitan and NeMo, or tables in CSV.

    Example: trnsim pilot read pilot today.log there.log
    """
    pilot = read_pilot(folder)
    check_unchanged(pilot, folder, VERSION)
    rates = read_logs(pilot, logs)
    rows = catalogue_with(None if pilot.prices is None else folder / pilot.prices)
    with progress() as tell:
        pilot_result = result(
            pilot, folder, rates, rows=rows, predictor=Predictor(rows, tell), scan=findings
        )
    paths = document.write(pilot, pilot_result, folder)
    return PrintedAnswer(_document(pilot, pilot_result), files=paths)


def _written_document(pilot: Pilot, folder: Path, paths: Sequence[Path]) -> Document:
    values = picked(
        pilot,
        "workload today=today.instance there=there.instance why",
        folder=str(folder),
        files=[str(path.relative_to(folder)) for path in paths],
    )
    notes = (
        Note(f"{pilot.workload}: {pilot.today.instance} and {pilot.there.instance}"),
        Note(pilot.why, indent=2),
    )
    return Document("A pilot", values, [Section("", notes)], schema="pilot-write/1")


def _document(pilot: Pilot, pilot_result: PilotResult) -> Document:
    decision = pilot_result.renewed
    close_call = ", a close call" if decision.is_close_call else ""
    blocks: list[Block] = [
        Note(f"{pilot.workload}: {str(decision.verdict).upper()}{close_call}. {decision.reason}"),
        Note(f"before the pilot: {pilot.workload_decision.verdict}", indent=2),
        Table(
            _SIDE_COLUMNS,
            [_measurement_row(side) for side in (pilot_result.today, pilot_result.there)],
        ),
        Table(_CHECK_COLUMNS, [_check(check) for check in pilot_result.checks]),
    ]
    return Document(
        "A pilot and its decision", pilot_result, [Section("", blocks)], schema="pilot-read/1"
    )


def _measurement_row(measurement: RateMeasurement) -> tuple[str, ...]:
    rates = (amount(measurement.predicted_per_s), amount(measurement.measured_per_s))
    errors = (f"{measurement.old_error:.1%}", f"{measurement.new_error:.1%}")
    return (measurement.side, measurement.instance, *rates, f"{measurement.factor:.3f}", *errors)


def _check(check: Check) -> tuple[str, ...]:
    legal = f"{'>=' if check.is_least else '<='} {amount(check.limit)} {check.unit}"
    is_met = {None: check.note or "not measured", True: "yes", False: "NO"}[check.is_met]
    return (check.name, legal, "-" if check.figure is None else amount(check.figure), is_met)
