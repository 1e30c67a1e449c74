"""`trnsim profile`: view, print and compare stored reports without running their kernels."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.cli.report_files import answering
from trnsim.cli.terminal import echo
from trnsim.document.answer import Document
from trnsim.document.html import html
from trnsim.errors import BadInput
from trnsim.files import write
from trnsim.profile import compare, load, write_page
from trnsim.profile.analysis.data import JsonObject
from trnsim.profile.document import diff_document, profile_document
from trnsim.profile.formats.stored_answer import StoredAnswer, answer_file, load_answer
from trnsim.profile.overview_document import machine_pairs, overview_diff, overview_document

app = parser(help="Open, print and compare stored reports.", no_args_is_help=True)

_Report = Annotated[
    Path,
    typer.Argument(
        help="A stored report: NAME.json, step.json, figures.json or --json's; or its folder.",
        metavar="REPORT",
    ),
]


@app.command()
def view(
    report: _Report,
    output: Annotated[
        Path | None, typer.Option(help="Write the page there.", metavar="FILE.html")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the page of a stored report, and print where it lies.

    A step, ranks or a plan keep the page that their command wrote; --output writes an overview,
    with lanes over time where the report or the trace beside it has them.

    Example: trnsim profile view trnsim-report/attention.json --open
    """
    page = _page(report, output)
    echo(str(page))
    if open_it:
        webbrowser.open(page.resolve().as_uri())


@app.command()
@answering
def summary(
    stored: _Report,
    all_figures: Annotated[
        bool, typer.Option("--all", help="Neuron Explorer's 101 figures as well.")
    ] = False,
) -> Document:
    """Print what a stored report says: time, bottleneck, lines, what to try.

    Of a step, ranks, a launch, a compiled graph or a plan: its time with P10 and P90, what bounds
    it, its parts, and advice by what it saves.

    Examples: trnsim profile summary trnsim-report/attention.json

    trnsim profile summary trnsim-report/step.json
    """
    file = answer_file(stored)
    if file is None:
        return profile_document(load(stored)["profiles"], has_figures=all_figures)
    return overview_document(load_answer(file).overviews)


@app.command()
@answering
def diff(before: _Report, after: _Report) -> Document:
    """Compare two stored reports: what changed, on which engine and line.

    Of two models, or of one with other flags: by module, operation, engine and traffic with HBM.

    Examples: trnsim profile diff before/step1.json after/step4.json

    trnsim profile diff plain.json cast.json --json
    """
    old_file, new_file = answer_file(before), answer_file(after)
    if old_file is not None and new_file is not None:
        return _answer_diff(load_answer(old_file), load_answer(new_file))
    if old_file is not None or new_file is not None:
        raise BadInput(
            f"one of {before} and {after} is of a kernel, the other is not",
            fix="compare two reports of the same command",
        )
    old, new = load(before)["profiles"], load(after)["profiles"]
    diffs = [compare(first, second) for first, second in _pairs(old, new)]
    return diff_document(diffs)


def _answer_diff(before: StoredAnswer, after: StoredAnswer) -> Document:
    if before.kind != after.kind:
        raise BadInput(
            f"{before.path} is an answer of {before.kind}, {after.path} of {after.kind}",
            fix="compare two reports of the same command; trnsim why compares plans of two kinds",
        )
    return overview_diff(
        machine_pairs(before.overviews, after.overviews, (before.path, after.path))
    )


def _page(report: Path, output: Path | None) -> Path:
    """The page of a report: a new one, or for an answer the page that its command wrote."""
    if output is not None and output.suffix.lower() != ".html":
        raise BadInput(
            f"--output {output}; legal ending: .html", fix=f"--output {output.with_suffix('.html')}"
        )
    file = answer_file(report)
    if file is None:
        page = report / "report.html" if report.is_dir() else report.with_suffix(".html")
        return write_page(load(report), output or page)
    answer = load_answer(file)
    if output is None and answer.page is not None:
        return answer.page
    page = output or file.with_suffix(".html")
    return write(page, html(overview_document(answer.overviews)), parents=True)


def _pairs(
    old: Sequence[JsonObject], new: Sequence[JsonObject]
) -> list[tuple[JsonObject, JsonObject]]:
    """Pairs of an old and a new profile for the same target; two single profiles are a pair."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    by_target = {profile["target"]: profile for profile in new}
    pairs = [
        (profile, by_target[profile["target"]]) for profile in old if profile["target"] in by_target
    ]
    if not pairs:
        raise BadInput(
            f"the reports have no target in common: {_targets(old)} and {_targets(new)}",
            fix="run both for the same targets: trnsim run SCRIPT --on trn1,trn2",
        )
    return pairs


def _targets(profiles: Sequence[JsonObject]) -> str:
    return ", ".join(profile["target"] for profile in profiles)
