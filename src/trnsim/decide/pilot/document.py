"""Migration document: measurements of a pilot, the renewed decision, and steps of the move.

The sides of a pilot are "today" (today's instances) and "there" (the candidate's instances).

Every figure in USD stands in `pilot.json` too, which then holds the pilot and its result.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.decide.decision import Candidate, Decision, Verdict, WorkloadDecision
from trnsim.decide.guard.limits import MOVED
from trnsim.decide.pilot.checks import Check, PilotResult, RateMeasurement
from trnsim.decide.pilot.plan import PILOT_FILE, Pilot
from trnsim.foreign_text import markdown_text
from trnsim.formatting import amount, amounts, markdown_table

DECISION: Final = "decision.json"
DOCUMENT: Final = "migration.md"
RESULTS: Final = (DECISION, DOCUMENT)
"""Files that the result of a pilot adds to its folder."""


def renewed_decision(pilot: Pilot, result: PilotResult) -> Decision:
    """The decision on the inventory, with a renewed decision on the pilot's workload."""
    old_decision = pilot.decision
    workloads = tuple(
        result.renewed if workload.name == pilot.workload else workload
        for workload in old_decision.workloads
    )
    return replace(old_decision, workloads=workloads)


def write(pilot: Pilot, result: PilotResult, folder: Path) -> list[Path]:
    """Write the result of a pilot to its folder: decision, document, and the completed pilot file.

    Raises:
        BadInput: the folder cannot be written.
    """
    contents = {
        DECISION: renewed_decision(pilot, result).text(),
        DOCUMENT: document(pilot, result),
        PILOT_FILE: replace(pilot, result=result).text(),
    }
    return files.write_together(folder, contents)


def document(pilot: Pilot, result: PilotResult) -> str:
    """Page in Markdown for the people who decide and the people who migrate."""
    old_decision, new_decision = pilot.workload_decision, result.renewed
    close = " (a close call)" if new_decision.is_close_call else ""
    workload = markdown_text(pilot.workload)
    parts = [
        f"# Migration: {workload}, {pilot.today.instance} to {pilot.there.instance}",
        (
            f"**{new_decision.verdict}**{close}. {markdown_text(new_decision.reason)}.\n\n"
            f"Before the pilot: {old_decision.verdict}. {markdown_text(old_decision.reason)}."
        ),
        "## What was measured",
        _measurement_table(pilot, result),
        (
            "A factor is measured time over predicted time. Hours of a side grow by its factor, "
            "and the error of these runs replaces that of its family of plans."
        ),
        _logs(result),
        "## Thresholds",
        _thresholds(result),
        *_shortfalls(result),
        "## The decision, before and after",
        _comparison(pilot, result),
        "## Steps of the migration",
        _steps(pilot, new_decision),
        "## Fallback",
        _fallback(new_decision),
    ]
    return "\n\n".join(parts) + "\n"


def _measurement_table(pilot: Pilot, result: PilotResult) -> str:
    def row(side: RateMeasurement) -> tuple[str, ...]:
        return (
            side.side,
            side.instance,
            f"{amount(side.predicted_per_s)} {pilot.run.unit}/s",
            f"{amount(side.measured_per_s)} {pilot.run.unit}/s",
            f"{side.factor:.3f}",
            f"{side.old_error:.1%}",
            f"{side.new_error:.1%}",
        )

    header = ("side", "instance", "predicted", "measured", "factor", "P90 error before", "after")
    return markdown_table(header, [row(result.today), row(result.there)])


def _logs(result: PilotResult) -> str:
    rows = [
        (markdown_text(log.path), log.side, log.format, str(log.count), _loss(log.loss))
        for log in result.logs
    ]
    return markdown_table(("log", "side", "format", "counted", "loss at the end"), rows)


def _loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _thresholds(result: PilotResult) -> str:
    return markdown_table(
        ("threshold", "legal", "measured", "unit", "met"), [_row(check) for check in result.checks]
    )


def _row(check: Check) -> tuple[str, ...]:
    legal = f"{'>=' if check.is_least else '<='} {amount(check.limit)}"
    figure = "-" if check.figure is None else amount(check.figure)
    is_met = {None: check.note or "not measured", True: "yes", False: "NO"}[check.is_met]
    return (check.name, legal, figure, check.unit, is_met)


def _shortfalls(result: PilotResult) -> list[str]:
    """Lines on thresholds that were missed or not measured."""
    lines: list[str] = []
    if result.failed:
        lines.append(f"Not met: {', '.join(check.name for check in result.failed)}.")
    if result.unmeasured:
        lines.append(f"Not measured: {', '.join(check.name for check in result.unmeasured)}.")
    return lines or ["All thresholds are met."]


def _comparison(pilot: Pilot, result: PilotResult) -> str:
    rows: list[tuple[str, ...]] = []
    for phase, decision in (("before", pilot.workload_decision), ("after", result.renewed)):
        candidate = decision.candidate(pilot.there.instance)
        rows.append(
            (phase, str(decision.verdict), amount(decision.today.usd_per_month), *_money(candidate))
        )
    header = ("", "verdict", "USD a month today", "there", "saving", "pays back in months",
              "break-even USD/h", "draws")  # fmt: skip
    return markdown_table(header, rows)


def _money(candidate: Candidate | None) -> tuple[str, ...]:
    """Cells: USD a month, saving, months until payback, break-even price, share of draws."""
    if candidate is None:
        return ("-",) * 5
    months = candidate.pays_back_months
    saving = candidate.saving
    break_even = candidate.break_even_usd_per_hour
    share = candidate.share_paying_back
    return (
        amounts(candidate.usd_per_month),
        "-" if saving is None else f"{saving.p50:.0%} ({saving.p10:.0%} to {saving.p90:.0%})",
        "-" if months is None or months.p50 is None else f"{months.p50:.1f}",
        "-" if break_even is None else amount(break_even),
        "-" if share is None else f"{share:.0%}",
    )


def _steps(pilot: Pilot, new_decision: WorkloadDecision) -> str:
    """Numbered steps of the migration, or the reason not to begin it."""
    if new_decision.verdict is Verdict.NEEDS_QUOTE:
        candidate = new_decision.candidate(new_decision.best or pilot.there.instance)
        limit = None if candidate is None else candidate.break_even_usd_per_hour
        remark = "" if limit is None else f" It pays back below {amount(limit)} USD an hour."
        return f"None yet: ask AWS for a price of {new_decision.best}.{remark}"
    if new_decision.verdict not in MOVED:
        return f"None: stay on {new_decision.today.instance}."
    cost = pilot.migration_usd
    move, name = new_decision.migration, markdown_text(pilot.workload)
    operators = markdown_text(", ".join(dict.fromkeys(new_decision.split)))
    steps = [
        f"Plan the work: {amount(cost)} USD, at {amount(move.usd_per_week)} USD an engineer-week.",
        f"Keep today's {new_decision.today.instance} until every threshold above is met.",
        *([f"Keep a GPU for what AWS's chips do not run: {operators}."]
          if new_decision.split else []),
        "Compile ahead, and keep the compile cache where all instances read it.",
        f"Move a part of {name} to {new_decision.best}, and compare results with today's.",
        "Move the rest while alerts are quiet for a day.",
        "Give GPUs back as the guard's page says, and check each month's bill.",
    ]  # fmt: skip
    if new_decision.verdict is Verdict.PILOT:
        steps.insert(
            0, f"Settle first what makes this a pilot: {markdown_text(new_decision.reason)}."
        )
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _fallback(new_decision: WorkloadDecision) -> str:
    if new_decision.verdict not in MOVED:
        return "Nothing moves, so there is nothing to fall back from."
    return (
        "Rules of fallback, GPUs to keep, alerts and a page are written by\n\n"
        f"    trnsim guard write {DECISION} --folder guard\n\n"
        f"and each month's saving is read by `trnsim guard bill BILL.csv {DECISION}`."
    )
