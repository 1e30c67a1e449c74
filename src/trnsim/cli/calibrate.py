"""``trnsim calibrate``: factors on the estimates of every command, from a user's measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim.calibrate.asking import MOST_QUESTIONS, MOST_SLOW_QUESTIONS, rows_of
from trnsim.calibrate.calibration import Calibration, Group, LogFile, calibrate
from trnsim.calibrate.checks import SCATTER
from trnsim.calibrate.logs import measurements
from trnsim.calibrate.suggestion import Suggestion, suggest
from trnsim.cli.options import parser
from trnsim.cli.progress import progress
from trnsim.cli.questions import ask
from trnsim.cli.report_files import answering
from trnsim.document.answer import (
    Block,
    Document,
    FoldedBlocks,
    Items,
    Note,
    Section,
    Table,
    columns,
    records,
)
from trnsim.document.values import plain
from trnsim.errors import BadInput
from trnsim.formatting import amount, counted, plural
from trnsim.price import quotes
from trnsim.site import ENVIRONMENT, NAME

_GROUP_COLUMNS: Final = columns(
    "chip | family | rows | ratio | error | after | inside | after | width | after",
    numbers_from=2,
)
_SUGGESTION_COLUMNS: Final = columns(
    "measure | on | hours | USD | width now | after", numbers_from=2
)
_MOST_SHOWN: Final = 8

app = parser()


@app.command("calibrate")
@answering
def calibrate_command(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Logs: tables of questions and seconds, vLLM, guidellm, torchtitan, NeMo, Hugging "
            "Face, nccom-test, neuron-profile, neuron-monitor, bills.",
            metavar="LOG...",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            help="The command whose time a log has, in quotes; one for all logs, or one for each.",
            metavar="COMMAND",
        ),
    ] = None,
    suggest_for: Annotated[
        str | None,
        typer.Option(
            "--suggest",
            help="Instead of logs, a command in quotes: what to measure for it, and what that "
            "costs.",
            metavar="COMMAND",
        ),
    ] = None,
) -> Document:
    """Teach every estimate what you measured, from the logs of your runs.

    Compares measured times with estimates of the same questions and prints the factors between
    them. The factors, written as site.json, correct every command in that folder, or wherever
    TRNSIM_SITE names the file; delete it to undo them.

    Example: trnsim calibrate examples/measured-times.csv --output site.json
    """
    if suggest_for is not None:
        for name, value in {"LOG": logs, "--question": question}.items():
            if value:
                raise BadInput(
                    f"both {name} and --suggest given; legal: one of them", fix="leave one out"
                )
        return _suggestion_document(suggest(suggest_for, ask))
    if not logs:
        raise BadInput(
            "no log; legal: one or more files, or --suggest",
            fix="for example trnsim calibrate examples/measured-times.csv",
        )
    return _document(_calibration(logs, question or []))


def _calibration(logs: Sequence[Path], questions: Sequence[str]) -> Calibration:
    """The calibration by measured logs.

    Raises:
        BadInput: a log or a question is not legal.
    """
    if len(questions) not in (0, 1, len(logs)):
        raise BadInput(
            f"{len(questions)} --question for {counted(len(logs), 'log')}; legal: one "
            "for all, or one for each"
        )
    question_by_log = questions if len(questions) == len(logs) else list(questions) * len(logs)
    read_logs = [
        measurements(path, question_by_log[number] if question_by_log else None)
        for number, path in enumerate(logs)
    ]
    all_measurements = [measurement for log in read_logs for measurement in log.measurements]
    with progress() as tell:
        rows, unasked = rows_of(all_measurements, ask, tell)
        files = [LogFile(str(log.file), log.format, len(log.measurements)) for log in read_logs]
        return calibrate(rows, files, quotes.today(), unasked)


def _document(calibration: Calibration) -> Document:
    values = calibration.values()
    count = len(calibration.rows)
    blocks: list[Block] = [
        Note(
            f"yours, {calibration.written}, {count:,} row{'s' * (count != 1)} of "
            f"{', '.join(log.file for log in calibration.logs)}"
        ),
        Table(_GROUP_COLUMNS, [_row(group) for group in calibration.groups], indent=2),
        Note(
            "ratio: of measured over estimated time; error: median; inside: rows between P10 and "
            "P90; width: P90 - P10 over P50; error and inside after are of rows left out of the "
            "fit in turn",
            indent=2,
        ),
    ]
    if calibration.fitted.error > SCATTER:
        blocks.append(
            Note(
                f"rows of one kind differ by {calibration.fitted.error:.0%}, more than runs do: "
                "perhaps models, settings or machines differ that their questions do not state",
                indent=2,
            )
        )
    sections = [Section("", blocks)]
    if calibration.left_out:
        sections.append(_left_out(calibration))
    if calibration.unasked:
        note = (
            f"{_rows(calibration.unasked)} not used: of a log at most {MOST_QUESTIONS:,} questions "
            f"to plan infer, layer and collective are asked, and {MOST_SLOW_QUESTIONS} others, "
            "evenly spaced over it"
        )
        sections.append(Section("", [Note(note)]))
    sections.append(
        Section(
            "",
            [
                Note(
                    f"written with --output {NAME}, it is found in the working directory or by "
                    f"{ENVIRONMENT}; delete the file to undo it",
                    place="text",
                )
            ],
        )
    )
    rows = [plain(group) for group in calibration.groups]
    return Document(
        "Your measurements",
        values,
        sections,
        rows=records(rows, tuple(rows[0])),
        schema="calibrate/1",
    )


def _left_out(calibration: Calibration) -> Section:
    """The rows that are left out of the fit, each with its reason."""
    lines = [
        f"{row.row.measurement.line}: {row.reason}: {row.row.measurement.question}"
        for row in calibration.left_out
    ]
    blocks: list[Block] = [Items(lines[:_MOST_SHOWN], indent=2)]
    if hidden_lines := lines[_MOST_SHOWN:]:
        count_text = f"{len(hidden_lines):,} more"
        note = f"{count_text}, each with its reason: --json, --report or --output {NAME}"
        blocks.append(Note(note, indent=2, place="text"))
        blocks.append(FoldedBlocks(count_text, [Items(hidden_lines, indent=2)], "page"))
    return Section(f"{_rows(len(lines))} left out", blocks)


def _rows(count: int) -> str:
    return f"{count:,} {plural(count, 'row')}"


def _row(group: Group) -> tuple[str, ...]:
    return (
        group.chip,
        group.family,
        f"{group.rows:,}",
        f"{group.ratio:.3f}",
        f"{group.old_error:.1%}",
        "-" if group.new_error is None else f"{group.new_error:.1%}",
        f"{group.old_inside:.0%}",
        "-" if group.new_inside is None else f"{group.new_inside:.0%}",
        f"{group.old_width:.0%}",
        f"{group.new_width:.0%}",
    )


def _suggestion_document(suggestion: Suggestion) -> Document:
    rows = [
        (
            experiment.question,
            experiment.instance,
            f"{experiment.hours:g}",
            "-" if experiment.usd is None else amount(experiment.usd),
            f"{suggestion.width:.0%}",
            f"{experiment.width:.0%}",
        )
        for experiment in suggestion.experiments
    ]
    best = suggestion.experiments[0]
    blocks: list[Block] = [
        Note(f"{suggestion.question}: P10 to P90 is {suggestion.width:.0%} of its P50"),
        Table(_SUGGESTION_COLUMNS, rows, indent=2),
        Note(
            f"best: {best.question}, an hour on {best.instance}"
            + ("" if best.price is None else f" ({best.price})")
            + f"; then trnsim calibrate LOG --question {best.question!r}"
        ),
    ]
    table = [plain(experiment) for experiment in suggestion.experiments]
    return Document(
        "What to measure",
        suggestion,
        [Section("", blocks)],
        rows=records(table, tuple(table[0])),
        schema="calibrate-suggest/1",
    )
