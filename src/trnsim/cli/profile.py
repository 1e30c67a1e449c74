"""`trnsim profile`: view, print and compare stored reports without running their kernels."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trnsim.cli.options import parser
from trnsim.cli.report_files import answer
from trnsim.cli.terminal import echo
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.formatting import text_table
from trnsim.profile import compare, load, summary_of, write_page
from trnsim.profile.analysis.whole import model_text
from trnsim.profile.units import percent_text, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.profile.analysis.data import Data
    from trnsim.profile.analysis.summary import Summary

app = parser(
    help="Open, print and compare stored reports.",
    no_args_is_help=True,
)

_NS_PER_S = 1e9
_LINES = 8
_Report = Annotated[Path, typer.Argument(help="A stored report: NAME.json, or its folder.")]


@app.command()
def view(
    report: _Report,
    output: Annotated[Path | None, typer.Option(help="Where to write the page.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the page of a stored report, and print where it lies.

    Example: trnsim profile view trnsim-report/attention.json --open
    """
    stored = load(report)
    page = write_page(stored, output or _beside(report))
    echo(str(page))
    if open_it:
        webbrowser.open(page.resolve().as_uri())


@app.command()
def summary(
    report: _Report,
    all_figures: Annotated[
        bool, typer.Option("--all", help="Neuron Explorer's 101 figures as well.")
    ] = False,
) -> None:
    """Print what a stored report says: time, bottleneck, lines, what to try.

    Example: trnsim profile summary trnsim-report/attention.json
    """
    stored = load(report)
    for profile in stored["profiles"]:
        echo(f"{profile['title']}\n{_described(profile, all_figures=all_figures)}\n")
    if len(stored["profiles"]) > 1:
        found = {profile["target"]: summary_of(profile) for profile in stored["profiles"]}
        echo(side_by_side(found))


@app.command()
def diff(
    before: _Report,
    after: _Report,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a list of JSON, an object for each chip.")
    ] = False,
) -> None:
    """Compare two stored reports: what changed, on which engine and line.

    Of two models, or of one with other flags: by module, operation, engine and traffic with HBM.

    Examples: trnsim profile diff before/step1.json after/step4.json

    trnsim profile diff plain.json cast.json --json
    """
    old, new = load(before)["profiles"], load(after)["profiles"]
    found = [compare(first, second) for first, second in _pairs(old, new)]
    if as_json:
        values = [one.as_dict() for one in found]
        answer(Document("What changed", values, (), schema="profile-diff/1"), as_json=True)
    else:
        echo("\n\n".join(one.text() for one in found))


def side_by_side(summaries: dict[str, Summary]) -> str:
    """A table of one kernel's summaries, a column per target."""
    rows = {
        "estimated time": [time_text(s.total_time_s) for s in summaries.values()],
        "P10 to P90": [
            f"{time_text(s.total_time_p10_s)} to {time_text(s.total_time_p90_s)}"
            for s in summaries.values()
        ],
        "order": [s.order for s in summaries.values()],
        "device time": [time_text(s.device_time_s) for s in summaries.values()],
        "bound by": [s.bound_by for s in summaries.values()],
        "critical path waits": [percent_text(s.waiting_share) for s in summaries.values()],
    }
    for label in dict.fromkeys(use.engine for s in summaries.values() for use in s.engines):
        shares = [{use.engine: use.active_share for use in s.engines} for s in summaries.values()]
        rows[f"{label} active"] = [percent_text(share.get(label, 0.0)) for share in shares]
    for name in ("mfu", "mbu"):
        found = [s[f"{name}_estimated_percent"] or 0.0 for s in summaries.values()]
        rows[name.upper()] = [percent_text(value / 100) for value in found]
    return text_table(["", *summaries], [[name, *cells] for name, cells in rows.items()])


def _described(profile: Data, *, all_figures: bool) -> str:
    parts = [model_text(profile["model"])] if "model" in profile else []
    parts += [summary_of(profile).text(), _line_table(profile)]
    parts += [
        f"if   {gain['change']}: -{time_text(gain['gain_ns'] / _NS_PER_S)}"
        for gain in profile["gains"]
        if gain["line"] < 0 and gain["gain_ns"] > 0
    ]
    parts += [f"try  {advice['text']}  ({_place(profile, advice)})" for advice in profile["advice"]]
    if all_figures:
        metrics, missing = profile["summary"]["metrics"], profile["summary"]["missing"]
        rows = [
            [name, "-" if value is None else f"{value:.6g}", missing.get(name, "")]
            for name, value in metrics.items()
        ]
        parts.append(text_table(["figure", "value", "why unknown"], rows))
    return "\n".join(parts)


def _line_table(profile: Data) -> str:
    free = {gain["line"]: gain["gain_ns"] / _NS_PER_S for gain in profile["gains"]}
    rows = [
        [
            _place(profile, row),
            time_text(row["critical_ns"] / _NS_PER_S),
            time_text(row["waiting_ns"] / _NS_PER_S),
            f"-{time_text(free[row['line']])}" if row["line"] in free else "",
            f"{row['instructions']:,}",
            profile["lines"][row["line"]]["text"] if row["line"] >= 0 else "",
        ]
        for row in profile["by_line"][:_LINES]
    ]
    return text_table(
        ["line", "critical path", "of it waiting", "if free", "instructions", ""], rows
    )


def _place(profile: Data, row: Data) -> str:
    if row["line"] < 0:
        return "no line"
    line = profile["lines"][row["line"]]
    return f"{Path(line['file']).name}:{line['line']}"


def _pairs(old: Sequence[Data], new: Sequence[Data]) -> list[tuple[Data, Data]]:
    """Pairs of profiles with the same target; where each side has one profile, these two."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    by_target = {profile["target"]: profile for profile in new}
    found = [(p, by_target[p["target"]]) for p in old if p["target"] in by_target]
    if not found:
        raise BadInput(
            f"the reports have no target in common: {_targets(old)} and {_targets(new)}",
            fix="run both for the same targets: trnsim run SCRIPT --on trn1,trn2",
        )
    return found


def _targets(profiles: Sequence[Data]) -> str:
    return ", ".join(profile["target"] for profile in profiles)


def _beside(report: Path) -> Path:
    return report / "report.html" if report.is_dir() else report.with_suffix(".html")
